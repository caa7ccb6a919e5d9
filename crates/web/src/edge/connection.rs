//! Runs one connection: hyper behind a gate, its deadlines, and how it ends.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1::{self, UpgradeableConnection};
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::gate::Gate;
use super::refusal::{Refusal, Refused};
use super::service::{AnswerBody, service};
use super::watched::{Side, Watched, Where};

/// Who sends still more after a refusal is listened to for so long and so much. If the socket were
/// closed at once, the system would throw away the answer that lies there for the client.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: u64 = 1 << 20;

const HEADERS_TOO_SLOW: Refused =
    Refused::new(Refusal::HeadersTooSlow, "the headers did not come in time");
const BODY_TOO_SLOW: Refused = Refused::new(Refusal::BodyTooSlow, "the body did not come in time");

/// How a connection ended.
enum End {
    /// By the rules.
    Done,
    /// Nothing more may come, and all that came is answered. The client is to be told why.
    Refused(Refused),
    /// At once.
    Cut,
}

/// Serves one connection until its end.
pub(super) fn run<S>(
    socket: S,
    peer: SocketAddr,
    watched: Arc<Watched>,
    router: Router,
) -> impl Future<Output = ()> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Made at once: it lets the connection go also if nobody ever polls the future.
    let gate = Gate::new(socket, watched.clone());
    let service = service(watched.clone(), peer, router);
    serve(gate, watched, service)
}

async fn serve<S, H>(gate: Gate<S>, watched: Arc<Watched>, service: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: HttpService<Incoming, ResBody = AnswerBody>,
    H::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut hyper = http1::Builder::new()
        // Our own deadlines cost less, and can be answered with a reason.
        .header_read_timeout(None)
        .max_buf_size(watched.edge.limits.buffer_bytes_max())
        .serve_connection(TokioIo::new(gate), service)
        .with_upgrades();
    let mut state = State {
        watched: &watched,
        waker: None,
        is_stopping: false,
    };
    let end = poll_fn(|context| state.poll(&mut hyper, context)).await;
    // A connection that has switched belongs to somebody else now.
    let Some(parts) = hyper.into_parts() else {
        return;
    };
    let mut gate = parts.io.into_inner();
    match end {
        End::Done if gate.leaves_something() => linger(gate.socket()).await,
        End::Done | End::Cut => {}
        End::Refused(refused) => {
            tell(gate.socket(), refused).await;
            linger(gate.socket()).await;
        }
    }
}

struct State<'a> {
    watched: &'a Watched,
    waker: Option<Waker>,
    is_stopping: bool,
}

impl State<'_> {
    fn poll<I, S>(
        &mut self,
        hyper: &mut UpgradeableConnection<I, S>,
        context: &mut Context<'_>,
    ) -> Poll<End>
    where
        S: HttpService<Incoming, ResBody = AnswerBody>,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        I: Read + Write + Unpin + Send + 'static,
    {
        self.note_waker(context);
        if self.watched.take_call() {
            if self.stops_now() {
                Pin::new(&mut *hyper).graceful_shutdown();
            }
            if let Some(end) = self.look_at_deadlines() {
                return Poll::Ready(end);
            }
        }
        if let Poll::Ready(ended) = Pin::new(hyper).poll(context) {
            if let Err(error) = ended {
                tracing::debug!(%error, "an HTTP connection broke");
            }
            return Poll::Ready(End::Done);
        }
        self.refused().map_or(Poll::Pending, Poll::Ready)
    }

    /// So that others can wake this task. It is nearly always the same one.
    fn note_waker(&mut self, context: &Context<'_>) {
        let waker = context.waker();
        if !self
            .waker
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            self.waker = Some(waker.clone());
            self.watched.wake_me(Side::Read, waker);
        }
    }

    fn stops_now(&mut self) -> bool {
        let stops = self.watched.edge.is_stopping();
        stops && !std::mem::replace(&mut self.is_stopping, stops)
    }

    /// Whose time is over?
    fn look_at_deadlines(&self) -> Option<End> {
        let watched = self.watched;
        let now_ms = watched.edge.now_ms();
        if watched.edge.is_cutting() {
            return Some(End::Cut);
        }
        if watched.write_is_overdue(now_ms) {
            watched.edge.count(Refusal::ReaderTooSlow);
            return Some(End::Cut);
        }
        if watched.body_is_overdue(now_ms) {
            watched.await_no_body();
            // hyper finds out as soon as it reads on.
            watched.refuse(BODY_TOO_SLOW, Where::Body);
        }
        if !watched.input_is_overdue(now_ms) {
            return None;
        }
        if watched.has_part() {
            watched.refuse(HEADERS_TOO_SLOW, Where::Head);
            return self.refused();
        }
        watched.edge.count(Refusal::Idle);
        Some(End::Cut)
    }

    /// Whether the connection is to be taken from hyper, because nothing more may come.
    fn refused(&self) -> Option<End> {
        let (refused, place) = self.watched.refused()?;
        if !self.watched.is_idle() || !self.watched.is_flushed() {
            return None;
        }
        Some(match place {
            Where::Head => End::Refused(refused),
            // That was the answer already, or it came too late for one.
            Where::Body => End::Done,
        })
    }
}

/// Tells the client why the connection ends.
async fn tell<S: AsyncWrite + Unpin>(socket: &mut S, refused: Refused) {
    let telling = async {
        socket.write_all(&refused.bytes()).await?;
        socket.shutdown().await
    };
    if !matches!(timeout(LINGER, telling).await, Ok(Ok(()))) {
        tracing::debug!(
            reason = refused.reason.name(),
            "a client did not hear why it was refused"
        );
    }
}

/// Reads what the client still sends, until it has had the time to read its answer.
async fn linger<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut S) {
    let listening = async {
        socket.shutdown().await?;
        let mut nowhere = tokio::io::sink();
        tokio::io::copy(&mut socket.take(LINGER_BYTES_MAX), &mut nowhere).await
    };
    // However it ends, the socket is closed then.
    let _ = timeout(LINGER, listening).await;
}
