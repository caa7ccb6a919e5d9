//! Fetching over HTTP without being led astray: only http and https, only public addresses, each
//! redirect checked like the first step, all of it bounded in bytes and time.

use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kernel::net::is_public;
use tokio::sync::watch;
use ureq::config::Config;
use ureq::http::{HeaderMap, Response, StatusCode, Uri, header};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body};
use url::{Host, Url};

use super::settings::DeploySettings;
use super::source::{Component, SourceError};
use crate::secret::Secret;

const REDIRECTS_MAX: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const ETAG_BYTES_MAX: usize = 1_024;

/// Whether something may be fetched from there; if not, why.
pub(super) fn check(url: &Url) -> Result<(), &'static str> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err("only http and https are fetched");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it holds a name or password, which would show in the history");
    }
    match url.host() {
        None => Err("it names no host"),
        Some(Host::Domain("")) => Err("it names no host"),
        Some(_) => Ok(()),
    }
}

/// What a fetch brought.
#[derive(Debug)]
pub enum Fetched {
    /// The server says that it is what is known already.
    Same,
    /// This.
    Component(Component),
}

/// What a request says besides its URL.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    /// What is known already.
    pub etag: Option<&'a str>,
    /// Who asks.
    pub token: Option<&'a Secret>,
    /// How long the answer may be.
    pub bytes_max: u64,
}

/// What a request brought.
#[derive(Debug)]
pub(super) enum Got {
    /// The server says that it is what is known already.
    Same,
    /// This.
    Bytes {
        bytes: Vec<u8>,
        /// What the server calls this version.
        etag: Option<String>,
    },
}

/// Fetches components. All its calls block.
#[derive(Clone)]
pub struct Fetcher {
    agent: Agent,
    settings: DeploySettings,
    live: Arc<Live>,
}

/// What can be changed while the node runs.
struct Live {
    watch_interval_ms: watch::Sender<u64>,
    fetch_seconds_max: AtomicU64,
}

impl Fetcher {
    /// A fetcher that keeps to these settings.
    pub fn new(settings: DeploySettings) -> Self {
        let config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .http_status_as_error(false)
            // Each step is checked here, and a proxy would resolve names for itself.
            .max_redirects(0)
            .proxy(None)
            // A connection that is kept would outlive the check of its address.
            .max_idle_connections(0)
            .user_agent(concat!("hivewire/", env!("CARGO_PKG_VERSION")))
            .build();
        let resolver = CheckedResolver {
            inner: DefaultResolver::default(),
            allow_private: settings.allow_private_sources,
        };
        Self {
            agent: Agent::with_parts(config, DefaultConnector::default(), resolver),
            live: Arc::new(Live {
                watch_interval_ms: watch::Sender::new(settings.watch_interval_ms),
                fetch_seconds_max: AtomicU64::new(settings.fetch_seconds_max),
            }),
            settings,
        }
    }

    /// From now on it looks this often and waits this long, in all copies.
    pub fn change(&self, settings: &DeploySettings) {
        let seconds = settings.fetch_seconds_max;
        self.live
            .fetch_seconds_max
            .store(seconds, Ordering::Relaxed);
        self.live
            .watch_interval_ms
            .send_replace(settings.watch_interval_ms);
    }

    /// How often URIs are looked at.
    pub(super) fn watch_interval_ms(&self) -> watch::Receiver<u64> {
        self.live.watch_interval_ms.subscribe()
    }

    /// What it asks with: it resolves names only to addresses that are allowed.
    pub(super) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// What it keeps to.
    pub fn settings(&self) -> &DeploySettings {
        &self.settings
    }

    /// Fetches, unless the server says that it still has the version with this ETag.
    pub fn fetch(&self, url: &Url, etag: Option<&str>) -> Result<Fetched, SourceError> {
        let asking = Asking {
            etag,
            token: None,
            bytes_max: self.settings.component_bytes_max,
        };
        match self.get_bytes(url, &asking)? {
            Got::Same => Ok(Fetched::Same),
            Got::Bytes { bytes, etag } => {
                let mut component = Component::new(bytes);
                component.etag = etag;
                Ok(Fetched::Component(component))
            }
        }
    }

