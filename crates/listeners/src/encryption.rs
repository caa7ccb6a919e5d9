//! Connections that nobody else can read: TLS between a socket and a session.

use std::io::{self, Read, Write};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, crypto};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::{ReadHalf, WriteHalf};

use crate::ListenError;

/// So much may be encrypted and not yet written.
const UNWRITTEN_BYTES_MAX: usize = 64 * 1024;

/// What shows clients whom they speak to, from files with a certificate and its key.
pub(crate) fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ListenError> {
    let refused = |file: &Path, reason: &dyn std::fmt::Display| ListenError::Certificate {
        file: file.to_owned(),
        reason: reason.to_string(),
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| refused(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| refused(key, &error))?;
    let provider = Arc::new(crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            let config = config.with_no_client_auth();
            config.with_single_cert(chain, secret)
        })
        .map(Arc::new)
        .map_err(|error| refused(certificate, &error))
}

/// The encryption of one connection. The handshake is part of reading and writing.
pub(crate) struct Encryption(Box<ServerConnection>);

impl Encryption {
    pub fn new(config: Arc<ServerConfig>) -> Result<Self, rustls::Error> {
        let mut connection = ServerConnection::new(config)?;
        connection.set_buffer_limit(Some(UNWRITTEN_BYTES_MAX));
        Ok(Self(Box::new(connection)))
    }

    /// Whether something encrypted waits to be written.
    pub fn wants_write(&self) -> bool {
        self.0.wants_write()
    }

    /// Reads what the client meant. What that needs to be answered is written if there is room.
    pub fn poll_read(
        &mut self,
        mut read: Pin<&mut ReadHalf<'_>>,
        write: &WriteHalf<'_>,
        context: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.0.reader().read(target.initialize_unfilled()) {
                Ok(count) => {
                    target.advance(count);
                    return Poll::Ready(Ok(()));
                }
                // It hung up without a farewell, which our protocols do not need.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            let mut source = Source {
                read: read.as_mut(),
                context,
            };
            match self.0.read_tls(&mut source) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
            let processed = self.0.process_new_packets();
            // If it cannot go on, this tells the client why.
            let pushed = self.push(write);
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            pushed?;
        }
    }

    /// Takes a part of `bytes` and writes what there is room for.
    pub fn try_write(&mut self, write: &WriteHalf<'_>, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.0.writer().write(bytes)?;
        self.push(write)?;
        match taken {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    /// Writes what waits, as far as there is room.
    pub fn push(&mut self, write: &WriteHalf<'_>) -> io::Result<()> {
        while self.0.wants_write() {
            match self.0.write_tls(&mut Sink(write)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that nothing more comes.
    pub fn close(&mut self, write: &WriteHalf<'_>) {
        self.0.send_close_notify();
        // Whoever does not take it is cut off.
        let _ = self.push(write);
    }
}

/// A socket, as TLS reads it.
struct Source<'a, 'b, 'c> {
    read: Pin<&'a mut ReadHalf<'b>>,
    context: &'a mut Context<'c>,
}

impl Read for Source<'_, '_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut target = ReadBuf::new(bytes);
        match self.read.as_mut().poll_read(self.context, &mut target) {
            Poll::Ready(Ok(())) => Ok(target.filled().len()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// A socket, as TLS writes to it.
struct Sink<'a, 'b>(&'a WriteHalf<'b>);

impl Write for Sink<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
