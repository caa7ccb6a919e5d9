//! Listens to the events or the live numbers of a node over a WebSocket.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};

use crate::hive::Hive;

const TIMEOUT: Duration = Duration::from_secs(30);
/// How long one look for a frame takes.
const LOOK: Duration = Duration::from_millis(100);

/// Somebody who listens.
pub struct EventClient(WebSocket<TcpStream>);

impl EventClient {
    /// Listens to a node; `query` is what stands behind the question mark.
    pub fn connect(hive: &Hive, query: &str) -> Result<Self> {
        let authorization = format!("Bearer {}", hive.token()?);
        let headers = [("authorization", authorization.as_str())];
        let socket = TcpStream::connect(hive.http_address())?;
        Self::over(socket, hive.http_address(), query, &headers)
    }

    /// The same with a socket that takes little at a time.
    pub fn connect_narrow(hive: &Hive, query: &str) -> Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_recv_buffer_size(4 << 10)?;
        socket.connect(&hive.http_address().into())?;
        let authorization = format!("Bearer {}", hive.token()?);
        let headers = [("authorization", authorization.as_str())];
        Self::over(socket.into(), hive.http_address(), query, &headers)
    }

    /// Listens with these headers. A refusal is an error that names its status.
    pub fn over(
        socket: TcpStream,
        address: SocketAddr,
        query: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self> {
        Self::open(socket, address, &format!("/api/v1/events?{query}"), headers)
    }

    /// Watches the live numbers of a node; `query` is what stands behind the question mark.
    pub fn watch_live(hive: &Hive, query: &str) -> Result<Self> {
        let authorization = format!("Bearer {}", hive.token()?);
        let headers = [("authorization", authorization.as_str())];
        let socket = TcpStream::connect(hive.http_address())?;
        let path = format!("/api/v1/live?{query}");
        Self::open(socket, hive.http_address(), &path, &headers)
    }

    /// The same with a socket that takes little at a time.
    pub fn watch_live_narrow(hive: &Hive, query: &str) -> Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_recv_buffer_size(4 << 10)?;
        socket.connect(&hive.http_address().into())?;
        let authorization = format!("Bearer {}", hive.token()?);
        let headers = [("authorization", authorization.as_str())];
        let path = format!("/api/v1/live?{query}");
        Self::open(socket.into(), hive.http_address(), &path, &headers)
    }

    /// Opens any path with these headers.
    pub fn open(
        socket: TcpStream,
        address: SocketAddr,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self> {
        socket.set_read_timeout(Some(TIMEOUT))?;
        let mut request = format!("ws://{address}{path}").into_client_request()?;
        for (name, value) in headers {
            request
                .headers_mut()
                .insert(*name, HeaderValue::from_str(value)?);
        }
        match tungstenite::client(request, socket) {
            Ok((client, _)) => Ok(Self(client)),
            Err(error) => bail!("{error}"),
        }
    }

    /// The next event, whatever it is.
    pub fn next_event(&mut self) -> Result<Value> {
        let until = Instant::now() + TIMEOUT;
        while Instant::now() < until {
            if let Some(event) = self.next_within(LOOK)? {
                return Ok(event);
            }
        }
        bail!("nothing happened")
    }

    /// The next event, if one comes soon.
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<Value>> {
        self.0.get_ref().set_read_timeout(Some(timeout))?;
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => {
                    let event = serde_json::from_str(&text).context("an event is JSON")?;
                    return Ok(Some(event));
                }
                Ok(Message::Close(frame)) => bail!("closed: {frame:?}"),
                Ok(_) => {}
                Err(tungstenite::Error::Io(error))
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next event that is as wanted; others are passed over.
    pub fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Result<Value> {
        let until = Instant::now() + TIMEOUT;
        let mut seen = Vec::new();
        while Instant::now() < until {
            if let Some(event) = self.next_within(LOOK)? {
                if is_it(&event) {
                    return Ok(event);
                }
                seen.push(event.to_string());
            }
        }
        bail!("never: {what}; it was told {}", seen.join("\n"))
    }
}
