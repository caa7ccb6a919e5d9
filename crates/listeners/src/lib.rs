//! Sessions of the protocols that clients speak to the broker.
//!
//! [`start`] opens the listeners that the [`Settings`] name. Each protocol has a folder of its own
//! with the same files; `PROTOCOLS` is the one table that lists them.
//!
//! ```
//! use listeners::{Address, Settings};
//!
//! let mut settings = Settings::default();
//! settings.stomp.address = "127.0.0.1:0".parse()?;
//! settings.gamq.address = Address::Off;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Listeners decide nothing about messages: that is the broker's. They encode and decode nothing
//! by themselves: that is `wire`'s.

mod accept;
mod batch;
mod buffers;
mod clients;
mod connection;
mod counters;
mod encryption;
mod gamq;
mod reserved;
mod session;
mod settings;
mod stomp;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use broker::Broker;
use kernel::metrics::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use clients::{ClientSubscription, ClientView, Clients, Said};
use counters::Counters;
pub use settings::{Address, BadAddress, GamqSettings, Settings, StompSettings, User};

/// How a protocol is started.
type Start = fn(&Context, &mut Opened) -> Result<(), ListenError>;

/// Every protocol: its name, and what opens its sockets.
const PROTOCOLS: [(&str, Start); 2] = [("stomp", stomp::start), ("gamq", gamq::start)];

/// What all listeners share.
#[derive(Clone)]
struct Context {
    broker: Arc<Broker>,
    settings: Arc<Settings>,
    counters: Counters,
    shutdown: watch::Receiver<bool>,
    connections: Arc<AtomicUsize>,
    clients: Arc<Clients>,
}

/// Sockets that were opened, and the tasks that serve them.
#[derive(Default)]
struct Opened {
    bound: Vec<Bound>,
    tasks: JoinSet<()>,
}

/// An open socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The protocol spoken there.
    pub protocol: &'static str,
    /// `tcp`, `tls` or `udp`.
    pub transport: &'static str,
    /// The address, with the port that was taken.
    pub address: SocketAddr,
}

/// Why a listener could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address could not be taken.
    #[error(
        "{protocol} cannot listen on {transport} {address}: {source}. Stop what listens there, choose another address, or switch it `off`"
    )]
    Bind {
        /// The protocol.
        protocol: &'static str,
        /// `tcp`, `tls` or `udp`.
        transport: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The address can be reached from other machines, and nothing there is encrypted.
    #[error(
        "{what} would listen on {address}, which other machines can reach, without encryption: use a loopback address such as 127.0.0.1, or allow it with allow_remote"
    )]
    Remote {
        /// What would listen.
        what: &'static str,
        /// The address.
        address: SocketAddr,
    },
    /// A certificate or its key does not serve.
    #[error("STOMP cannot be encrypted: {} does not serve: {reason}", file.display())]
    Certificate {
        /// The file.
        file: PathBuf,
        /// Why not.
        reason: String,
    },
    /// There is nothing to encrypt with.
    #[error(
        "STOMP would listen on {address} with TLS, but has no certificate: name the files in stomp.tls_certificate and stomp.tls_key"
    )]
    NoCertificate {
        /// The address.
        address: SocketAddr,
    },
    /// Anybody could come in from other machines.
    #[error(
        "STOMP would listen on {address}, which other machines can reach, and let anyone in: define [[users]]"
    )]
    Anyone {
        /// The address.
        address: SocketAddr,
    },
    /// gamq cannot ask who somebody is.
    #[error(
        "users are defined, and gamq has no way to log in: switch it `off`, or let anyone in with gamq.allow_anonymous"
    )]
    AnonymousGamq,
}

/// Refuses addresses that other machines can reach, unless that was allowed in so many words.
pub fn check_bind(
    address: SocketAddr,
    allow_remote: bool,
    what: &'static str,
) -> Result<(), ListenError> {
    if address.ip().is_loopback() || allow_remote {
        return Ok(());
    }
    Err(ListenError::Remote { what, address })
}

/// The running listeners.
pub struct Listeners {
    opened: Opened,
    shutdown: watch::Sender<bool>,
    counters: Vec<(&'static str, Counters)>,
    clients: Arc<Clients>,
}

/// Opens all listeners; either all of them or none.
pub async fn start(broker: Arc<Broker>, settings: Settings) -> Result<Listeners, ListenError> {
    let (shutdown, stopping) = watch::channel(false);
    let settings = Arc::new(settings);
    let connections = Arc::new(AtomicUsize::new(0));
    let clients = Arc::<Clients>::default();
    let mut opened = Opened::default();
    let mut counted = Vec::new();
    for (protocol, start) in PROTOCOLS {
        let counters = Counters::default();
        counted.push((protocol, counters.clone()));
        let context = Context {
            broker: broker.clone(),
            settings: settings.clone(),
            counters,
            shutdown: stopping.clone(),
            connections: connections.clone(),
            clients: clients.clone(),
        };
        start(&context, &mut opened)?;
    }
    Ok(Listeners {
        opened,
        shutdown,
        counters: counted,
        clients,
    })
}

impl Listeners {
    /// What listens where.
    pub fn bound(&self) -> &[Bound] {
        &self.opened.bound
    }

    /// Who is connected.
    pub fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// Registers everything that listeners count.
    pub fn register(&self, registry: &mut Registry) {
        for (protocol, counters) in &self.counters {
            counters.register(protocol, registry);
        }
    }

    /// Stops accepting, lets every connection write its last answers, and ends. Whoever takes
    /// longer than `timeout` is cut off.
    pub async fn drain(mut self, timeout: Duration) {
        let _ = self.shutdown.send(true);
        let all_ended = async { while self.opened.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(timeout, all_ended).await.is_err() {
            tracing::warn!("some connections did not end in time and are cut off");
            self.opened.tasks.shutdown().await;
        }
    }
}
