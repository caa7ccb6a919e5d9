//! Many who listen to the events of a node, each over a WebSocket of its own.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};

use super::{ClusterError, PATIENCE, Result};

/// What marks an event that is waited for.
const MARK: &str = "\"text\":\"crowd-";

/// Those who listen. Dropping it closes all connections.
#[derive(Debug)]
pub struct Ears {
    sockets: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
    heard: mpsc::Receiver<(u32, Instant)>,
}

impl Ears {
    /// So many begin to listen to everything.
    pub fn open(address: SocketAddr, token: &str, count: usize) -> Result<Self> {
        let (tell, heard) = mpsc::channel();
        let mut ears = Self {
            sockets: Vec::new(),
            threads: Vec::new(),
            heard,
        };
        for _ in 0..count {
            let socket = connect(address, token)?;
            let own = socket.get_ref().try_clone().map_err(unexpected)?;
            ears.sockets.push(own);
            let tell = tell.clone();
            ears.threads
                .push(std::thread::spawn(move || listen(socket, &tell)));
        }
        Ok(ears)
    }

    /// Waits until all have heard this note, and gives when the last one did.
    pub fn all_heard(&self, note: u32) -> Result<Instant> {
        let mut last = Instant::now();
        let deadline = last + PATIENCE;
        let mut left = self.threads.len();
        while left > 0 {
            let wait = deadline.saturating_duration_since(Instant::now());
            let (number, at) = self.heard.recv_timeout(wait).map_err(|_| {
                let seen = format!("{left} of {} have not", self.threads.len());
                let what = "that all hear an event".to_owned();
                ClusterError::TooLate { what, seen }
            })?;
            if number == note {
                left -= 1;
                last = last.max(at);
            }
        }
        Ok(last)
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        for socket in &self.sockets {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn unexpected(error: impl std::fmt::Display) -> ClusterError {
    ClusterError::Unexpected(error.to_string())
}

fn connect(address: SocketAddr, token: &str) -> Result<WebSocket<TcpStream>> {
    let socket = TcpStream::connect(address).map_err(unexpected)?;
    socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .map_err(unexpected)?;
    let url = format!("ws://{address}/api/v1/events");
    let mut request = url.into_client_request().map_err(unexpected)?;
    let token = HeaderValue::from_str(&format!("Bearer {token}")).map_err(unexpected)?;
    request.headers_mut().insert("authorization", token);
    let (client, _) = tungstenite::client(request, socket).map_err(unexpected)?;
    client
        .get_ref()
        .set_read_timeout(None)
        .map_err(unexpected)?;
    Ok(client)
}

/// Listens until the connection ends.
fn listen(mut socket: WebSocket<TcpStream>, tell: &mpsc::Sender<(u32, Instant)>) {
    while let Ok(message) = socket.read() {
        let Message::Text(text) = message else {
            continue;
        };
        let at = Instant::now();
        let Some((_, rest)) = text.split_once(MARK) else {
            continue;
        };
        let digits = rest.split('"').next().unwrap_or_default();
        if let Ok(number) = digits.parse()
            && tell.send((number, at)).is_err()
        {
            return;
        }
    }
}
