//! Requests as they come over a connection, and ways to answer them, good and bad.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a client may keep a connection open without asking for anything.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// How long a client may refuse to read.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// More than any request here.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Such as GET.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The host, with the port.
    pub host: String,
    /// All headers with lower-case names.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// The next one on a connection; nothing at its end.
    pub(super) fn read(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Self>> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        loop {
            let mut line = String::new();
            bytes += reader.read_line(&mut line)?;
            if line.is_empty() || bytes > HEAD_BYTES_MAX {
                return Ok(None);
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        Ok(Self::parse(&lines))
    }

    fn parse(lines: &[String]) -> Option<Self> {
        let (first, rest) = lines.split_first()?;
        let mut words = first.split(' ');
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let headers: Vec<(String, String)> = rest
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let host = headers.iter().find(|(name, _)| name == "host");
        Some(Self {
            method,
            path,
            host: host.map(|(_, value)| value.clone())?,
            headers,
        })
    }

    /// What stands behind a prefix of the path, without slashes at its begin.
    pub fn below(&self, prefix: &str) -> &str {
        let rest = self.path.strip_prefix(prefix).unwrap_or_default();
        rest.trim_start_matches('/')
    }

    /// A header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It takes the next request.
    Stay,
    /// It is closed, whether or not the client was told.
    Close,
}

/// Where an answer goes.
pub struct Reply<'a> {
    stream: &'a mut TcpStream,
}

impl<'a> Reply<'a> {
    pub(super) fn new(stream: &'a mut TcpStream) -> Self {
        Self { stream }
    }

    /// A page.
    pub fn html(&mut self, body: impl AsRef<[u8]>) -> io::Result<Then> {
        self.whole(
            200,
            &[("Content-Type", "text/html; charset=utf-8")],
            body.as_ref(),
        )
    }

    /// An answer that is as it says.
    pub fn whole(
        &mut self,
        status: u16,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Then> {
        let length = body.len().to_string();
        let mut all = headers.to_vec();
        all.push(("Content-Length", &length));
        // In one piece, so that no packet waits for the acknowledgement of another.
        let mut bytes = head(status, &all);
        bytes.extend_from_slice(body);
        self.stream.write_all(&bytes)?;
        Ok(Then::Stay)
    }

    /// A redirect.
    pub fn redirect(&mut self, status: u16, to: &str) -> io::Result<Then> {
        self.whole(status, &[("Location", to)], b"")
    }

    /// Only a head, with nothing added.
    pub fn head(&mut self, status: u16, headers: &[(&str, &str)]) -> io::Result<()> {
        self.stream.write_all(&head(status, headers))
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// The same bytes again and again with pauses, until the client goes or the time is over.
    pub fn repeat(&mut self, bytes: &[u8], pause: Duration, most: Duration) -> io::Result<Then> {
        let end = Instant::now() + most;
        while Instant::now() < end {
            self.stream.write_all(bytes)?;
            std::thread::sleep(pause);
        }
        Ok(Then::Close)
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason(status));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head.into_bytes()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        300..400 => "Elsewhere",
        404 => "Not Found",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Status",
    }
}

/// Sets what every connection keeps to.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_MAX))?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))
}
