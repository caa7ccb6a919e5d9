//! Bytes to and from the server, encrypted or not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::address::Address;

/// A connection to the server.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub async fn connect(address: &Address) -> io::Result<Self> {
        let tcp = TcpStream::connect((address.host.as_str(), address.port)).await?;
        // Frames are gathered before they are written, so waiting for more would only delay them.
        tcp.set_nodelay(true)?;
        let Some(tls) = &address.tls else {
            return Ok(Self::Plain(tcp));
        };
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(tls.clone());
        Ok(Self::Tls(Box::new(connector.connect(name, tcp).await?)))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::{ServerConfig, crypto};

    use super::*;

    /// A server's certificate, and the authority that vouches for it.
    struct Certified {
        authority: tempfile::NamedTempFile,
        acceptor: TlsAcceptor,
    }

    impl Certified {
        fn new() -> Self {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let authority_key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&authority_key).unwrap();
            let authority = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(authority.path(), certificate.pem()).unwrap();
            let key = KeyPair::generate().unwrap();
            let certificate = CertificateParams::new(["127.0.0.1".to_owned()])
                .unwrap()
                .signed_by(&key, &Issuer::new(params, authority_key))
                .unwrap();
            let provider = Arc::new(crypto::ring::default_provider());
            let config = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.into()], key.into())
                .unwrap();
            Self {
                authority,
                acceptor: TlsAcceptor::from(Arc::new(config)),
            }
        }

        fn trusted(&self) -> String {
            format!("?ca={}", self.authority.path().display())
        }
    }

    /// Gives back the first bytes that an encrypted connection brings, and says what it was.
    async fn echo_once(listener: TcpListener, acceptor: TlsAcceptor) -> io::Result<Vec<u8>> {
        let (tcp, _) = listener.accept().await?;
        let mut stream = acceptor.accept(tcp).await?;
        let mut bytes = vec![0; 5];
        stream.read_exact(&mut bytes).await?;
        stream.write_all(&bytes).await?;
        stream.shutdown().await?;
        Ok(bytes)
    }

    async fn connect(
        to: &Certified,
        options: &str,
    ) -> (
        io::Result<Stream>,
        tokio::task::JoinHandle<io::Result<Vec<u8>>>,
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(echo_once(listener, to.acceptor.clone()));
        let address = Address::parse(&format!("stomp+ssl://{address}{options}"));
        let address = address.unwrap_or_else(|error| panic!("{error}"));
        (Stream::connect(&address).await, server)
    }

    #[tokio::test]
    async fn a_server_that_the_named_authority_vouches_for_is_spoken_to() {
        let certified = Certified::new();
        let (stream, server) = connect(&certified, &certified.trusted()).await;
        let mut stream = stream.unwrap();
        let pieces = [IoSlice::new(b"he"), IoSlice::new(b"llo")];
        let written = stream.write_vectored(&pieces).await.unwrap();
        stream.write_all(&b"hello"[written..]).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"hello");
        assert_eq!(server.await.unwrap().unwrap(), b"hello");
    }

    #[tokio::test]
    async fn a_server_that_nobody_vouches_for_is_not() {
        let (stream, server) = connect(&Certified::new(), "").await;
        assert!(stream.is_err());
        assert!(server.await.unwrap().is_err());
    }
}
