//! STOMP 1.2 to a Hivewire broker, RabbitMQ or ActiveMQ: the delivery half of the contract.
//!
//! - What the servers do differently stands in `dialect`, one file each. Which one it is says the
//!   server when it is connected to, unless the address does.
//! - One connection carries all publishes, and each subscription has one of its own. A lost
//!   connection is made again for ever, with back-off and jitter. A publish whose confirmation was
//!   lost is repeated under the same message id.
//! - Publishes of a batch go out together and are confirmed together: by the receipt of the last
//!   one, by one each, or as a transaction, whichever makes it safe on the server in question.
//! - Heart-beats go both ways. Twice the agreed time without one, and the connection is lost.
//! - A Hivewire broker counts tries and keeps dead letters itself. Elsewhere tries are counted in a
//!   header of ours: a retry publishes the message again, at the end of the queue, and acknowledges
//!   the old one. What a topic's subscriber wants again, it gets from here.
//! - What a topic carries while a subscriber has no connection does not reach it.

mod address;
mod backoff;
mod chunks;
mod convert;
mod dialect;
mod handshake;
mod inbox;
mod link;
mod publisher;
mod receipts;
mod session;
mod stream;
mod subscription;
mod unanswered;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::{Destination, Message, Name};

use self::address::Address;
use self::handshake::Door;
use self::link::Link;
use self::publisher::Publisher;
use self::subscription::StompSubscription;
use crate::capabilities::{AckLevel, Capabilities};
use crate::commit::Commit;
use crate::contract::{Bus, QueueSettings, Subscription};
use crate::deadline::Deadline;
use crate::engines::declared::Declared;
use crate::error::BusError;

const ENGINE: &str = "stomp";
const NEEDS_STORE: &str = "it needs the shared store; without one, use the embedded engine";

/// How to reach the server.
#[derive(Clone)]
pub struct StompSettings {
    /// Address, user, password and, for RabbitMQ, virtual host:
    /// `stomp://user:password@host:61613/vhost`, or `stomp+ssl://` for TLS. `?ca=FILE` names the
    /// certificates of the authorities to trust, and `?dialect=` one of `hivewire`, `rabbitmq` and
    /// `activemq` if the server does not say what it is.
    pub url: String,
    /// How often either side shows that it is alive, unless the server wants it less often. After
    /// twice that time the connection counts as lost.
    pub heart_beat_ms: u64,
    /// The longest pause between two attempts to connect.
    pub reconnect_pause_ms_max: u64,
}

impl StompSettings {
    /// The default settings for this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            heart_beat_ms: 3_000,
            reconnect_pause_ms_max: 2_000,
        }
    }
}

impl fmt::Debug for StompSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The address may hold a password, which must not reach a log.
        formatter
            .debug_struct("StompSettings")
            .field("heart_beat_ms", &self.heart_beat_ms)
            .field("reconnect_pause_ms_max", &self.reconnect_pause_ms_max)
            .finish_non_exhaustive()
    }
}

/// A bus over a server that speaks STOMP 1.2.
pub struct StompBus {
    door: Arc<Door>,
    link: Arc<Link>,
    declared: Arc<Declared>,
    publisher: Arc<Publisher>,
}

impl StompBus {
    /// Starts connecting and returns at once; must be called within a tokio runtime. Dropping the
    /// bus and all its subscriptions ends the connections.
    pub fn start(settings: &StompSettings) -> Result<Self, BusError> {
        let address = Address::parse(&settings.url)?;
        let door = Arc::new(Door {
            seen: parking_lot::Mutex::new(address.dialect),
            address,
            heart_beat_ms: settings.heart_beat_ms,
            pause_max: Duration::from_millis(settings.reconnect_pause_ms_max),
        });
        let link = Arc::new(Link::start(door.clone()));
        let declared = Arc::new(Declared::default());
        let publisher = Arc::new(Publisher::new(link.clone(), declared.clone()));
        Ok(Self {
            door,
            link,
            declared,
            publisher,
        })
    }

    /// Waits until the server was reached. Only then it is known what it is, and with that what
    /// [`Bus::capabilities`] can promise.
    pub async fn connected(&self, timeout: Duration) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        self.link.connected("a connection", deadline).await?;
        Ok(())
    }
}

#[async_trait]
impl Bus for StompBus {
    fn capabilities(&self) -> Capabilities {
        match *self.door.seen.lock() {
            Some(dialect) => dialect.capabilities(),
            None => dialect::unknown(),
        }
    }

    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        let before = self.declared.settings(queue);
        self.declared.remember(queue, settings)?;
        let queue = Destination::Queue(queue.clone());
        let declared = self.publisher.declare(&queue, deadline).await;
        if declared.is_err() {
            self.declared.remember(queue.name(), &before)?;
        }
        declared
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        let deadline = Deadline::after(timeout);
        self.publisher.publish(to, batch, deadline).await
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let deadline = Deadline::after(timeout);
        let subscription = StompSubscription::start(
            from.clone(),
            credit_messages,
            self.door.clone(),
            self.declared.clone(),
            self.publisher.clone(),
            deadline,
        );
        Ok(Box::new(subscription.await?))
    }

    async fn commit(&self, _commit: &Commit<'_>, _timeout: Duration) -> Result<AckLevel, BusError> {
        Err(needs_store("commit in one step"))
    }

    async fn raise_epoch(&self, _bucket: &Name, _timeout: Duration) -> Result<u64, BusError> {
        Err(needs_store("fence the owner of a bucket"))
    }

    async fn state(
        &self,
        _bucket: &Name,
        _key: &[u8],
        _timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        Err(needs_store("keep state"))
    }

    async fn scan(
        &self,
        _bucket: &Name,
        _after: Option<&[u8]>,
        _pairs_max: usize,
        _timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        Err(needs_store("keep state"))
    }
}

fn needs_store(what: &'static str) -> BusError {
    BusError::Unsupported {
        engine: ENGINE,
        what,
        remedy: NEEDS_STORE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_promised_before_the_server_is_known() {
        // Port 9 of the loopback interface: nobody answers there.
        let bus = StompBus::start(&StompSettings::new("stomp://127.0.0.1:9")).unwrap();
        assert_eq!(bus.capabilities(), dialect::unknown());
        let timeout = Duration::from_millis(50);
        assert!(bus.connected(timeout).await.unwrap_err().can_retry());
        let named = StompSettings::new("stomp://127.0.0.1:9?dialect=activemq");
        let bus = StompBus::start(&named).unwrap();
        assert_eq!(bus.capabilities().engine, "stomp, activemq");
        assert!(!format!("{named:?}").contains("127"));
    }
}
