//! The HTTP listener: connections, their limits, and how they end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::rest::{self, App, Peer};

/// Also how long an idle connection is kept.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(8);
const HEADERS_MAX: usize = 100;
const BUFFER_BYTES_MAX: usize = 64 << 10;
const BACKLOG: u32 = 1_024;
/// A peer that vanished is noticed after that long.
const PEER_TIMEOUT: Duration = Duration::from_secs(60);
/// When there are no file descriptors left, trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Addresses of examples: nobody has them, but the way to them is the way to others.
const SOMEWHERE_V4: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9);
const SOMEWHERE_V6: SocketAddr = SocketAddr::new(
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    9,
);

/// Takes the address. Nothing is answered before [`serve`].
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4()?,
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6()?,
    };
    // So that a restart need not wait for old connections to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Where others reach what listens here. A socket on all addresses has none of its own: then it is
/// the one from which this machine speaks to others.
pub(crate) fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            outward_ip(SOMEWHERE_V4).unwrap_or(Ipv4Addr::LOCALHOST.into())
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            let outward = outward_ip(SOMEWHERE_V6).or_else(|| outward_ip(SOMEWHERE_V4));
            outward.unwrap_or(Ipv6Addr::LOCALHOST.into())
        }
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

/// The address from which this machine would speak to another one. To connect over UDP sends nothing.
fn outward_ip(somewhere: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match somewhere {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(somewhere).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A running listener. It ends when the sender of its stop signal says so or is gone.
pub(crate) struct HttpServer {
    accepting: JoinHandle<JoinSet<()>>,
}

impl HttpServer {
    /// Starts answering.
    pub fn serve(listener: TcpListener, app: Arc<App>, stop: watch::Receiver<bool>) -> Self {
        let accepting = tokio::spawn(accept(listener, app, stop));
        Self { accepting }
    }

    /// Waits until all requests are answered, but no longer than `patience`. The stop signal must
    /// have been given.
    pub async fn drain(self, patience: Duration) {
        let Ok(mut connections) = self.accepting.await else {
            return;
        };
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(patience, all).await.is_err() {
            tracing::warn!(
                connections = connections.len(),
                "cutting HTTP connections off"
            );
            connections.shutdown().await;
        }
    }
}

async fn accept(
    listener: TcpListener,
    app: Arc<App>,
    mut stop: watch::Receiver<bool>,
) -> JoinSet<()> {
    let router = rest::router(app.clone());
    let mut connections = JoinSet::new();
    while !*stop.borrow() {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            changed = stop.changed() => match changed {
                Ok(()) => continue,
                Err(_) => break,
            },
        };
        match accepted {
            Ok(_) if connections.len() >= app.connections_max.load(Ordering::Relaxed) => {
                app.counters.connections_refused.inc();
            }
            Ok((stream, peer)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(serve_connection(stream, Peer(peer), router, stop));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    connections
}

async fn serve_connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    if let Err(error) = tune(&stream) {
        tracing::debug!(%error, "cannot tune an HTTP connection");
    }
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection broke");
    }
}

/// Waits for the stop signal, or for its sender to be gone.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopping| *stopping).await;
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(PEER_TIMEOUT))?;
    socket.set_tcp_user_timeout(Some(PEER_TIMEOUT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::{LogSettings, LogStore};
    use crate::rest::AllowedHosts;
    use crate::secret::Secret;

    #[test]
    fn only_an_address_that_is_all_of_them_becomes_another() {
        let bound: SocketAddr = "127.0.0.1:8000".parse().unwrap();
        assert_eq!(reachable(bound), bound);
        for wide in ["0.0.0.0:8000", "[::]:8000"] {
            let address = reachable(wide.parse().unwrap());
            assert!(!address.ip().is_unspecified(), "{address}");
            assert_eq!(address.port(), 8000);
        }
    }

    /// What a node answers before its broker is there.
    #[tokio::test(flavor = "multi_thread")]
    async fn before_the_listeners_are_ready_health_says_so() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        let hosts = AllowedHosts::new(address, &[]);
        let token = Secret::new("0123456789abcdef");
        let settings = LogSettings {
            files: false,
            ..LogSettings::default()
        };
        let logs = Arc::new(LogStore::open("data".as_ref(), settings));
        let app = Arc::new(App::new("data".into(), token, hosts, logs, stopped.clone()));
        let server = HttpServer::serve(listener, app, stopped);
        let asked = tokio::task::spawn_blocking(move || {
            let config = ureq::Agent::config_builder().http_status_as_error(false);
            let agent: ureq::Agent = config.build().into();
            ["health", "api/v1/queues"].map(|path| {
                let request = agent.get(format!("http://{address}/{path}"));
                let request = request.header("Authorization", "Bearer 0123456789abcdef");
                let mut answer = request.call().unwrap();
                let text = answer.body_mut().read_to_string().unwrap();
                (answer.status().as_u16(), text)
            })
        });
        let [health, queues] = asked.await.unwrap();
        assert_eq!(health.0, 503);
        assert!(health.1.contains("starting"), "{}", health.1);
        assert_eq!(queues.0, 503);
        assert!(queues.1.contains("urn:hivewire:not-ready"), "{}", queues.1);
        stop.send_replace(true);
        server.drain(Duration::from_secs(5)).await;
    }
}
