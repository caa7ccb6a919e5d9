//! Bytes in and bytes out.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hivewire_tests::hive::Hive;

pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Long enough to notice bytes that must not come.
const QUIET: Duration = Duration::from_millis(200);

/// A connection that knows nothing of STOMP.
pub struct Wire {
    pub stream: TcpStream,
    /// What came and was not asked for yet.
    pub pending: Vec<u8>,
}

impl Wire {
    pub fn open(hive: &Hive) -> Self {
        Self::to(hive.stomp_address())
    }

    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        let pending = Vec::new();
        Self { stream, pending }
    }

    /// A connection on which CONNECTED has been read.
    pub fn connected(hive: &Hive) -> Self {
        Self::connected_with(hive, "1.2")
    }

    pub fn connected_with(hive: &Hive, version: &str) -> Self {
        let mut wire = Self::open(hive);
        wire.send(format!("CONNECT\naccept-version:{version}\nhost:/\n\n\0"));
        let frame = wire.frame();
        assert!(frame.starts_with("CONNECTED\n"), "{frame:?}");
        wire
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Bytes up to and including the next NUL.
    pub fn frame(&mut self) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(nul) = self.pending.iter().position(|byte| *byte == 0) {
                let frame = self.pending.drain(..=nul).collect();
                return String::from_utf8(frame).unwrap();
            }
            let more = self.read(end);
            assert!(more, "closed, or nothing more, after {:?}", self.text());
        }
    }

    /// Exactly these bytes have to come next.
    #[track_caller]
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) {
        let expected = expected.as_ref();
        let end = Instant::now() + TIMEOUT;
        while self.pending.len() < expected.len() && expected.starts_with(&self.pending) {
            if !self.read(end) {
                break;
            }
        }
        let wanted = String::from_utf8_lossy(expected);
        let got = self.text();
        assert!(
            self.pending.starts_with(expected),
            "expected {wanted:?}, got {got:?}"
        );
        self.pending.drain(..expected.len());
    }

    /// Nothing may come for a while.
    #[track_caller]
    pub fn expect_nothing(&mut self) {
        self.read(Instant::now() + QUIET);
        let got = self.text();
        assert!(self.pending.is_empty(), "{got:?} should not have come");
    }

    /// The broker has to send an ERROR frame with exactly this short message and hang up; gives its body.
    #[track_caller]
    pub fn expect_error(&mut self, message: &str) -> String {
        self.expect_error_with(message, "")
    }

    #[track_caller]
    pub fn expect_error_with(&mut self, message: &str, headers: &str) -> String {
        self.expect(format!(
            "ERROR\nmessage:{message}\n{headers}content-type:text/plain;charset=utf-8\ncontent-length:"
        ));
        let rest = self.frame();
        let (length, body) = rest.split_once("\n\n").unwrap();
        let body = body.trim_end_matches('\0').to_owned();
        assert_eq!(length, body.len().to_string(), "{body:?}");
        self.expect_closed();
        body
    }

    #[track_caller]
    pub fn expect_closed(&mut self) {
        let end = Instant::now() + TIMEOUT;
        while self.read(end) {}
        let got = self.text();
        assert!(Instant::now() < end, "not closed");
        assert!(self.pending.is_empty(), "{got:?} after the last frame");
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }

    /// Reads once; says whether anything came before the end of the time or of the stream.
    pub fn read(&mut self, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        self.stream.set_read_timeout(Some(left)).unwrap();
        let mut chunk = [0; 64 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(count) => {
                self.pending.extend_from_slice(&chunk[..count]);
                count > 0
            }
            Err(_) => false,
        }
    }
}

/// How many messages a queue holds.
pub fn held(hive: &Hive, queue: &str) -> u64 {
    let response = hive.rest("GET", &format!("/api/v1/queues/{queue}"), b"");
    let numbers = response.unwrap().json().unwrap();
    ["waiting", "unacknowledged"]
        .iter()
        .map(|name| numbers[name].as_u64().unwrap_or(0))
        .sum()
}

/// The value of a header of a frame.
pub fn header(frame: &str, name: &str) -> String {
    let line = frame
        .lines()
        .take_while(|line| !line.is_empty())
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("no header {name} in {frame:?}"));
    line.to_owned()
}
