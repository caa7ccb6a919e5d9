//! A blocking connection with a large read buffer and a bound on every wait.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::{LoadError, Result, Step};

/// How much is read at once.
const READ_BYTES: usize = 256 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// One TCP connection to a system under test.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    wait_timeout: Duration,
}

impl Connection {
    /// Connects, with TCP_NODELAY set.
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .map_err(|error| LoadError::system(format!("connect to {address}"), error))?;
        Self::from_stream(stream, READ_BYTES)
    }

    /// Takes over a connected stream, with a read buffer of this size.
    pub fn from_stream(stream: TcpStream, read_bytes: usize) -> Result<Self> {
        stream
            .set_nodelay(true)
            .map_err(|error| LoadError::system("set TCP_NODELAY", error))?;
        let mut connection = Self {
            stream,
            buffer: vec![0; read_bytes],
            start: 0,
            end: 0,
            wait_timeout: WAIT_TIMEOUT,
        };
        connection.set_wait_timeout(WAIT_TIMEOUT)?;
        Ok(connection)
    }

    /// Bounds every later wait.
    pub fn set_wait_timeout(&mut self, timeout: Duration) -> Result<()> {
        self.stream
            .set_read_timeout(Some(timeout))
            .and_then(|()| self.stream.set_write_timeout(Some(timeout)))
            .map_err(|error| LoadError::system("set a timeout", error))?;
        self.wait_timeout = timeout;
        Ok(())
    }

    /// A handle with which another thread can end every wait on this connection.
    pub fn closer(&self) -> Result<Closer> {
        let stream = self
            .stream
            .try_clone()
            .map_err(|error| LoadError::system("duplicate a connection", error))?;
        Ok(Closer { stream })
    }

    /// A handle with which another thread can write to this connection.
    pub fn writer(&self) -> Result<Writer> {
        let stream = self.closer()?.stream;
        Ok(Writer { stream })
    }

    /// Writes everything.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).map_err(|error| {
            if is_timeout(&error) {
                self.silent("the server took no more bytes")
            } else {
                LoadError::system("write to the server", error)
            }
        })
    }

    /// What was read and not yet consumed.
    pub fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Marks bytes at the start of [`Self::unread`] as done with.
    pub fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Waits for more bytes.
    pub fn fill(&mut self, waiting_for: &'static str) -> Result<()> {
        self.make_room();
        match self.stream.read(&mut self.buffer[self.end..]) {
            Ok(0) => Err(LoadError::Closed { waiting_for }),
            Ok(count) => {
                self.end += count;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if is_timeout(&error) => Err(self.silent(waiting_for)),
            Err(error) => Err(LoadError::system(
                format!("read while {waiting_for}"),
                error,
            )),
        }
    }

    /// Reads until `read` finds what it looks for.
    pub fn wait_for<T>(
        &mut self,
        waiting_for: &'static str,
        mut read: impl FnMut(&[u8]) -> Result<Step<T>>,
    ) -> Result<T> {
        loop {
            match read(self.unread())? {
                Step::Incomplete => self.fill(waiting_for)?,
                Step::Done(length, found) => {
                    self.consume(length);
                    if let Some(found) = found {
                        return Ok(found);
                    }
                }
            }
        }
    }

    /// Keeps at least half of the buffer free, and grows it for a frame larger than that.
    fn make_room(&mut self) {
        if self.end <= self.buffer.len() / 2 {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end > self.buffer.len() / 2 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }

    fn silent(&self, waiting_for: &'static str) -> LoadError {
        LoadError::Silent {
            waiting_for,
            timeout_seconds: self.wait_timeout.as_secs(),
        }
    }
}

/// Ends the waits of a [`Connection`] that another thread uses.
#[derive(Debug)]
pub struct Closer {
    stream: TcpStream,
}

impl Closer {
    /// Shuts the connection down. It may be down already, which is as good.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// Writes to a [`Connection`] that another thread reads from.
#[derive(Debug)]
pub struct Writer {
    stream: TcpStream,
}

impl Writer {
    /// Writes everything.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.stream.write_all(bytes);
        written.map_err(|error| LoadError::system("write to the server", error))
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
