//! A small blocking STOMP 1.2 client that never waits without an end.
//!
//! The main type is [`Stomp`], one connection. Raw bytes can be sent and read as well, so that
//! tests can misbehave; nothing here depends on the codec of the broker.

mod frame;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub use frame::Frame;
use frame::parse;

/// How long anything may take unless the caller says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(5);
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a client could not go on.
#[derive(Debug, thiserror::Error)]
pub enum StompError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The broker closed the connection.
    #[error("the broker closed the connection")]
    Closed,
    /// Nothing came in time.
    #[error("nothing came within {0:?}")]
    Timeout(Duration),
    /// The broker sent an ERROR frame.
    #[error("the broker refused: {}: {}", .0.header("message").unwrap_or("no message"), String::from_utf8_lossy(&.0.body))]
    Refused(Box<Frame>),
    /// The broker sent something that is no frame.
    #[error("not a STOMP frame: {0}")]
    Malformed(String),
    /// The broker sent another frame than the one that had to come.
    #[error("expected {expected}, got {got:?}")]
    Unexpected {
        /// What had to come.
        expected: &'static str,
        /// What came.
        got: Box<Frame>,
    },
}

impl StompError {
    /// Whether time ran out, rather than anything going wrong.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout(_))
    }
}

/// How a subscription acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckMode {
    /// Each message counts as handled once it was sent.
    Auto,
    /// An acknowledgement covers all messages before it.
    Client,
    /// Each message is acknowledged by itself.
    ClientIndividual,
}

impl AckMode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Client => "client",
            Self::ClientIndividual => "client-individual",
        }
    }
}

/// One STOMP connection.
pub struct Stomp {
    stream: TcpStream,
    buffer: Vec<u8>,
    messages: VecDeque<Frame>,
    receipts: VecDeque<String>,
    next_receipt: u64,
}

impl Stomp {
    /// Opens a connection and waits for CONNECTED.
    pub fn connect(address: SocketAddr) -> Result<Self, StompError> {
        Self::connect_with(address, &[])
    }

    /// The same with further headers, such as `login`.
    pub fn connect_with(address: SocketAddr, headers: &[(&str, &str)]) -> Result<Self, StompError> {
        let mut client = Self::open(address)?;
        let mut all = vec![("accept-version", "1.2"), ("host", "/")];
        all.extend_from_slice(headers);
        client.send_frame(&Frame::new("CONNECT", &all))?;
        let frame = client.receive_frame(TIMEOUT)?;
        match frame.command.as_str() {
            "CONNECTED" => Ok(client),
            "ERROR" => Err(StompError::Refused(Box::new(frame))),
            _ => Err(unexpected("CONNECTED", frame)),
        }
    }

