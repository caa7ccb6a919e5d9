//! One connection that keeps alive, without waiting: at most one request is open on it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Socket, Type};

use super::answer::{self, Answer};

/// Longer than any answer of these services.
const BUFFER_BYTES: usize = 4 * 1024;

/// How far an answer is.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// Not whole yet.
    Waiting,
    /// Whole.
    Answered {
        /// Its status.
        status: u16,
        /// Whether its body is the one that was expected.
        right: bool,
        /// Whether the connection serves for no further request.
        closes: bool,
    },
    /// The server has ended the connection.
    Ended,
}

/// A connection to a service.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// What the socket did not take at once; a new one takes nothing before it is connected.
    unsent: Vec<u8>,
}

impl Connection {
    /// Begins to connect.
    pub fn open(address: SocketAddr) -> std::io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&address.into()) {
            // 115 is EINPROGRESS, which has no kind of its own.
            Err(error) if error.raw_os_error() != Some(115) => return Err(error),
            _ => {}
        }
        Ok(Self {
            stream: socket.into(),
            received: Vec::with_capacity(BUFFER_BYTES),
            unsent: Vec::new(),
        })
    }

    /// The socket, to be watched.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a request, or keeps what the socket does not take until it takes more. Gives false if the connection has ended.
    pub fn send(&mut self, request: &[u8]) -> bool {
        self.unsent.extend_from_slice(request);
        self.flush()
    }

    /// Sends what was kept. Gives false if the connection has ended.
    pub fn flush(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(written) => drop(self.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::NotConnected
                    );
                }
            }
        }
        true
    }

    /// Reads what has come, and compares the body with the expected one.
    pub fn receive(&mut self, expected: &[u8]) -> Result<Progress, answer::Malformed> {
        let mut bytes = [0; BUFFER_BYTES];
        let mut ended = false;
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => ended = true,
                Ok(count) => {
                    self.received.extend_from_slice(&bytes[..count]);
                    // A shorter read has emptied the socket.
                    if count == bytes.len() {
                        continue;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => ended = true,
            }
            break;
        }
        let Some(answer) = answer::read(&self.received)? else {
            return Ok(if ended {
                Progress::Ended
            } else {
                Progress::Waiting
            });
        };
        let Answer {
            status,
            body,
            bytes,
            closes,
        } = answer;
        let progress = Progress::Answered {
            status,
            right: body == expected,
            closes: closes || ended,
        };
        self.received.drain(..bytes);
        Ok(progress)
    }
}