    /// Fetches anything.
    pub(super) fn get_bytes(&self, url: &Url, asking: &Asking<'_>) -> Result<Got, SourceError> {
        let end = Instant::now()
            + Duration::from_secs(self.live.fetch_seconds_max.load(Ordering::Relaxed));
        let mut at = url.clone();
        let mut asking = *asking;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.get(&at, &asking, end)?;
            match answer.status() {
                StatusCode::OK => return read(&at, answer, asking.bytes_max),
                StatusCode::NOT_MODIFIED if asking.etag.is_some() => return Ok(Got::Same),
                StatusCode::MOVED_PERMANENTLY
                | StatusCode::FOUND
                | StatusCode::SEE_OTHER
                | StatusCode::TEMPORARY_REDIRECT
                | StatusCode::PERMANENT_REDIRECT => {
                    let next = next(&at, answer.headers())?;
                    if next.origin() != at.origin() {
                        // The token is for the one who was named.
                        asking.token = None;
                    }
                    at = next;
                }
                status => {
                    return Err(SourceError::Status {
                        uri: at.to_string(),
                        status: status.as_u16(),
                    });
                }
            }
        }
        Err(SourceError::Redirects {
            uri: url.to_string(),
            redirects_max: REDIRECTS_MAX,
        })
    }

    fn get(
        &self,
        url: &Url,
        asking: &Asking<'_>,
        end: Instant,
    ) -> Result<Response<Body>, SourceError> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(network(url, "it took too long"));
        }
        let mut request = self
            .agent
            .get(url.as_str())
            .header(header::ACCEPT, "application/wasm, */*");
        if let Some(etag) = asking.etag {
            request = request.header(header::IF_NONE_MATCH, etag);
        }
        if let Some(token) = asking.token {
            let bearer = format!("Bearer {}", token.reveal());
            request = request.header(header::AUTHORIZATION, bearer);
        }
        let answer = request.config().timeout_global(Some(left)).build().call();
        answer.map_err(|error| explained(url, error))
    }
}

/// Reads an answer of at most so many bytes.
fn read(url: &Url, answer: Response<Body>, bytes_max: u64) -> Result<Got, SourceError> {
    let too_large = || SourceError::TooLarge {
        from: url.to_string(),
        bytes_max,
    };
    let etag = answer.headers().get(header::ETAG);
    let etag = etag
        .and_then(|etag| etag.to_str().ok())
        .filter(|etag| etag.len() <= ETAG_BYTES_MAX)
        .map(str::to_owned);
    let body = answer.into_body();
    if body.content_length().is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut reader = body.into_with_config().limit(u64::MAX).reader();
    let read = reader.by_ref().take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| network(url, &error.to_string()))?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_large());
    }
    Ok(Got::Bytes { bytes, etag })
}

/// Where a redirect leads.
fn next(at: &Url, headers: &HeaderMap) -> Result<Url, SourceError> {
    let wrong = |reason: &str| SourceError::Redirect {
        uri: at.to_string(),
        reason: reason.to_owned(),
    };
    let location = headers.get(header::LOCATION);
    let location = location
        .and_then(|location| location.to_str().ok())
        .ok_or_else(|| wrong("it does not say where"))?;
    let url = at
        .join(location)
        .map_err(|error| wrong(&error.to_string()))?;
    check(&url).map_err(wrong)?;
    if at.scheme() == "https" && url.scheme() == "http" {
        return Err(wrong("it leads from https to http"));
    }
    Ok(url)
}

fn network(url: &Url, reason: &str) -> SourceError {
    SourceError::Network {
        uri: url.to_string(),
        reason: reason.to_owned(),
    }
}

