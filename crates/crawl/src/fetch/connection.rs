//! A connection that speaks HTTP.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::connect::Connected;
use super::pool::Open;
use super::settings::FetchSettings;
use super::stream::Stream;

/// What requests send.
pub(super) type NoBody = Empty<Bytes>;

/// So much of one answer may come before it is looked at.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// So much of all answers on a connection may come before they are looked at.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// How often a connection with requests under way is asked whether it is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(10);

/// HTTP/1.1: one request at a time. Whoever has a request under way drives the connection, so there is no task beside it
/// that would have to be woken.
pub(super) struct One {
    sender: http1::SendRequest<NoBody>,
    /// None once it has ended.
    connection: Option<http1::Connection<TokioIo<Stream>, NoBody>>,
    received: Arc<AtomicU64>,
    remote: SocketAddr,
    _open: Open,
}

/// HTTP/2: many requests at a time, and a task that serves them.
pub(super) struct Two {
    sender: http2::SendRequest<NoBody>,
    remote: SocketAddr,
    used_at: AtomicU64,
    made_at: Instant,
}

/// A connection while a request uses it.
pub(super) enum Carrier {
    One(Box<One>),
    Two(Arc<Two>),
}

impl One {
    pub async fn begin(
        connected: Connected,
        open: Open,
        settings: &FetchSettings,
    ) -> Result<Self, hyper::Error> {
        let received = connected.stream.received();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(settings.header_bytes_max)
            .ignore_invalid_headers_in_responses(true)
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .handshake(TokioIo::new(connected.stream))
            .await?;
        Ok(Self {
            sender,
            connection: Some(connection),
            received,
            remote: connected.remote,
            _open: open,
        })
    }

    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(context).is_ready()
        {
            self.connection = None;
        }
    }

    /// Whether it can be used again, as far as is known on this side.
    pub fn is_usable(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && !self.sender.is_closed()
    }

    async fn send(&mut self, request: Request<NoBody>) -> Result<Response<Incoming>, hyper::Error> {
        poll_fn(|context| {
            self.drive(context);
            self.sender.poll_ready(context)
        })
        .await?;
        let mut answer = pin!(self.sender.try_send_request(request));
        poll_fn(|context| {
            self.drive(context);
            answer.as_mut().poll(context)
        })
        .await
        .map_err(http1_error)
    }

    fn poll_frame(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.drive(context);
        Pin::new(body).poll_frame(context)
    }
}

fn http1_error<T>(error: hyper::client::conn::TrySendError<T>) -> hyper::Error {
    error.into_error()
}

impl Two {
    pub async fn begin(
        connected: Connected,
        open: Open,
        settings: &FetchSettings,
    ) -> Result<Self, hyper::Error> {
        let header_bytes_max = u32::try_from(settings.header_bytes_max).unwrap_or(u32::MAX);
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(ALIVE_EVERY)
            .keep_alive_timeout(ALIVE_EVERY)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(header_bytes_max)
            .handshake(TokioIo::new(connected.stream))
            .await?;
        tokio::spawn(async move {
            let _open = open;
            // Whoever has a request under way hears of the error there.
            let _ = connection.await;
        });
        Ok(Self {
            sender,
            remote: connected.remote,
            used_at: AtomicU64::new(0),
            made_at: Instant::now(),
        })
    }

    pub fn is_usable(&self) -> bool {
        !self.sender.is_closed()
    }

    /// How long nobody began a request.
    pub fn unused_for(&self) -> Duration {
        let used_at = Duration::from_millis(self.used_at.load(Ordering::Relaxed));
        self.made_at.elapsed().saturating_sub(used_at)
    }

    pub fn note_use(&self) {
        let now = self.made_at.elapsed().as_millis() as u64;
        self.used_at.store(now, Ordering::Relaxed);
    }
}

impl Carrier {
    pub fn is_two(&self) -> bool {
        matches!(self, Self::Two(_))
    }

    pub fn remote(&self) -> SocketAddr {
        match self {
            Self::One(one) => one.remote,
            Self::Two(two) => two.remote,
        }
    }

    /// How many bytes have come here, if that says anything about one request.
    pub fn received(&self) -> u64 {
        match self {
            Self::One(one) => one.received.load(Ordering::Relaxed),
            Self::Two(_) => 0,
        }
    }

    pub async fn send(
        &mut self,
        request: Request<NoBody>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        match self {
            Self::One(one) => one.send(request).await,
            Self::Two(two) => two.sender.clone().send_request(request).await,
        }
    }

    /// The next part of a body; none at its end.
    pub async fn frame(
        &mut self,
        body: &mut Incoming,
    ) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        poll_fn(|context| match self {
            Self::One(one) => one.poll_frame(body, context),
            Self::Two(_) => Pin::new(&mut *body).poll_frame(context),
        })
        .await
    }
}
