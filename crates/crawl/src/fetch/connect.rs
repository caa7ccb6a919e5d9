//! From a URL to a connection: the name is looked up, its addresses are checked, and the connection goes to what was checked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::header::HeaderValue;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::error::FetchError;
use super::guard::Guard;
use super::names::{Names, Resolve};
use super::settings::{FetchSettings, SettingsError, host_and_port};
use super::stream::{Stream, Transport};
use super::tls;

/// So many addresses of a host are tried.
const ADDRESSES_MAX: usize = 6;
/// How long an address has before the next one is tried beside it.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);
/// The longest answer of a proxy to CONNECT.
const PROXY_HEAD_BYTES_MAX: usize = 16 << 10;

/// Makes connections.
pub(super) struct Connector {
    names: Names,
    guard: Guard,
    tls: TlsConnector,
    proxy: Option<ProxyAt>,
}

struct ProxyAt {
    url: Url,
    authorization: Option<HeaderValue>,
}

/// A connection that was made.
pub(super) struct Connected {
    pub stream: Stream,
    pub remote: SocketAddr,
    /// Whether both sides agreed on HTTP/2.
    pub is_two: bool,
}

impl Connector {
    pub fn new(settings: &FetchSettings, resolve: Arc<dyn Resolve>) -> Result<Self, SettingsError> {
        let proxy = settings.proxy.as_ref();
        Ok(Self {
            names: Names::new(settings, resolve),
            guard: Guard::new(settings),
            tls: TlsConnector::from(tls::config(settings)?),
            proxy: proxy
                .map(|proxy| proxy.url().map(ProxyAt::new))
                .transpose()?,
        })
    }

    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Whether requests for this URL are sent to a proxy as they are.
    pub fn is_sent_to_proxy(&self, url: &Url) -> bool {
        self.proxy.is_some() && url.scheme() == "http"
    }

    /// What lets requests through the proxy.
    pub fn proxy_authorization(&self) -> Option<&HeaderValue> {
        self.proxy.as_ref()?.authorization.as_ref()
    }

    /// A connection for this URL.
    pub async fn connect(&self, url: &Url) -> Result<Connected, FetchError> {
        let (tcp, remote) = match &self.proxy {
            None => self.direct(url).await?,
            Some(proxy) => self.through(proxy, url).await?,
        };
        // Failing to set it only makes it slower.
        let _ = tcp.set_nodelay(true);
        if url.scheme() == "http" {
            return Ok(Connected {
                stream: Stream::new(Transport::Plain(tcp)),
                remote,
                is_two: false,
            });
        }
        let encrypted = self.tls.connect(server_name(url)?, tcp).await;
        let encrypted = encrypted.map_err(|error| tls_error(url, &error))?;
        let is_two = encrypted.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Connected {
            stream: Stream::new(Transport::Encrypted(Box::new(encrypted))),
            remote,
            is_two,
        })
    }

    async fn direct(&self, url: &Url) -> Result<(TcpStream, SocketAddr), FetchError> {
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            _ => self.names.addresses(name(url)).await?.to_vec(),
        };
        let addresses = self.guard.allowed(name(url), &addresses)?;
        let connected = first_of(&addresses, port(url)).await;
        connected.map_err(|reason| FetchError::Connect {
            host: host_and_port(url).to_owned(),
            reason,
        })
    }

    /// The proxy may be anywhere: whoever set it up knows where it is.
    async fn through(
        &self,
        proxy: &ProxyAt,
        url: &Url,
    ) -> Result<(TcpStream, SocketAddr), FetchError> {
        let failed = |reason: String| FetchError::Proxy {
            proxy: host_and_port(&proxy.url).to_owned(),
            host: host_and_port(url).to_owned(),
            reason,
        };
        let addresses = match proxy.url.host() {
            Some(Host::Ipv4(address)) => vec![address.into()],
            Some(Host::Ipv6(address)) => vec![address.into()],
            _ => {
                let found = self.names.addresses(name(&proxy.url)).await;
                found.map_err(|error| failed(error.to_string()))?.to_vec()
            }
        };
        let connected = first_of(&addresses, port(&proxy.url)).await;
        let (mut tcp, remote) = connected.map_err(failed)?;
        if url.scheme() == "https" {
            let tunnel = tunnel(&mut tcp, proxy, url).await;
            tunnel.map_err(|error| failed(error.to_string()))?;
        }
        Ok((tcp, remote))
    }
}

impl ProxyAt {
    fn new(mut url: Url) -> Self {
        let decoded = |text: &str| {
            let pairs = format!("x={}", text.replace('+', "%2B"));
            let mut parsed = url::form_urlencoded::parse(pairs.as_bytes());
            parsed
                .next()
                .map(|(_, value)| value.into_owned())
                .unwrap_or_default()
        };
        let password = url.password().unwrap_or_default();
        let credentials = format!("{}:{}", decoded(url.username()), decoded(password));
        let authorization = (credentials != ":").then(|| {
            let text = format!("Basic {}", BASE64_STANDARD.encode(credentials));
            let mut value = HeaderValue::from_str(&text).expect("base64 is visible");
            value.set_sensitive(true);
            value
        });
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Self { url, authorization }
    }
}

