//! All connections of a server: who is let in, what each waits for, and who looks after that.
//!
//! A connection only notes until when it waits; that costs one store. One task for the whole server
//! looks through all connections, several times a second while there are any, and wakes those whose
//! time is over. They see to it themselves, for only they know what is to be said to the client.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::limits::EdgeLimits;
use super::numbers::EdgeNumbers;
use super::refusal::{Refusal, Refused};
use super::watched::Watched;

/// What all connections of a server share.
pub(super) struct Edge {
    pub limits: EdgeLimits,
    under_way: AtomicUsize,
    now_ms: AtomicU64,
    tick_ms: u64,
    stopping: AtomicBool,
    cutting: AtomicBool,
    refused: [AtomicU64; Refusal::ALL.len()],
    table: Mutex<Table>,
    /// Told when the first connection comes.
    first_came: Notify,
    /// Told when the last connection goes.
    last_gone: Notify,
}

#[derive(Default)]
struct Table {
    watched: HashMap<u64, Arc<Watched>>,
    per_address: HashMap<IpAddr, usize>,
    accepted: u64,
    /// What connections did that are gone.
    past: Traffic,
}

/// What went over connections.
#[derive(Clone, Copy, Default)]
pub(super) struct Traffic {
    pub requests: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

impl Traffic {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
    }
}

impl Edge {
    pub fn new(limits: EdgeLimits) -> Arc<Self> {
        let limits = limits.resolved();
        Arc::new(Self {
            tick_ms: limits.tick().as_millis() as u64,
            limits,
            under_way: AtomicUsize::new(0),
            now_ms: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            cutting: AtomicBool::new(false),
            refused: std::array::from_fn(|_| AtomicU64::new(0)),
            table: Mutex::default(),
            first_came: Notify::new(),
            last_gone: Notify::new(),
        })
    }

    /// Milliseconds for which the server has run, without those in which it did not get to run.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.load(Relaxed)
    }

    /// When so much time will be over. The clock may be a tick behind, so a tick is added: nobody is
    /// cut off too early.
    pub fn in_ms(&self, time_ms: u64) -> u64 {
        let due = self.now_ms().saturating_add(time_ms);
        due.saturating_add(self.tick_ms)
    }

    pub fn count(&self, refusal: Refusal) {
        self.refused[refusal as usize].fetch_add(1, Relaxed);
    }

    /// Counts a request as under way, if there is room for it.
    pub fn begin_request(&self) -> bool {
        let before = self.under_way.fetch_add(1, Relaxed);
        let has_room = before < self.limits.requests_under_way_max;
        if !has_room {
            self.end_request();
        }
        has_room
    }

    pub fn end_request(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// Takes a connection in, if there is room for it. It must be let go again.
    pub fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Arc<Watched>, Refused> {
        let group = group(address);
        let mut table = self.table.lock();
        if let Err(refused) = self.has_room(&table, group) {
            drop(table);
            self.count(refused.reason);
            return Err(refused);
        }
        table.accepted += 1;
        *table.per_address.entry(group).or_default() += 1;
        let id = table.accepted;
        let watched = Arc::new(Watched::new(self.clone(), id, group));
        table.watched.insert(id, watched.clone());
        if table.watched.len() == 1 {
            self.first_came.notify_one();
        }
        Ok(watched)
    }

    fn has_room(&self, table: &Table, group: IpAddr) -> Result<(), Refused> {
        if table.watched.len() >= self.limits.connections_max {
            return Err(Refused::new(
                Refusal::ConnectionsFull,
                "there are as many connections as this server takes",
            ));
        }
        let of_address = table.per_address.get(&group).copied().unwrap_or_default();
        match of_address >= self.limits.connections_per_address_max {
            true => Err(Refused::new(
                Refusal::AddressFull,
                "there are as many connections as this server takes from one address",
            )),
            false => Ok(()),
        }
    }

    /// Lets a connection go.
    pub fn dismiss(&self, watched: &Watched) {
        let mut table = self.table.lock();
        if table.watched.remove(&watched.id).is_none() {
            return;
        }
        table.past.add(watched.traffic());
        if let Some(count) = table.per_address.get_mut(&watched.group) {
            *count -= 1;
            if *count == 0 {
                table.per_address.remove(&watched.group);
            }
        }
        if table.watched.is_empty() {
            self.last_gone.notify_one();
        }
    }

    /// How it is going.
    pub fn numbers(&self) -> EdgeNumbers {
        let table = self.table.lock();
        let mut traffic = table.past;
        for watched in table.watched.values() {
            traffic.add(watched.traffic());
        }
        EdgeNumbers {
            connections: table.watched.len() as u64,
            connections_accepted: table.accepted,
            requests: traffic.requests,
            requests_under_way: self.under_way.load(Relaxed) as u64,
            bytes_read: traffic.bytes_read,
            bytes_written: traffic.bytes_written,
            refused: self.refused.each_ref().map(|count| count.load(Relaxed)),
        }
    }

    /// Whether connections are to end once they have answered.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Whether connections are to end now.
    pub fn is_cutting(&self) -> bool {
        self.cutting.load(Relaxed)
    }

    /// Lets all connections end once they have answered.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.call_all();
    }

    /// Ends all connections now and says how many there were.
    pub fn cut(&self) -> usize {
        self.cutting.store(true, Relaxed);
        self.call_all()
    }

    fn call_all(&self) -> usize {
        let table = self.table.lock();
        for watched in table.watched.values() {
            watched.call();
        }
        table.watched.len()
    }

    fn is_empty(&self) -> bool {
        self.table.lock().watched.is_empty()
    }

    /// Returns once there are no connections.
    pub async fn all_gone(&self) {
        while !self.is_empty() {
            self.last_gone.notified().await;
        }
    }

    /// Looks after deadlines, for ever.
    pub async fn look_after(&self) {
        let tick = Duration::from_millis(self.tick_ms);
        let mut before = Instant::now();
        loop {
            if self.is_empty() {
                self.first_came.notified().await;
                before = Instant::now();
            }
            tokio::time::sleep(tick).await;
            let now = Instant::now();
            self.advance(now - before);
            before = now;
        }
    }

    /// Lets time go on, and calls those connections whose time is over. If the server did not get to
    /// run for a while, that is not held against clients.
    pub fn advance(&self, time: Duration) {
        let time_ms = time.as_millis() as u64;
        let passed_ms = time_ms.min(2 * self.tick_ms);
        let now_ms = self.now_ms.fetch_add(passed_ms, Relaxed) + passed_ms;
        let table = self.table.lock();
        for watched in table.watched.values() {
            if watched.is_overdue(now_ms) {
                watched.call();
            }
        }
    }
}

