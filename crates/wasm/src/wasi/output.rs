//! Standard output and standard error as lines of the worker's log.

use std::sync::Arc;

use bytes::Bytes;
use kernel::worker::LogLevel;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamResult};

use crate::output::Output;

const WRITE_BYTES_MAX: usize = 64 << 10;

/// Writes to the log at one level.
#[derive(Clone)]
pub(super) struct LogStream {
    output: Arc<Output>,
    level: LogLevel,
}

impl LogStream {
    pub(super) fn new(output: &Arc<Output>, level: LogLevel) -> Self {
        Self {
            output: output.clone(),
            level,
        }
    }
}

impl IsTerminal for LogStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LogStream {
    /// Only WASI 0.3 asks for this one, and it is not offered.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl OutputStream for LogStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.output.bytes(self.level, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[async_trait::async_trait]
impl Pollable for LogStream {
    async fn ready(&mut self) {}
}
