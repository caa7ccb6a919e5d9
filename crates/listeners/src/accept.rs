//! Accepts TCP connections and runs a session on each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kernel::metrics::Gauge;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::encryption::Encryption;
use crate::session::Session;
use crate::{Bound, Context, ListenError, Opened, connection};

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 1_024;

/// How long to wait when the system has no resources for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection that is silent for so long is probed.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// Opens a TCP listener on which `session` serves each connection.
pub(crate) fn listen<S: Session + 'static>(
    context: &Context,
    opened: &mut Opened,
    protocol: &'static str,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    session: fn(&Context, SocketAddr) -> S,
) -> Result<SocketAddr, ListenError> {
    let transport = if tls.is_some() { "tls" } else { "tcp" };
    let bind = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (listener, address) = bind().map_err(|source| ListenError::Bind {
        protocol,
        transport,
        address,
        source,
    })?;
    opened.bound.push(Bound {
        protocol,
        transport,
        address,
    });
    opened
        .tasks
        .spawn(accept(context.clone(), listener, protocol, tls, session));
    Ok(address)
}

async fn accept<S: Session + 'static>(
    context: Context,
    listener: TcpListener,
    protocol: &'static str,
    tls: Option<Arc<ServerConfig>>,
    session: fn(&Context, SocketAddr) -> S,
) {
    let mut connections = JoinSet::new();
    let mut shutdown = context.shutdown.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Some(place) = Place::take(&context) {
                        let serving = serve(context.clone(), stream, peer, protocol, tls.clone(), session, place);
                        connections.spawn(serving);
                    }
                }
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            _ = shutdown.changed() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve<S: Session + 'static>(
    context: Context,
    stream: TcpStream,
    peer: SocketAddr,
    protocol: &'static str,
    tls: Option<Arc<ServerConfig>>,
    session: fn(&Context, SocketAddr) -> S,
    _place: Place,
) {
    let encryption = match tls.map(Encryption::new).transpose() {
        Ok(encryption) => encryption,
        Err(error) => {
            tracing::warn!("a connection could not be encrypted and is closed: {error}");
            return;
        }
    };
    // Answers are written in one piece, so there is nothing to gather.
    let _ = stream.set_nodelay(true);
    // A client whose machine is gone is noticed even if nobody sends anything.
    let keepalive = socket2::TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    let session = session(&context, peer);
    let now = context.broker.clock().now();
    let known = context.clients.add(protocol, peer, now);
    let Context {
        broker,
        counters,
        shutdown,
        ..
    } = context;
    let client = known.client.clone();
    connection::run(
        stream, encryption, session, broker, counters, client, shutdown,
    )
    .await;
}

/// One of the connections that there may be.
struct Place {
    all: Arc<AtomicUsize>,
    open: Gauge,
}

impl Place {
    fn take(context: &Context) -> Option<Self> {
        let all = context.connections.clone();
        if all.fetch_add(1, Ordering::Relaxed) >= context.settings.connections_max {
            all.fetch_sub(1, Ordering::Relaxed);
            context.counters.connections_refused.inc();
            tracing::warn!(
                connections_max = context.settings.connections_max,
                "a connection is refused: there are too many"
            );
            return None;
        }
        context.counters.connections_opened.inc();
        let open = context.counters.connections.clone();
        open.inc();
        Some(Self { all, open })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        self.open.dec();
    }
}
