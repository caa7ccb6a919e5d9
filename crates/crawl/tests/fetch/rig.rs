//! Small servers on loopback that write exactly the bytes a test wants.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crawl::fetch::{FetchError, FetchErrorKind, FetchRequest, FetchSettings, Fetched, Fetcher};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// What a server does with a request.
pub enum Answer {
    /// Writes this, and waits for the next request.
    Stay(Vec<u8>),
    /// Writes this, and closes the connection.
    Close(Vec<u8>),
    /// Writes the first, and then the second again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// Writes this byte by byte, with so much time in between.
    Drip(Vec<u8>, Duration),
    /// Writes this and then nothing, but leaves the connection open.
    Stall(Vec<u8>),
}

/// A server.
pub struct Server {
    pub address: SocketAddr,
    /// The heads of all requests.
    pub requests: Arc<Mutex<Vec<String>>>,
    /// How many connections there were.
    pub accepted: Arc<AtomicUsize>,
    /// How many connections there are.
    pub open: Arc<AtomicUsize>,
    /// The most there were at once.
    pub open_most: Arc<AtomicUsize>,
}

pub trait Bytes: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Bytes for T {}

/// Serves what `answer` makes of the number of a request on its connection, and of its head.
pub async fn serve(answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static) -> Server {
    serve_through(answer, |stream| async { Some(stream) }).await
}

/// The same, through something that is agreed on at the start of each connection.
pub async fn serve_through<S, F>(
    answer: impl Fn(usize, &str) -> Answer + Send + Sync + 'static,
    begin: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> Server
where
    S: Bytes,
    F: Future<Output = Option<S>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = Server {
        address: listener.local_addr().unwrap(),
        requests: Arc::default(),
        accepted: Arc::default(),
        open: Arc::default(),
        open_most: Arc::default(),
    };
    let answer = Arc::new(answer);
    let (requests, accepted) = (server.requests.clone(), server.accepted.clone());
    let (open, open_most) = (server.open.clone(), server.open_most.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            accepted.fetch_add(1, Ordering::SeqCst);
            open_most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let (answer, requests, open) = (answer.clone(), requests.clone(), open.clone());
            let beginning = begin(stream);
            tokio::spawn(async move {
                if let Some(stream) = beginning.await {
                    talk(stream, &*answer, &requests).await;
                }
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    server
}

async fn talk<S: Bytes>(
    mut stream: S,
    answer: &(dyn Fn(usize, &str) -> Answer + Send + Sync),
    requests: &Mutex<Vec<String>>,
) {
    for number in 0.. {
        let Some(head) = read_head(&mut stream).await else {
            return;
        };
        requests.lock().push(head.clone());
        let written = match answer(number, &head) {
            Answer::Stay(bytes) => stream.write_all(&bytes).await,
            Answer::Close(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
                return;
            }
            Answer::Endless(first, again) => {
                let mut written = stream.write_all(&first).await;
                while written.is_ok() {
                    written = stream.write_all(&again).await;
                }
                written
            }
            Answer::Drip(bytes, pause) => drip(&mut stream, &bytes, pause).await,
            Answer::Stall(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.flush().await;
                let _ = stream.read_u8().await;
                return;
            }
        };
        if written.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

async fn drip<S: Bytes>(stream: &mut S, bytes: &[u8], pause: Duration) -> std::io::Result<()> {
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        stream.flush().await?;
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

/// A head up to its empty line; none if the connection ends before.
pub async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

/// The target of a request.
pub fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// An answer with a length.
pub fn with_length(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

pub fn page(body: impl AsRef<[u8]>) -> Answer {
    Answer::Stay(with_length(
        "200 OK",
        "Content-Type: text/html; charset=UTF-8\r\n",
        body,
    ))
}

pub fn redirect(to: &str) -> Answer {
    let location = format!("Location: {to}\r\n");
    Answer::Stay(with_length("302 Found", &location, "elsewhere"))
}

impl Server {
    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    pub fn request_count(&self) -> usize {
        self.requests.lock().len()
    }
}

/// Settings that allow loopback.
pub fn local() -> FetchSettings {
    FetchSettings {
        allow_private: true,
        ..FetchSettings::default()
    }
}

pub fn fetcher(change: impl FnOnce(&mut FetchSettings)) -> Arc<Fetcher> {
    let mut settings = local();
    change(&mut settings);
    Fetcher::new(settings).unwrap()
}

pub async fn get(fetcher: &Fetcher, url: Url) -> Result<Fetched, FetchError> {
    fetcher.fetch(&FetchRequest::new(url)).await
}

/// Fetches what has to fail; gives its kind and what it says.
pub async fn failure(fetcher: &Fetcher, url: Url) -> (FetchErrorKind, FetchError) {
    match get(fetcher, url.clone()).await {
        Ok(fetched) => panic!("{url} was fetched with the status {}", fetched.status),
        Err(error) => (error.kind(), error),
    }
}

/// Waits until something is so.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(
            tokio::time::Instant::now() < end,
            "waited in vain until {what}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
