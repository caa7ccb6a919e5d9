//! What happens, told to whoever listens: over the general topic between nodes, and over HTTP.
//!
//! Whatever happens on this node goes into the ring ([`ring`]) at once, and from a bounded queue to
//! the topic ([`general`]), from where the other nodes put it into theirs.

mod event;
mod general;
mod metrics;
mod ring;
mod subscriber;
mod watch;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bus::Bus;
use kernel::Clock;
use kernel::metrics::{Counter, Registry};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch as signal};
use tokio::time::timeout;

pub(crate) use self::event::{Event, Filter, KINDS, kind};
use self::general::Outgoing;
use self::ring::Ring;
pub(crate) use self::subscriber::{Full, Position, Subscriber};
use crate::cluster::machine_name;

/// How many events wait for the bus at most.
const OUTGOING_MAX: usize = 1_024;
/// How long whoever listens is waited for when the node ends.
const CLOSE_LOOK: Duration = Duration::from_millis(5);
const RUN_BYTES: usize = 8;

/// The events of a node.
pub(crate) struct Events {
    /// What the node is called: its name, or that of the machine.
    node: String,
    /// Tells this process from others of the same name, before and after.
    run: String,
    clock: Arc<dyn Clock>,
    ring: Ring,
    outgoing: mpsc::Sender<Outgoing>,
    /// What could not be told to the other nodes and was not said yet.
    untold: AtomicU64,
    /// Nodes that have said good-bye.
    left: Mutex<HashSet<String>>,
    subscribers: AtomicUsize,
    metrics_wanted: AtomicUsize,
    /// Somebody is new and knows no numbers yet.
    metrics_anew: AtomicBool,
    counters: Counters,
}

#[derive(Clone, Debug, Default)]
struct Counters {
    told: Counter,
    untold: Counter,
    missed: Counter,
}

impl Events {
    /// Events of a node, which are told over this bus until it stops.
    pub fn start(
        bus: Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        name: Option<String>,
        stopped: &signal::Receiver<bool>,
    ) -> Arc<Self> {
        let (outgoing, queue) = mpsc::channel(OUTGOING_MAX);
        let events = Arc::new(Self {
            node: name
                .or_else(machine_name)
                .unwrap_or_else(|| "this node".to_owned()),
            run: run_name(),
            clock,
            ring: Ring::new(),
            outgoing,
            untold: AtomicU64::new(0),
            left: Mutex::default(),
            subscribers: AtomicUsize::new(0),
            metrics_wanted: AtomicUsize::new(0),
            metrics_anew: AtomicBool::new(false),
            counters: Counters::default(),
        });
        tokio::spawn(general::speak(
            events.clone(),
            bus.clone(),
            queue,
            stopped.clone(),
        ));
        tokio::spawn(general::listen(events.clone(), bus, stopped.clone()));
        events
    }

    /// What the node is called.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Tells all nodes, and whoever listens to them. It never waits: what there is no room for on the
    /// way to the other nodes is counted, and they are told how many they missed. Gives the number
    /// that it has here.
    pub fn tell(&self, event: Event) -> u64 {
        let event = self.signed(event);
        let number = self.ring.push(&event);
        let outgoing = Outgoing::Event(event.with("run", self.run.as_str()).encoded());
        match self.outgoing.try_send(outgoing) {
            Ok(()) => {
                self.counters.told.inc();
            }
            Err(_) => self.not_told(1),
        }
        number
    }

    /// Tells only those who listen to this node.
    pub fn tell_here(&self, event: Event) {
        self.ring.push(&self.signed(event));
    }

    fn signed(&self, event: Event) -> Event {
        let at_ms = self.clock.now().as_millis();
        event.with("node", self.node.as_str()).with("at_ms", at_ms)
    }

    /// Another node tells something.
    fn heard(&self, mut event: Event) {
        if event.remove("run").as_ref().and_then(|run| run.as_str()) == Some(&self.run) {
            return;
        }
        // It is numbered here.
        event.remove("number");
        if event.text("kind") == Some(kind::NODE)
            && let Some(node) = event.text("node")
        {
            match event.text("event") {
                Some("left") => {
                    self.left.lock().insert(node.to_owned());
                }
                Some("joined") => {
                    self.left.lock().remove(node);
                }
                _ => {}
            }
        }
        self.ring.push(&event);
    }

    fn not_told(&self, count: u64) {
        self.untold.fetch_add(count, Ordering::Relaxed);
        self.counters.untold.inc_by(count);
    }

    /// Waits until the other nodes were told everything, as far as the bus serves and `patience` allows.
    pub async fn flush(&self, patience: Duration) {
        let (done, told) = oneshot::channel();
        let flush = async {
            if self.outgoing.send(Outgoing::Flush(done)).await.is_ok() {
                let _ = told.await;
            }
        };
        if timeout(patience, flush).await.is_err() {
            tracing::debug!("the other nodes may not have heard everything");
        }
    }

    /// Waits until all who listen were told that the node ends, but no longer than `patience`.
    pub async fn closed(&self, patience: Duration) {
        let closed = async {
            while self.subscribers.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(CLOSE_LOOK).await;
            }
        };
        // Who does not read is cut off.
        let _ = timeout(patience, closed).await;
    }

    /// Registers what it counts.
    pub fn register(&self, registry: &mut Registry) {
        let mut counter = |name: &str, help: &str, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        counter(
            "events_told",
            "Events told to the other nodes",
            &self.counters.told,
        );
        counter(
            "events_untold",
            "Events that the other nodes could not be told",
            &self.counters.untold,
        );
        counter(
            "events_missed",
            "Events that listeners were too slow for",
            &self.counters.missed,
        );
    }
}

fn run_name() -> String {
    let mut random = [0_u8; RUN_BYTES];
    if getrandom::fill(&mut random).is_err() {
        // Only one process has to be told from another.
        random = fastrand::u64(..).to_le_bytes();
    }
    random.iter().map(|byte| format!("{byte:02x}")).collect()
}
