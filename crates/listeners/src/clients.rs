//! Who is connected, for people who look, and hanging up.
//!
//! A connection keeps no account of itself for that: whoever looks wakes it, and it says how it is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kernel::{Address, Destination, Timestamp};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// How long a connection may take to say how it is. One that waits for a slow client or the journal answers later.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);
/// How many may wait for the answer of one connection.
const ASKERS_MAX: usize = 64;

/// All connections of all listeners.
#[derive(Default)]
pub struct Clients {
    next: AtomicU64,
    known: Mutex<BTreeMap<u64, Arc<Client>>>,
}

/// A connection.
pub(crate) struct Client {
    protocol: &'static str,
    address: SocketAddr,
    connected_at: Timestamp,
    called: Notify,
    hangs_up: AtomicBool,
    askers: Mutex<Vec<oneshot::Sender<Said>>>,
}

/// What a connection says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The user that it has logged in as.
    pub user: Option<String>,
    /// How many messages the client has sent.
    pub sent: u64,
    /// How many messages it has received.
    pub received: u64,
    /// What it has subscribed to.
    pub subscriptions: Vec<ClientSubscription>,
}

/// What a client has subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSubscription {
    /// `queue:NAME` or `topic:NAME`.
    pub destination: String,
    /// How many messages it has not acknowledged.
    pub waiting_acks: u64,
    /// How many it may have without acknowledging them; none if it acknowledges nothing.
    pub prefetch: Option<u32>,
}

/// What a subscription is to, as it is written everywhere.
pub(crate) fn written(destination: Destination) -> String {
    let address = match destination {
        Destination::Queue(name) => Address::Queue(name),
        Destination::Topic(name) => Address::Topic(name),
    };
    address.to_string()
}

/// A client, as it is shown.
#[derive(Clone, Debug)]
pub struct ClientView {
    /// Its number, which no other client of this process ever has.
    pub id: u64,
    /// What it speaks.
    pub protocol: &'static str,
    /// Where it is.
    pub address: SocketAddr,
    /// Since when.
    pub connected_at: Timestamp,
    /// What it says; none if it is too busy to say anything.
    pub said: Option<Said>,
}

/// A connection that is known until this is dropped.
pub(crate) struct Known {
    all: Arc<Clients>,
    id: u64,
    pub client: Arc<Client>,
}

impl Clients {
    pub(crate) fn add(
        self: &Arc<Self>,
        protocol: &'static str,
        address: SocketAddr,
        now: Timestamp,
    ) -> Known {
        let id = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client {
            protocol,
            address,
            connected_at: now,
            called: Notify::new(),
            hangs_up: AtomicBool::new(false),
            askers: Mutex::default(),
        });
        self.known.lock().insert(id, client.clone());
        Known {
            all: self.clone(),
            id,
            client,
        }
    }

    /// The clients after a number, in the order in which they came.
    pub async fn list(&self, after: u64, limit: usize) -> Vec<ClientView> {
        let some: Vec<(u64, Arc<Client>)> = {
            let known = self.known.lock();
            let from = after.saturating_add(1);
            let some = known.range(from..).take(limit);
            some.map(|(id, client)| (*id, client.clone())).collect()
        };
        // All are asked before the first is waited for.
        let asked: Vec<_> = some.iter().map(|(_, client)| client.ask()).collect();
        let end = tokio::time::Instant::now() + ANSWER_TIMEOUT;
        let mut views = Vec::with_capacity(some.len());
        for ((id, client), answer) in some.into_iter().zip(asked) {
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            let said = match answer {
                Some(answer) => timeout(left, answer).await.ok().and_then(Result::ok),
                None => None,
            };
            views.push(ClientView {
                id,
                protocol: client.protocol,
                address: client.address,
                connected_at: client.connected_at,
                said,
            });
        }
        views
    }

    /// Hangs up; whether there is such a client.
    pub fn hang_up(&self, id: u64) -> bool {
        let client = self.known.lock().get(&id).cloned();
        if let Some(client) = &client {
            client.hangs_up.store(true, Ordering::Release);
            client.called.notify_one();
        }
        client.is_some()
    }
}

impl Client {
    fn ask(&self) -> Option<oneshot::Receiver<Said>> {
        let (asker, answer) = oneshot::channel();
        let mut askers = self.askers.lock();
        askers.retain(|asker| !asker.is_closed());
        if askers.len() >= ASKERS_MAX {
            return None;
        }
        askers.push(asker);
        drop(askers);
        self.called.notify_one();
        Some(answer)
    }

    /// Waits until somebody wants something of the connection. Nothing is lost if this is given up.
    pub async fn called(&self) {
        self.called.notified().await;
    }

    /// Answers those who ask; whether the connection is to end.
    pub fn answer(&self, say: impl FnOnce() -> Said) -> bool {
        let askers = std::mem::take(&mut *self.askers.lock());
        if !askers.is_empty() {
            let said = say();
            for asker in askers {
                // Whoever asked may have gone.
                let _ = asker.send(said.clone());
            }
        }
        self.hangs_up.load(Ordering::Acquire)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.all.known.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn clients_say_how_they_are_and_one_that_does_not_keeps_nobody_waiting() {
        let clients = Arc::<Clients>::default();
        let address = "127.0.0.1:1".parse().unwrap();
        let now = Timestamp::from_micros(5);
        let talks = clients.add("stomp", address, now);
        let _silent = clients.add("gamq", address, now);
        let client = talks.client.clone();
        let talking = tokio::spawn(async move {
            loop {
                client.called().await;
                let hangs_up = client.answer(|| Said {
                    sent: 7,
                    ..Said::default()
                });
                if hangs_up {
                    return;
                }
            }
        });
        let list = clients.list(0, 10).await;
        assert_eq!(list.len(), 2);
        assert_eq!(list[0].said.as_ref().unwrap().sent, 7);
        assert_eq!((list[1].protocol, list[1].said.is_none()), ("gamq", true));
        assert_eq!(clients.list(list[0].id, 10).await.len(), 1);
        assert!(clients.hang_up(list[0].id) && !clients.hang_up(99));
        talking.await.unwrap();
        drop(talks);
        assert_eq!(clients.list(0, 10).await.len(), 1);
    }
}
