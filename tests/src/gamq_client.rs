//! Small blocking gamq clients, over TCP and UDP, that never wait without an end.
//!
//! [`Gamq`] is one TCP connection, [`GamqUdp`] one UDP socket. Both can send raw bytes.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long anything may take unless the caller says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// What the broker answers to a publish once acknowledgements are on.
pub const PUBLISH_ACKNOWLEDGED: &[u8] = b"PUBACK\n\n";
const DELIVERY_END: &[u8] = b"\r\n.\r\n";
const DELIVERY_BYTES_MAX: usize = 64 * 1024 * 1024;
const DATAGRAM_BYTES_MAX: usize = 65_536;

/// One gamq connection over TCP.
pub struct Gamq {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Gamq {
    /// Opens a connection; the protocol has no greeting.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let buffer = Vec::new();
        Ok(Self { stream, buffer })
    }

    /// The socket itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Publishes; the body must hold no line that is only a full stop.
    pub fn publish(&mut self, name: &str, body: &[u8]) -> io::Result<()> {
        self.send_raw(&publish_bytes(name, body))
    }

    /// Publishes and waits for the acknowledgement, which must have been switched on.
    pub fn publish_acknowledged(&mut self, name: &str, body: &[u8]) -> io::Result<()> {
        self.publish(name, body)?;
        self.expect(PUBLISH_ACKNOWLEDGED, TIMEOUT)
    }

    /// Switches acknowledgements of publishes on or off.
    pub fn set_ack(&mut self, on: bool) -> io::Result<()> {
        let state = if on { "on" } else { "off" };
        self.send_raw(format!("SETACK {state}\r\n").as_bytes())
    }

    /// Subscribes and makes sure, by a ping, that the broker has seen it.
    pub fn subscribe(&mut self, name: &str) -> io::Result<()> {
        self.send_raw(format!("SUB {name}\r\n").as_bytes())?;
        self.ping()
    }

    /// Sends a ping and waits for its answer. Nothing else may be on its way.
    pub fn ping(&mut self) -> io::Result<()> {
        self.send_raw(b"PINGREQ\r\n")?;
        self.expect(b"PINGRESP\n", TIMEOUT)
    }

    /// The next delivery's body.
    pub fn receive(&mut self, timeout: Duration) -> io::Result<Vec<u8>> {
        let body = self.read_until(DELIVERY_END, timeout)?;
        Ok(body[..body.len() - DELIVERY_END.len()].to_vec())
    }

    /// Waits for exactly these bytes.
    pub fn expect(&mut self, expected: &[u8], timeout: Duration) -> io::Result<()> {
        let end = Instant::now() + timeout;
        while self.buffer.len() < expected.len() && expected.starts_with(&self.buffer) {
            self.read_more(end)?;
        }
        if !self.buffer.starts_with(expected) {
            let text = String::from_utf8_lossy(&self.buffer);
            let expected = String::from_utf8_lossy(expected);
            let message = format!("expected {expected:?}, got {text:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        self.buffer.drain(..expected.len());
        Ok(())
    }

    /// Everything up to and including `mark`.
    pub fn read_until(&mut self, mark: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
        let end = Instant::now() + timeout;
        loop {
            let found = self.buffer.windows(mark.len()).position(|w| w == mark);
            if let Some(at) = found {
                return Ok(self.buffer.drain(..at + mark.len()).collect());
            }
            if self.buffer.len() > DELIVERY_BYTES_MAX {
                let message = "a delivery without end";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.read_more(end)?;
        }
    }

    /// Waits until the broker has closed the connection, passing over what it sends.
    pub fn wait_closed(&mut self, timeout: Duration) -> io::Result<()> {
        let end = Instant::now() + timeout;
        loop {
            match self.read_more(end) {
                Ok(()) => self.buffer.clear(),
                Err(error) if is_timeout(&error) => return Err(error),
                Err(_) => return Ok(()),
            }
        }
    }

    fn read_more(&mut self, end: Instant) -> io::Result<()> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                self.buffer.extend_from_slice(&chunk[..length]);
                Ok(())
            }
        }
    }
}

/// Whether time ran out, rather than anything going wrong.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// A publish as it goes over the wire.
pub fn publish_bytes(name: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("PUB {name}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    if !body.ends_with(b"\n") {
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b".\r\n");
    bytes
}

/// One gamq client over UDP: each command, body and final full stop is a datagram of its own.
pub struct GamqUdp {
    socket: UdpSocket,
}

impl GamqUdp {
    /// A socket that talks to this broker only.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(address)?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { socket })
    }

    /// The socket itself.
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Sends one datagram.
    pub fn send_raw(&self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes).map(|_| ())
    }

    /// Publishes in three datagrams.
    pub fn publish(&self, name: &str, body: &[u8]) -> io::Result<()> {
        self.send_raw(format!("PUB {name}\r\n").as_bytes())?;
        self.send_raw(body)?;
        self.send_raw(b".\r\n")
    }

    /// The next datagram.
    pub fn receive(&self, timeout: Duration) -> io::Result<Vec<u8>> {
        self.socket.set_read_timeout(Some(timeout))?;
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        let length = self.socket.recv(&mut datagram)?;
        datagram.truncate(length);
        Ok(datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn deliveries_and_acknowledgements_are_told_apart_by_their_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream
                .write_all(b"PUBACK\n\n0\n\r\n.\r\nPINGRESP\n")
                .unwrap();
            let mut sink = Vec::new();
            stream.read_to_end(&mut sink).unwrap();
            sink
        });
        let mut client = Gamq::connect(address).unwrap();
        client.publish_acknowledged("q", b"two\nlines").unwrap();
        assert_eq!(client.receive(TIMEOUT).unwrap(), b"0\n");
        client.ping().unwrap();
        let late = client.receive(Duration::from_millis(20)).unwrap_err();
        assert!(is_timeout(&late));
        drop(client);
        let sent = server.join().unwrap();
        assert_eq!(sent, b"PUB q\r\ntwo\nlines\r\n.\r\nPINGREQ\r\n");
    }
}
