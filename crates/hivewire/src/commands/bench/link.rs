//! A connection of the benchmark, with its buffers.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// So often a reader looks up to see whether everything is over.
const READ_TIMEOUT: Duration = Duration::from_millis(200);
const READ_BYTES: usize = 256 << 10;

pub(super) struct Link {
    stream: TcpStream,
    /// What was received and not yet used.
    pub input: Vec<u8>,
    /// What is to be sent.
    pub output: Vec<u8>,
}

impl Link {
    pub fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)
            .with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
        Ok(Self {
            stream,
            input: Vec::new(),
            output: Vec::new(),
        })
    }

    /// Sends what lies in `output`.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.stream
            .write_all(&self.output)
            .context("the node takes nothing more")?;
        self.output.clear();
        Ok(())
    }

    /// Reads what is there into `input`; waits a little if there is nothing. Says whether
    /// something came.
    pub fn read(&mut self) -> anyhow::Result<bool> {
        let held = self.input.len();
        self.input.resize(held + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[held..]);
        self.input.truncate(held + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => bail!("the node closed the connection"),
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(error).context("the connection broke"),
        }
    }
}
