//! Connections that are kept, and how many there may be.
//!
//! At most `connections_max` requests are under way at once, each with at most one connection of its own; whoever opens one
//! while there are as many closes one that nobody uses, and there is one: otherwise so many requests would be under way already.
//! Locks are held for a few instructions, never while something is waited for. Order: the table of hosts before a host.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::connection::{One, Two};
use super::settings::FetchSettings;

/// How often it is looked for connections that were not used for too long, at most and at least.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(5));

/// All connections.
pub(super) struct Pool {
    hosts: Mutex<HashMap<Box<str>, Arc<Host>>>,
    /// Places for requests under way.
    pub under_way: Semaphore,
    counts: Arc<Counts>,
    is_swept: AtomicBool,
    limits: Limits,
}

struct Limits {
    connections_max: usize,
    per_host_max: usize,
    idle_per_host_max: usize,
    idle_timeout: Duration,
}

#[derive(Default)]
struct Counts {
    open: AtomicUsize,
    opened: AtomicU64,
}

/// A connection is open as long as this is there.
pub(super) struct Open(Arc<Counts>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The connections to one host.
pub(super) struct Host {
    /// Places for connections with HTTP/1.1 in use.
    pub places: Semaphore,
    /// Whoever finds out what a host speaks has it.
    pub finding_out: Semaphore,
    state: Mutex<HostState>,
}

#[derive(Default)]
struct HostState {
    idle: Vec<Idle>,
    two: Option<Arc<Two>>,
    speaks_one: bool,
}

struct Idle {
    one: Box<One>,
    since: Instant,
}

impl Pool {
    pub fn new(settings: &FetchSettings) -> Arc<Self> {
        let connections_max = settings.connections_max.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            hosts: Mutex::default(),
            under_way: Semaphore::new(connections_max),
            counts: Arc::default(),
            is_swept: AtomicBool::new(false),
            limits: Limits {
                connections_max,
                per_host_max: settings
                    .connections_per_host_max
                    .min(Semaphore::MAX_PERMITS),
                idle_per_host_max: settings.idle_per_host_max,
                idle_timeout: settings.idle_timeout(),
            },
        })
    }

    /// The connections to this host, which is written as a URL begins.
    pub fn host(&self, key: &str) -> Arc<Host> {
        let mut hosts = self.hosts.lock();
        if let Some(host) = hosts.get(key) {
            return host.clone();
        }
        let host = Arc::new(Host {
            places: Semaphore::new(self.limits.per_host_max),
            finding_out: Semaphore::new(1),
            state: Mutex::default(),
        });
        hosts.insert(key.into(), host.clone());
        host
    }

    /// Room for one more connection.
    pub async fn open(self: &Arc<Self>) -> Open {
        if !self.is_swept.swap(true, Ordering::Relaxed) {
            self.begin_sweeping();
        }
        while !self.try_open() {
            if !self.close_idle() {
                // Somebody is between having a connection and giving it up.
                tokio::task::yield_now().await;
            }
        }
        self.counts.opened.fetch_add(1, Ordering::Relaxed);
        Open(self.counts.clone())
    }

    fn try_open(&self) -> bool {
        let more = |open| (open < self.limits.connections_max).then_some(open + 1);
        let open = &self.counts.open;
        open.fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .is_ok()
    }

    /// Closes a connection that nobody uses; says whether there was one.
    fn close_idle(&self) -> bool {
        let mut hosts = self.hosts.lock();
        let mut unused = None;
        hosts.retain(|_, host| {
            let mut state = host.state.lock();
            if unused.is_none() {
                unused = state.take_unused();
            }
            state.has_connections() || Arc::strong_count(host) > 1
        });
        drop(hosts);
        unused.is_some()
    }

    /// Takes a connection back that may be used again.
    pub fn give_back(&self, host: &Host, mut one: Box<One>) {
        if !one.is_usable() {
            return;
        }
        let mut state = host.state.lock();
        if state.idle.len() < self.limits.idle_per_host_max {
            state.idle.push(Idle {
                one,
                since: Instant::now(),
            });
        }
    }

    fn begin_sweeping(self: &Arc<Self>) {
        let (least, most) = LOOK_EVERY;
        let every = (self.limits.idle_timeout / 2).clamp(least, most);
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(()) = {
                tokio::time::sleep(every).await;
                Weak::upgrade(&pool).map(|pool| pool.sweep())
            } {}
        });
    }

    /// Closes what was not used for too long, and forgets hosts without connections.
    fn sweep(&self) {
        let mut closed = Vec::new();
        let mut hosts = self.hosts.lock();
        hosts.retain(|_, host| {
            let mut state = host.state.lock();
            state.take_stale(self.limits.idle_timeout, &mut closed);
            state.has_connections() || Arc::strong_count(host) > 1
        });
        // Closing takes its time: the lock is not held meanwhile.
        drop(hosts);
    }

    /// How many connections there are.
    pub fn open_count(&self) -> usize {
        self.counts.open.load(Ordering::Acquire)
    }

    /// How many connections there have been.
    pub fn opened_count(&self) -> u64 {
        self.counts.opened.load(Ordering::Relaxed)
    }
}