fn explained(url: &Url, error: ureq::Error) -> SourceError {
    match error {
        ureq::Error::Other(inner) => match inner.downcast::<PrivateAddress>() {
            Ok(private) => SourceError::Private {
                host: url.host_str().unwrap_or_default().to_owned(),
                address: private.0,
            },
            Err(other) => network(url, &other.to_string()),
        },
        other => network(url, &other.to_string()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0} is no public address: set `deploy.allow_private_sources` if this node may go there")]
struct PrivateAddress(IpAddr);

/// Resolves once and lets only public addresses through. The connection goes to what this gave,
/// so a name that means something else a moment later changes nothing.
#[derive(Debug)]
struct CheckedResolver {
    inner: DefaultResolver,
    allow_private: bool,
}

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let addresses = self.inner.resolve(uri, config, timeout)?;
        let private = addresses.iter().find(|address| !is_public(address.ip()));
        match private {
            Some(address) if !self.allow_private => {
                let error = PrivateAddress(address.ip());
                Err(ureq::Error::Other(Box::new(error)))
            }
            _ => Ok(addresses),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    /// Answers requests, one after another, with what `answer` makes of their heads.
    fn server(answer: impl Fn(&str) -> String + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let _ = stream.write_all(answer(&String::from_utf8_lossy(&head)).as_bytes());
            }
        });
        address
    }

    fn with_length(status: &str, headers: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
    }

    fn fetcher(allow_private_sources: bool) -> Fetcher {
        Fetcher::new(DeploySettings {
            allow_private_sources,
            component_bytes_max: 100,
            fetch_seconds_max: 2,
            ..DeploySettings::default()
        })
    }

    fn url(address: SocketAddr, path: &str) -> Url {
        Url::parse(&format!("http://{address}{path}")).unwrap()
    }

    #[test]
    fn addresses_of_this_machine_are_refused_however_they_are_written() {
        let refusing = fetcher(false);
        for host in [
            "127.0.0.1",
            "localhost",
            "[::1]",
            "2130706433",
            "0x7f.1",
            "[::ffff:127.0.0.1]",
        ] {
            let url = Url::parse(&format!("http://{host}:1/w.wasm")).unwrap();
            let error = refusing.fetch(&url, None).unwrap_err();
            assert!(
                matches!(error, SourceError::Private { .. }),
                "{host}: {error}"
            );
        }
        // The control: where it is allowed, the connection is tried.
        let url = Url::parse("http://127.0.0.1:1/w.wasm").unwrap();
        let error = fetcher(true).fetch(&url, None).unwrap_err();
        assert!(matches!(error, SourceError::Network { .. }), "{error}");
    }

    #[test]
    fn what_is_known_already_is_not_sent_again() {
        let address = server(|head| match head.contains("if-none-match: \"one\"") {
            true => with_length("304 Not Modified", "", ""),
            false => with_length("200 OK", "ETag: \"one\"\r\n", "bytes"),
        });
        let fetcher = fetcher(true);
        let url = url(address, "/w.wasm");
        let Fetched::Component(component) = fetcher.fetch(&url, None).unwrap() else {
            panic!("nothing is known yet");
        };
        assert_eq!(&component.bytes[..], b"bytes");
        assert_eq!(component.etag.as_deref(), Some("\"one\""));
        let again = fetcher.fetch(&url, component.etag.as_deref()).unwrap();
        assert!(matches!(again, Fetched::Same));
    }

    #[test]
    fn a_token_is_for_the_server_that_was_named() {
        let echo =
            |head: &str| with_length("200 OK", "", &head.matches("planted").count().to_string());
        let other = server(echo);
        let address = server(move |head| match head.split(' ').nth(1).unwrap() {
            "/away" => with_length("302 Found", &format!("Location: http://{other}/\r\n"), ""),
            "/here" => with_length("302 Found", "Location: /w\r\n", ""),
            _ => echo(head),
        });
        let token = Secret::new("planted");
        let asking = Asking {
            etag: None,
            token: Some(&token),
            bytes_max: 100,
        };
        for (path, times) in [("/w", b"1"), ("/here", b"1"), ("/away", b"0")] {
            let got = fetcher(true)
                .get_bytes(&url(address, path), &asking)
                .unwrap();
            let Got::Bytes { bytes, .. } = got else {
                panic!("nothing was known");
            };
            assert_eq!(bytes, times, "{path}");
        }
    }

    #[test]
    fn redirects_are_followed_a_few_times_and_checked() {
        let address = server(|head| {
            let path = head.split(' ').nth(1).unwrap();
            let to = match path {
                "/3" => "/2",
                "/2" => "1",
                "/1" => "/w.wasm",
                "/loop" => "/loop",
                "/file" => "file:///etc/passwd",
                "/none" => return with_length("302 Found", "", ""),
                _ => return with_length("200 OK", "", "bytes"),
            };
            with_length("302 Found", &format!("Location: {to}\r\n"), "")
        });
        let fetcher = fetcher(true);
        let fetch = |path: &str| fetcher.fetch(&url(address, path), None);
        assert!(matches!(fetch("/3"), Ok(Fetched::Component(_))));
        assert!(matches!(fetch("/loop"), Err(SourceError::Redirects { .. })));
        for path in ["/file", "/none"] {
            assert!(
                matches!(fetch(path), Err(SourceError::Redirect { .. })),
                "{path}"
            );
        }
    }

    #[test]
    fn too_much_too_slow_and_not_there_are_refused() {
        let address = server(|head| match head.split(' ').nth(1).unwrap() {
            "/long" => with_length("200 OK", "", &"x".repeat(101)),
            "/endless" => format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}",
                "x".repeat(200)
            ),
            "/half" => "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf".to_owned(),
            "/slow" => {
                std::thread::sleep(Duration::from_secs(4));
                String::new()
            }
            _ => with_length("404 Not Found", "", "no"),
        });
        let fetcher = fetcher(true);
        let fetch = |path: &str| fetcher.fetch(&url(address, path), None).unwrap_err();
        assert!(matches!(fetch("/long"), SourceError::TooLarge { .. }));
        assert!(matches!(fetch("/endless"), SourceError::TooLarge { .. }));
        assert!(matches!(fetch("/half"), SourceError::Network { .. }));
        assert!(matches!(
            fetch("/other"),
            SourceError::Status { status: 404, .. }
        ));
        assert!(matches!(fetch("/slow"), SourceError::Network { .. }));
    }
}
