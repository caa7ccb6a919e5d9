//! Just enough of HTTP/1.1 to ask Hivewire something.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use memchr::memmem;

use super::{PeerError, Result};

/// More than it takes to compile a component on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
const HEAD_END: &[u8] = b"\r\n\r\n";

/// What is asked.
pub(crate) struct Request<'a> {
    pub method: &'static str,
    pub path: &'a str,
    pub token: Option<&'a str>,
    /// Bytes of a message, or JSON.
    pub body: &'a [u8],
    pub is_json: bool,
}

impl<'a> Request<'a> {
    pub fn get(path: &'a str, token: Option<&'a str>) -> Self {
        Self {
            method: "GET",
            path,
            token,
            body: b"",
            is_json: false,
        }
    }

    /// Asks on a connection of its own and gives back the body of a successful answer.
    pub fn send(&self, address: SocketAddr) -> Result<Vec<u8>> {
        let Self { method, path, .. } = self;
        let mut answer = self
            .exchange(address)
            .map_err(|error| PeerError::system(format!("ask hivewire for {path}"), error))?;
        let unexpected = |answer: &[u8]| PeerError::UnexpectedAnswer {
            peer: "hivewire".to_owned(),
            answer: format!("{method} {path}: {}", String::from_utf8_lossy(answer)),
        };
        let Some(head_bytes) = memmem::find(&answer, HEAD_END) else {
            return Err(unexpected(b"not an HTTP answer"));
        };
        match answer.split(|byte| *byte == b' ').nth(1) {
            Some(b"200") => Ok(answer.split_off(head_bytes + HEAD_END.len())),
            _ => Err(unexpected(&answer)),
        }
    }

    fn exchange(&self, address: SocketAddr) -> std::io::Result<Vec<u8>> {
        let mut stream = super::connect(address, TIMEOUT)?;
        stream.write_all(self.head(address).as_bytes())?;
        stream.write_all(self.body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    fn head(&self, address: SocketAddr) -> String {
        let Self { method, path, .. } = self;
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n",
            self.body.len()
        );
        if let Some(token) = self.token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        if self.is_json {
            head.push_str("Content-Type: application/json\r\n");
        }
        head.push_str("\r\n");
        head
    }
}