impl Host {
    /// A connection that is there and that nobody uses.
    pub fn take_idle(&self) -> Option<Box<One>> {
        loop {
            // The newest: the others may then get old and be closed.
            let idle = self.state.lock().idle.pop()?;
            let mut one = idle.one;
            if one.is_usable() {
                return Some(one);
            }
        }
    }

    /// The connection for many requests, if there is one.
    pub fn two(&self) -> Option<Arc<Two>> {
        let mut state = self.state.lock();
        match &state.two {
            Some(two) if two.is_usable() => {
                two.note_use();
                Some(two.clone())
            }
            Some(_) => {
                state.two = None;
                None
            }
            None => None,
        }
    }

    pub fn speaks_one(&self) -> bool {
        self.state.lock().speaks_one
    }

    pub fn note_one(&self) {
        self.state.lock().speaks_one = true;
    }

    pub fn keep_two(&self, two: Arc<Two>) {
        two.note_use();
        self.state.lock().two = Some(two);
    }

    /// This connection answers no more.
    pub fn forget_two(&self, two: &Arc<Two>) {
        let mut state = self.state.lock();
        if state
            .two
            .as_ref()
            .is_some_and(|kept| Arc::ptr_eq(kept, two))
        {
            state.two = None;
        }
    }
}

/// A connection that is closed by being dropped.
enum Unused {
    One(#[expect(dead_code, reason = "it is only dropped")] Box<One>),
    Two(#[expect(dead_code, reason = "it is only dropped")] Arc<Two>),
}

impl HostState {
    fn has_connections(&self) -> bool {
        !self.idle.is_empty() || self.two.is_some()
    }

    fn is_two_unused(&self) -> bool {
        self.two
            .as_ref()
            .is_some_and(|two| Arc::strong_count(two) == 1)
    }

    fn take_unused(&mut self) -> Option<Unused> {
        if !self.idle.is_empty() {
            return Some(Unused::One(self.idle.remove(0).one));
        }
        match self.is_two_unused() {
            true => self.two.take().map(Unused::Two),
            false => None,
        }
    }

    fn take_stale(&mut self, after: Duration, closed: &mut Vec<Unused>) {
        let stale = self
            .idle
            .iter()
            .take_while(|idle| idle.since.elapsed() >= after);
        let stale = stale.count();
        closed.extend(self.idle.drain(..stale).map(|idle| Unused::One(idle.one)));
        let is_two_stale = self.is_two_unused()
            && self
                .two
                .as_ref()
                .is_some_and(|two| two.unused_for() >= after);
        if is_two_stale {
            closed.extend(self.two.take().map(Unused::Two));
        }
    }
}