/// Asks a proxy for a way to the server.
async fn tunnel(tcp: &mut TcpStream, proxy: &ProxyAt, url: &Url) -> io::Result<()> {
    let target = format!("{}:{}", name(url), port(url));
    let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(authorization) = &proxy.authorization {
        head.extend_from_slice(b"Proxy-Authorization: ");
        head.extend_from_slice(authorization.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    tcp.write_all(&head).await?;
    let mut answer = Vec::with_capacity(256);
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= PROXY_HEAD_BYTES_MAX {
            return Err(io::Error::other("its answer is too long"));
        }
        // One at a time: what comes behind the head belongs to the server.
        answer.push(tcp.read_u8().await?);
    }
    let line = String::from_utf8_lossy(answer.split(|&byte| byte == b'\r').next().unwrap_or(b""));
    let mut words = line.split(' ');
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    match is_http && words.next().is_some_and(|status| status.starts_with('2')) {
        true => Ok(()),
        false => Err(io::Error::other(format!("it answered {line:?}"))),
    }
}

/// The first of these addresses that can be reached. Each has a head start over the next one.
async fn first_of(addresses: &[IpAddr], port: u16) -> Result<(TcpStream, SocketAddr), String> {
    let open = |ip: IpAddr| {
        let address = SocketAddr::new(ip, port);
        async move {
            match TcpStream::connect(address).await {
                Ok(stream) => Ok((stream, address)),
                Err(error) => Err(format!("{address}: {error}")),
            }
        }
    };
    if let &[ip] = addresses {
        return open(ip).await;
    }
    let mut waiting = in_turn(addresses).into_iter();
    let mut trying = JoinSet::new();
    let mut failed = Vec::new();
    loop {
        match waiting.next() {
            Some(ip) => drop(trying.spawn(open(ip))),
            None if trying.is_empty() => return Err(failed.join("; ")),
            None => {}
        }
        let ended = match waiting.len() {
            0 => trying.join_next().await,
            _ => tokio::time::timeout(NEXT_ADDRESS_AFTER, trying.join_next())
                .await
                .unwrap_or_default(),
        };
        match ended {
            Some(Ok(Ok(connected))) => return Ok(connected),
            Some(Ok(Err(reason))) => failed.push(reason),
            Some(Err(error)) => failed.push(error.to_string()),
            None => {}
        }
    }
}

/// IPv4 and IPv6 in turn, beginning with the kind that the resolver put first.
fn in_turn(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let is_first_kind = |ip: &&IpAddr| addresses.first().map(IpAddr::is_ipv4) == Some(ip.is_ipv4());
    let mut first = addresses.iter().filter(is_first_kind);
    let mut second = addresses.iter().filter(|ip| !is_first_kind(ip));
    let mut mixed = Vec::with_capacity(addresses.len().min(ADDRESSES_MAX));
    while mixed.len() < ADDRESSES_MAX {
        let before = mixed.len();
        mixed.extend(first.next());
        mixed.extend(second.next());
        if mixed.len() == before {
            break;
        }
    }
    mixed
}

fn name(url: &Url) -> &str {
    url.host_str().unwrap_or_default()
}

fn port(url: &Url) -> u16 {
    // Guarded URLs have one of two schemes, both with a usual port.
    url.port_or_known_default().unwrap_or(80)
}

fn server_name(url: &Url) -> Result<ServerName<'static>, FetchError> {
    match url.host() {
        Some(Host::Ipv4(address)) => Ok(ServerName::from(IpAddr::from(address))),
        Some(Host::Ipv6(address)) => Ok(ServerName::from(IpAddr::from(address))),
        _ => ServerName::try_from(name(url).to_owned()).map_err(|error| FetchError::Address {
            url: url.to_string(),
            reason: format!("its host cannot be asked for a certificate: {error}"),
        }),
    }
}

fn tls_error(url: &Url, error: &io::Error) -> FetchError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    FetchError::Tls {
        host: host_and_port(url).to_owned(),
        reason: error.to_string(),
        is_certificate: matches!(inner, Some(rustls::Error::InvalidCertificate(_))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_addresses_are_tried_in_turn() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let found = [
            ip("::1"),
            ip("::2"),
            ip("::3"),
            ip("1.1.1.1"),
            ip("1.1.1.2"),
        ];
        let wanted = [
            ip("::1"),
            ip("1.1.1.1"),
            ip("::2"),
            ip("1.1.1.2"),
            ip("::3"),
        ];
        assert_eq!(in_turn(&found), wanted);
        assert_eq!(in_turn(&[ip("1.1.1.1"); 20]).len(), ADDRESSES_MAX);
    }

    #[tokio::test]
    async fn an_address_that_refuses_is_followed_by_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let [dead, alive] = [IpAddr::from([127, 0, 0, 2]), IpAddr::from([127, 0, 0, 1])];
        let (_, remote) = first_of(&[dead, alive], port).await.unwrap();
        assert_eq!(remote.ip(), alive);
        let error = first_of(&[dead, dead], port).await.unwrap_err();
        assert_eq!(error.matches("127.0.0.2").count(), 2, "{error}");
    }

    #[test]
    fn what_lets_through_a_proxy_is_kept_apart_from_its_address() {
        let url = Url::parse("http://us%65r:p%40ss+@127.0.0.1:3128").unwrap();
        let proxy = ProxyAt::new(url);
        assert_eq!(proxy.url.as_str(), "http://127.0.0.1:3128/");
        let wanted = format!("Basic {}", BASE64_STANDARD.encode("user:p@ss+"));
        assert_eq!(proxy.authorization.unwrap(), wanted.as_str());
    }
}
