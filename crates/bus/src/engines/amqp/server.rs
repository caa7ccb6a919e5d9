//! A server as its address names it, and how a connection to it is made.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_rs::traits::Reactor;
use async_rs::util::RuntimeParts;
use async_rs::{Runtime, Tokio};
use futures_lite::{AsyncRead, AsyncWrite, Stream};
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt};
use url::Url;

use crate::error::BusError;
use crate::tls;

/// A server of which only the address is known.
pub(super) struct Server {
    pub uri: AMQPUri,
    encryption: Option<Encryption>,
}

/// How to speak so that nobody else understands.
#[derive(Clone)]
struct Encryption {
    config: Arc<ClientConfig>,
    /// Whom the server must prove to be.
    name: ServerName<'static>,
}

impl Server {
    /// Reads `amqp://user:password@host:port/virtual-host`, or `amqps://…?ca=FILE`.
    pub fn parse(text: &str, heartbeat_seconds: u16) -> Result<Self, BusError> {
        // The text may hold a password, so it is never repeated.
        let mut uri: AMQPUri = text
            .parse()
            .map_err(|error| refused(&format!("it cannot be understood ({error})")))?;
        uri.query.heartbeat = Some(heartbeat_seconds);
        let authority = authority(text);
        let encryption = match uri.scheme {
            AMQPScheme::AMQPS => {
                let host = uri.authority.host.trim_matches(['[', ']']).to_owned();
                Some(Encryption {
                    config: Arc::new(tls::trusting(authority.as_deref())?),
                    name: ServerName::try_from(host)
                        .map_err(|_| refused("no certificate can be for its host"))?,
                })
            }
            AMQPScheme::AMQP if authority.is_some() => {
                return Err(refused("`ca` is for amqps:// only"));
            }
            AMQPScheme::AMQP => None,
        };
        Ok(Self { uri, encryption })
    }

    /// Makes a connection.
    pub async fn connect(&self, properties: ConnectionProperties) -> lapin::Result<Connection> {
        let uri = self.uri.clone();
        let Some(encryption) = self.encryption.clone() else {
            return Connection::connect_uri(uri, properties).await;
        };
        let reactor = Encrypted {
            tokio: Tokio::current(),
            encryption,
        };
        let runtime = Runtime::new(RuntimeParts::new(Tokio::current(), reactor));
        let connect = async |uri: AMQPUri, runtime: Runtime<RuntimeParts<Tokio, Encrypted>>| {
            let host = uri.authority.host.trim_matches(['[', ']']);
            let addresses = tokio::net::lookup_host((host, uri.authority.port)).await?;
            let addresses: Vec<SocketAddr> = addresses.collect();
            Ok(AsyncTcpStream::Plain(runtime.tcp_connect(addresses).await?))
        };
        Connection::connector(uri, runtime, connect, properties).await
    }
}

/// The file with certificates of authorities that an address names.
fn authority(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let mut pairs = url.query_pairs();
    let found = pairs.find(|(name, _)| name == "ca");
    found.map(|(_, file)| file.into_owned())
}

fn refused(what: &str) -> BusError {
    BusError::Refused {
        reason: format!("the AMQP address does not serve: {what}"),
    }
}

/// Gives the client library connections that are encrypted as those of all other engines are; it
/// knows nothing of that.
#[derive(Clone)]
struct Encrypted {
    tokio: Tokio,
    encryption: Encryption,
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Encrypted")
    }
}

impl Reactor for Encrypted {
    type TcpStream = Compat<TlsStream<TcpStream>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.tokio.register(socket)
    }

    fn sleep(&self, time: Duration) -> Self::Sleep {
        self.tokio.sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.tokio.interval(time)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        let Encryption { config, name } = self.encryption.clone();
        async move {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            let stream = TlsConnector::from(config).connect(name, tcp).await?;
            Ok(stream.compat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_never_repeated() {
        let server = Server::parse("amqp://user:secret@localhost:1/x", 3).unwrap();
        assert_eq!(server.uri.query.heartbeat, Some(3));
        assert!(server.encryption.is_none());
        for wrong in [
            "http://user:secret@x",
            "amqp://user:secret@x?ca=file",
            "amqps://user:secret@x?ca=/no/such/file",
            "amqps://user:secret@a..b",
        ] {
            let error = Server::parse(wrong, 3).err().unwrap();
            assert!(!error.can_retry());
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn an_encrypted_server_has_its_own_port() {
        let server = Server::parse("amqps://user:secret@localhost/x", 3).unwrap();
        assert_eq!(server.uri.authority.port, 5671);
        assert!(server.encryption.is_some());
    }
}
