//! A server on a port of its own, and clients that speak bytes.

#![allow(dead_code)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State};
use axum::http::{Response, StatusCode, header};
use axum::routing::{get, post};
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use web::edge::{EdgeHandle, EdgeLimits, EdgeNumbers, Refusal, Serving, serve};

/// No test waits longer than that for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// As good as no limit.
pub const HOUR_MS: u64 = 3_600_000;
pub const LARGE_BYTES: usize = 64 << 20;

/// Limits that no test meets by accident.
pub fn wide() -> EdgeLimits {
    EdgeLimits {
        header_timeout_ms: HOUR_MS,
        keep_alive_timeout_ms: HOUR_MS,
        body_gap_timeout_ms: HOUR_MS,
        body_timeout_ms: HOUR_MS,
        write_timeout_ms: HOUR_MS,
        ending_timeout_ms: 20_000,
        ..EdgeLimits::default()
    }
}

pub struct Server {
    pub runtime: Runtime,
    pub address: SocketAddr,
    pub handle: EdgeHandle,
    /// Each permit lets one request to `/held` go on.
    pub held: Arc<Semaphore>,
    serving: Option<Serving>,
}

impl Server {
    pub fn start(limits: EdgeLimits) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let held = Arc::new(Semaphore::new(0));
        let router = router(held.clone());
        let (serving, address) = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            (
                serve(listener, router, limits, std::future::pending()),
                address,
            )
        });
        Self {
            runtime,
            address,
            handle: serving.handle(),
            held,
            serving: Some(serving),
        }
    }

    pub fn connect(&self) -> Client {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Client(socket)
    }

    pub fn numbers(&self) -> EdgeNumbers {
        self.handle.numbers()
    }

    pub fn refused(&self, reason: Refusal) -> u64 {
        self.numbers().refused(reason)
    }

    /// Waits until this is so.
    pub fn until(&self, what: &str, so: impl Fn(&EdgeNumbers) -> bool) {
        until(what, || so(&self.numbers()));
    }

    /// Ends it and says how many connections were cut off.
    pub fn end(mut self) -> usize {
        self.handle.stop();
        let serving = self.serving.take().unwrap();
        self.runtime.block_on(serving.ended())
    }

    /// Waits for the end of a server that was told to stop.
    pub fn ended(mut self) -> usize {
        let serving = self.serving.take().unwrap();
        self.runtime.block_on(serving.ended())
    }
}

/// Waits until this is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn router(held: Arc<Semaphore>) -> Router {
    Router::new()
        .route("/", get(async || "hello"))
        .route(
            "/peer",
            get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string()),
        )
        .route("/n/{n}", get(async |Path(n): Path<u32>| n.to_string()))
        .route("/length", post(async |body: Bytes| body.len().to_string()))
        .route("/ignore", post(async || "ignored"))
        .route("/large", get(async || Body::from(vec![b'x'; LARGE_BYTES])))
        .route("/held", get(hold))
        .route("/echo", get(switch))
        .layer(DefaultBodyLimit::disable())
        .with_state(held)
}

async fn hold(State(held): State<Arc<Semaphore>>) -> &'static str {
    held.acquire().await.unwrap().forget();
    "held"
}

/// Becomes a protocol that gives back what it gets, in capitals. The header `No` makes it stay HTTP.
async fn switch(request: Request) -> Response<Body> {
    if request.headers().contains_key("no") {
        return Response::new(Body::from("stayed"));
    }
    tokio::spawn(async move {
        let mut socket = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
        let mut bytes = [0; 1_024];
        while let Ok(length @ 1..) = socket.read(&mut bytes).await {
            let answer = bytes[..length].to_ascii_uppercase();
            if socket.write_all(&answer).await.is_err() {
                break;
            }
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header(header::CONNECTION, "upgrade")
        .header(header::UPGRADE, "capitals")
        .body(Body::empty())
        .unwrap()
}

pub struct Client(pub TcpStream);

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn has(&self, header: &str) -> bool {
        self.head
            .to_ascii_lowercase()
            .contains(&format!("\r\n{header}"))
    }

    /// Asserts that it is a problem document with this status that ends the connection.
    pub fn is_problem(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(
            self.has("content-type: application/problem+json\r\n"),
            "{self:?}"
        );
        let problem: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(problem["status"], status, "{self:?}");
        assert!(
            problem["type"]
                .as_str()
                .unwrap()
                .starts_with("urn:hivewire:"),
            "{self:?}"
        );
        assert!(!problem["title"].as_str().unwrap().is_empty(), "{self:?}");
        assert!(!problem["detail"].as_str().unwrap().is_empty(), "{self:?}");
    }
}

impl Client {
    /// Sends text, with ends of lines as HTTP has them.
    pub fn send(&mut self, lines: &str) {
        self.send_bytes(lines.replace('\n', "\r\n").as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Sends what can be sent; the server may have closed already.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\nHost: a\n\n"));
        self.answer()
    }

    /// Reads one answer, neither more nor less.
    pub fn answer(&mut self) -> Answer {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            let read = self.0.read(&mut byte).unwrap();
            assert_eq!(read, 1, "closed after {:?}", String::from_utf8_lossy(&head));
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head[9..12].parse().unwrap();
        let length = head.to_ascii_lowercase();
        let length = length
            .split_once("\r\ncontent-length: ")
            .map_or("0", |(_, rest)| rest.split_once('\r').unwrap().0);
        let mut body = vec![0; length.parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        Answer { status, head, body }
    }

    /// Asserts that nothing more comes, and that the server has closed.
    pub fn is_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{:?}", String::from_utf8_lossy(&rest));
    }

    /// Reads until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error} after {} bytes", rest.len()),
        }
        rest
    }

    /// Whether nothing has come and the server has not closed.
    pub fn is_open(&mut self) -> bool {
        self.0.set_nonblocking(true).unwrap();
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).unwrap();
        matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    pub fn close(self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