    /// Opens the socket and says nothing yet.
    pub fn open(address: SocketAddr) -> Result<Self, StompError> {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            messages: VecDeque::new(),
            receipts: VecDeque::new(),
            next_receipt: 0,
        })
    }

    /// The socket itself.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), StompError> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a frame.
    pub fn send_frame(&mut self, frame: &Frame) -> Result<(), StompError> {
        self.send_raw(&frame.encode())
    }

    /// Sends a message without waiting for anything.
    pub fn send(
        &mut self,
        destination: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<(), StompError> {
        let mut all = vec![("destination", destination)];
        all.extend_from_slice(headers);
        self.send_frame(&Frame::new("SEND", &all).with_body(body))
    }

    /// Sends a message that asks for a receipt and says which one to wait for.
    pub fn send_with_receipt(
        &mut self,
        destination: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<String, StompError> {
        let receipt = self.new_receipt();
        let mut all = vec![("receipt", receipt.as_str())];
        all.extend_from_slice(headers);
        self.send(destination, &all, body)?;
        Ok(receipt)
    }

    /// Sends a message that must survive, and waits until the broker has it.
    pub fn send_durable(&mut self, destination: &str, body: &[u8]) -> Result<(), StompError> {
        let headers = [("persistent", "true")];
        let receipt = self.send_with_receipt(destination, &headers, body)?;
        self.wait_receipt(&receipt, TIMEOUT)
    }

    /// Waits for this receipt; messages that come meanwhile are kept.
    pub fn wait_receipt(&mut self, receipt: &str, timeout: Duration) -> Result<(), StompError> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(at) = self.receipts.iter().position(|r| r == receipt) {
                self.receipts.remove(at);
                return Ok(());
            }
            self.sort_in_next_frame(end, timeout)?;
        }
    }

    /// The receipt that came first among those nobody waited for yet.
    pub fn next_receipt(&mut self, timeout: Duration) -> Result<String, StompError> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(receipt) = self.receipts.pop_front() {
                return Ok(receipt);
            }
            self.sort_in_next_frame(end, timeout)?;
        }
    }

    /// Subscribes and waits until the broker says so.
    pub fn subscribe(
        &mut self,
        id: &str,
        destination: &str,
        ack: AckMode,
        headers: &[(&str, &str)],
    ) -> Result<(), StompError> {
        let mut all = vec![
            ("id", id),
            ("destination", destination),
            ("ack", ack.as_str()),
        ];
        all.extend_from_slice(headers);
        self.request("SUBSCRIBE", &all)
    }

    /// Sends a frame with a receipt and waits for it.
    pub fn request(&mut self, command: &str, headers: &[(&str, &str)]) -> Result<(), StompError> {
        let receipt = self.new_receipt();
        let mut all = headers.to_vec();
        all.push(("receipt", &receipt));
        self.send_frame(&Frame::new(command, &all))?;
        self.wait_receipt(&receipt, TIMEOUT)
    }

    /// The next message of any subscription.
    pub fn next_message(&mut self, timeout: Duration) -> Result<Frame, StompError> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(message);
            }
            self.sort_in_next_frame(end, timeout)?;
        }
    }

    /// Acknowledges a message without waiting.
    pub fn ack(&mut self, message: &Frame) -> Result<(), StompError> {
        self.settle("ACK", message)
    }

    /// Refuses a message without waiting.
    pub fn nack(&mut self, message: &Frame) -> Result<(), StompError> {
        self.settle("NACK", message)
    }

    fn settle(&mut self, command: &str, message: &Frame) -> Result<(), StompError> {
        let Some(id) = message.header("ack") else {
            return Err(unexpected("a message with an ack header", message.clone()));
        };
        self.send_frame(&Frame::new(command, &[("id", id)]))
    }

    /// Acknowledges a message and waits until the broker has taken it in.
    pub fn ack_confirmed(&mut self, message: &Frame) -> Result<(), StompError> {
        let Some(id) = message.header("ack") else {
            return Err(unexpected("a message with an ack header", message.clone()));
        };
        let id = id.to_owned();
        self.request("ACK", &[("id", &id)])
    }

    /// Takes leave and waits for the broker's receipt.
    pub fn disconnect(mut self) -> Result<(), StompError> {
        self.request("DISCONNECT", &[])
    }

    /// Closes the socket without a word.
    pub fn close(self) {
        // It may be closed already, which is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// The next frame of any kind. Heart-beats are passed over.
    pub fn receive_frame(&mut self, timeout: Duration) -> Result<Frame, StompError> {
        let end = Instant::now() + timeout;
        self.frame_before(end, timeout)
    }

    /// Waits until the broker has closed the connection, passing over everything it sends.
    pub fn wait_closed(&mut self, timeout: Duration) -> Result<(), StompError> {
        let end = Instant::now() + timeout;
        loop {
            match self.read_more(end, timeout) {
                Ok(()) => self.buffer.clear(),
                Err(StompError::Timeout(waited)) => return Err(StompError::Timeout(waited)),
                Err(_) => return Ok(()),
            }
        }
    }

    fn new_receipt(&mut self) -> String {
        self.next_receipt += 1;
        format!("r{}", self.next_receipt)
    }

    fn sort_in_next_frame(&mut self, end: Instant, timeout: Duration) -> Result<(), StompError> {
        let frame = self.frame_before(end, timeout)?;
        match frame.command.as_str() {
            "MESSAGE" => self.messages.push_back(frame),
            "RECEIPT" => {
                let id = frame.header("receipt-id").unwrap_or_default();
                self.receipts.push_back(id.to_owned());
            }
            "ERROR" => return Err(StompError::Refused(Box::new(frame))),
            _ => return Err(unexpected("MESSAGE or RECEIPT", frame)),
        }
        Ok(())
    }

    fn frame_before(&mut self, end: Instant, timeout: Duration) -> Result<Frame, StompError> {
        loop {
            let beats = self
                .buffer
                .iter()
                .take_while(|b| b"\r\n".contains(b))
                .count();
            self.buffer.drain(..beats);
            if let Some((frame, used)) = parse(&self.buffer)? {
                self.buffer.drain(..used);
                return Ok(frame);
            }
            if self.buffer.len() > FRAME_BYTES_MAX {
                return Err(StompError::Malformed("a frame without end".into()));
            }
            self.read_more(end, timeout)?;
        }
    }

    fn read_more(&mut self, end: Instant, timeout: Duration) -> Result<(), StompError> {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StompError::Timeout(timeout));
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err(StompError::Closed),
            Ok(length) => {
                self.buffer.extend_from_slice(&chunk[..length]);
                Ok(())
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    Err(StompError::Timeout(timeout))
                }
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error.into()),
            },
        }
    }
}

fn unexpected(expected: &'static str, got: Frame) -> StompError {
    let got = Box::new(got);
    StompError::Unexpected { expected, got }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn receipts_and_messages_may_come_in_any_order_and_waiting_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let answer = "CONNECTED\nversion:1.2\n\n\0\n\nMESSAGE\nack:7\n\nhello\0\
                          RECEIPT\nreceipt-id:r1\n\n\0";
            stream.write_all(answer.as_bytes()).unwrap();
            let mut sink = Vec::new();
            stream.read_to_end(&mut sink).unwrap();
            String::from_utf8(sink).unwrap()
        });
        let mut client = Stomp::connect(address).unwrap();
        client.send_durable("/queue/a", b"body").unwrap();
        let message = client.next_message(TIMEOUT).unwrap();
        assert_eq!(message.body, b"hello");
        client.ack(&message).unwrap();
        let nothing = client.next_message(Duration::from_millis(20)).unwrap_err();
        assert!(nothing.is_timeout());
        client.close();
        let sent = server.join().unwrap();
        assert!(sent.contains("persistent:true\ncontent-length:4\n\nbody\0ACK\nid:7\n\n\0"));
    }
}