/// Whom a connection is counted with: a household has one IPv4 address, and many of IPv6.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge() -> Arc<Edge> {
        Edge::new(EdgeLimits {
            connections_max: 3,
            connections_per_address_max: 2,
            requests_under_way_max: 1,
            ..EdgeLimits::default()
        })
    }

    fn admit(edge: &Arc<Edge>, address: &str) -> Result<Arc<Watched>, Refusal> {
        let admitted = edge.admit(address.parse().unwrap());
        admitted.map_err(|refused| refused.reason)
    }

    #[test]
    fn connections_are_counted_in_all_and_per_address() {
        let edge = edge();
        let first = admit(&edge, "192.0.2.1").unwrap();
        admit(&edge, "192.0.2.1").unwrap();
        // The same address, as a socket for both kinds shows it.
        let third = admit(&edge, "::ffff:192.0.2.1");
        assert_eq!(third.err(), Some(Refusal::AddressFull));
        admit(&edge, "2001:db8::1").unwrap();
        let fifth = admit(&edge, "192.0.2.2");
        assert_eq!(fifth.err(), Some(Refusal::ConnectionsFull));
        edge.dismiss(&first);
        edge.dismiss(&first);
        admit(&edge, "192.0.2.1").unwrap();
        let numbers = edge.numbers();
        assert_eq!((numbers.connections, numbers.connections_accepted), (3, 4));
        assert_eq!(numbers.refused(Refusal::AddressFull), 1);
        assert_eq!(numbers.refused(Refusal::ConnectionsFull), 1);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_client() {
        let edge = edge();
        admit(&edge, "2001:db8::1").unwrap();
        admit(&edge, "2001:db8::2:3:4").unwrap();
        let third = admit(&edge, "2001:db8::5");
        assert_eq!(third.err(), Some(Refusal::AddressFull));
        admit(&edge, "2001:db8:0:1::5").unwrap();
    }

    #[test]
    fn requests_under_way_are_bounded() {
        let edge = edge();
        assert!(edge.begin_request());
        assert!(!edge.begin_request());
        edge.end_request();
        assert!(edge.begin_request());
    }

    #[test]
    fn time_in_which_the_server_did_not_run_is_held_against_nobody() {
        let edge = edge();
        let watched = admit(&edge, "192.0.2.1").unwrap();
        let due = edge.in_ms(1_000);
        watched.await_input_until(due);
        edge.advance(Duration::from_secs(60));
        assert!(!watched.is_overdue(edge.now_ms()));
        // The control: the same time in small steps is over.
        for _ in 0..240 {
            edge.advance(Duration::from_millis(250));
        }
        assert!(watched.is_overdue(edge.now_ms()));
    }
}
