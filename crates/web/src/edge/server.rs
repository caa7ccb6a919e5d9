//! Takes connections in, and ends them all when the server ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::connection;
use super::limits::EdgeLimits;
use super::numbers::EdgeNumbers;
use super::refusal::Refused;
use super::watch::Edge;

/// A peer that vanished is noticed after that long.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);
/// When there are no file descriptors left, trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Connections that are cut off need a moment to notice.
const CUT_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a router over a listener, within limits, until `shutdown` is ready or
/// [`EdgeHandle::stop`] is called.
///
/// It runs in tasks of its own; dropping what is returned lets it go on. Handlers find the address of
/// their client as axum's `ConnectInfo<SocketAddr>`.
///
/// # Panics
///
/// Panics outside of a tokio runtime.
pub fn serve(
    listener: TcpListener,
    router: Router,
    limits: EdgeLimits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Serving {
    let edge = Edge::new(limits);
    let (stop, stopped) = watch::channel(false);
    let handle = EdgeHandle {
        edge: edge.clone(),
        stop: Arc::new(stop),
    };
    let asked = async move {
        tokio::select! {
            () = shutdown => {}
            () = told(stopped) => {}
        }
    };
    // A router with its state at hand does not prepare its routes anew for each request.
    let router = router.with_state(());
    let running = tokio::spawn(run(listener, router, edge, asked));
    Serving { handle, running }
}

/// Waits until the server is told to stop. If nobody can tell it any more, that is never.
async fn told(mut stopped: watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending().await
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Serving {
    handle: EdgeHandle,
    running: JoinHandle<usize>,
}

impl Serving {
    /// What others need to know or to end it.
    pub fn handle(&self) -> EdgeHandle {
        self.handle.clone()
    }

    /// Waits until it has ended, and says how many connections had to be cut off because they were
    /// not done in time.
    pub async fn ended(self) -> usize {
        // It does not panic; if its runtime ends, all connections end with it.
        self.running.await.unwrap_or_default()
    }
}

/// Knows how it goes with a server, and can end it.
#[derive(Clone)]
pub struct EdgeHandle {
    edge: Arc<Edge>,
    stop: Arc<watch::Sender<bool>>,
}

impl std::fmt::Debug for EdgeHandle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("EdgeHandle");
        shown
            .field("numbers", &self.numbers())
            .finish_non_exhaustive()
    }
}

impl EdgeHandle {
    /// How it goes.
    pub fn numbers(&self) -> EdgeNumbers {
        self.edge.numbers()
    }

    /// Lets the server take no more connections, and end once it has answered what is under way.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

async fn run(
    listener: TcpListener,
    router: Router,
    edge: Arc<Edge>,
    asked: impl Future<Output = ()>,
) -> usize {
    tokio::select! {
        () = accept(&listener, router, &edge) => {}
        () = edge.look_after() => {}
        () = asked => {}
    }
    drop(listener);
    edge.stop();
    let ending = Duration::from_millis(edge.limits.ending_timeout_ms);
    let cut = tokio::select! {
        ended = timeout(ending, edge.all_gone()) => match ended {
            Ok(()) => 0,
            Err(_) => edge.cut(),
        },
        // Slow clients are cut off also while it ends.
        () = edge.look_after() => 0,
    };
    if cut > 0 {
        tracing::warn!(connections = cut, "cutting HTTP connections off");
        // Whoever does not notice has a handler that never lets go of its thread.
        let _ = timeout(CUT_TIMEOUT, edge.all_gone()).await;
    }
    cut
}

/// Takes connections in, for ever.
async fn accept(listener: &TcpListener, router: Router, edge: &Arc<Edge>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => begin(stream, peer, &router, edge),
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn begin(stream: TcpStream, peer: SocketAddr, router: &Router, edge: &Arc<Edge>) {
    let watched = match edge.admit(peer.ip()) {
        Ok(watched) => watched,
        Err(refused) => return turn_away(&stream, refused),
    };
    if let Err(error) = tune(&stream) {
        tracing::debug!(%error, "cannot tune an HTTP connection");
    }
    tokio::spawn(connection::run(stream, peer, watched, router.clone()));
}

/// Tells a client that there is no room, if that can be done without waiting.
fn turn_away(stream: &TcpStream, refused: Refused) {
    // What was not read would take the answer away with it when the socket is closed.
    let mut nowhere = [0; 4_096];
    let _ = rustix::net::recv(stream, &mut nowhere, RecvFlags::DONTWAIT);
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let _ = rustix::net::send(stream, &refused.bytes(), flags);
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PEER_TIMEOUT)?;
    let timeout_ms = PEER_TIMEOUT.as_millis() as u32;
    sockopt::set_tcp_user_timeout(stream, timeout_ms)?;
    Ok(())
}
