//! STOMP 1.2 to a Hivewire broker, RabbitMQ or ActiveMQ: the delivery half of the contract, and all of
//! it for a node at a Hivewire broker.
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
mod node;
mod publisher;
mod receipts;
mod requests;
mod session;
mod shared;
mod stream;
mod subscription;
mod unanswered;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::{Destination, Message, Name};

use self::address::Address;
use self::handshake::{Door, Seen};
use self::link::Link;
use self::node::NodeLink;
use self::publisher::Publisher;
use self::subscription::{Connections, StompSubscription, Wanted};
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::commit::Commit;
use crate::contract::{Begun, Bus, QueueSettings, Subscription};
use crate::deadline::Deadline;
use crate::document::{Document, Put};
use crate::engines::declared::Declared;
use crate::error::BusError;

const ENGINE: &str = "stomp";
/// How long the promise for what was begun may take.
const BEGUN_TIMEOUT: Duration = Duration::from_secs(10);
const NEEDS_STORE: &str = "it needs the shared store; without one, use the embedded engine";

/// How to reach the server.
#[derive(Clone)]
pub struct StompSettings {
    /// Address, user, password and, for RabbitMQ, virtual host:
    /// `stomp://user:password@host:61613/vhost`, or `stomp+ssl://` for TLS. `?ca=FILE` names the
    /// certificates of the authorities to trust, and `?dialect=` one of `hivewire`, `rabbitmq` and
    /// `activemq` if the server does not say what it is. Several, with commas between them, are
    /// tried in turn.
    pub url: String,
    /// How often either side shows that it is alive, unless the server wants it less often. After
    /// twice that time the connection counts as lost.
    pub heart_beat_ms: u64,
    /// The longest pause between two attempts to connect.
    pub reconnect_pause_ms_max: u64,
    /// What the node that connects calls itself, if it is one. A Hivewire broker then keeps its state
    /// and takes its commits.
    pub node: Option<Name>,
}

impl StompSettings {
    /// The default settings for this address.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            heart_beat_ms: 3_000,
            reconnect_pause_ms_max: 2_000,
            node: None,
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
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// A bus over a server that speaks STOMP 1.2.
pub struct StompBus {
    door: Arc<Door>,
    link: Arc<Link>,
    declared: Arc<Declared>,
    publisher: Arc<Publisher>,
    /// The other connection of a node.
    node: Option<NodeLink>,
}

impl StompBus {
    /// Starts connecting and returns at once; must be called within a tokio runtime. Dropping the
    /// bus and all its subscriptions ends the connections.
    pub fn start(settings: &StompSettings) -> Result<Self, BusError> {
        let addresses = settings.url.split(',').map(Address::parse);
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let seen = addresses.iter().find_map(|address| address.dialect);
        let seen = seen.map(|dialect| Seen {
            dialect,
            is_node: false,
        });
        let door = Arc::new(Door {
            seen: parking_lot::Mutex::new(seen),
            addresses,
            turn: AtomicUsize::new(0),
            node: settings.node.clone(),
            heart_beat_ms: settings.heart_beat_ms,
            pause_max: Duration::from_millis(settings.reconnect_pause_ms_max),
        });
        let link = Arc::new(Link::start(door.clone()));
        let declared = Arc::new(Declared::default());
        let publisher = Arc::new(Publisher::new(link.clone(), declared.clone()));
        let node = settings.node.is_some().then(|| NodeLink {
            link: Arc::new(Link::start(door.clone())),
            declared: declared.clone(),
        });
        Ok(Self {
            door,
            link,
            declared,
            publisher,
            node,
        })
    }

    /// Waits until the server was reached. Only then it is known what it is, and with that what
    /// [`Bus::capabilities`] can promise.
    pub async fn connected(&self, timeout: Duration) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        self.link.connected("a connection", deadline).await?;
        Ok(())
    }

    /// The connection of a node whose state the server keeps.
    async fn node(
        &self,
        what: &'static str,
        deadline: Deadline,
    ) -> Result<Option<&NodeLink>, BusError> {
        let Some(node) = &self.node else {
            return Ok(None);
        };
        let session = node.link.connected(what, deadline).await?;
        Ok(session.is_node.then_some(node))
    }

    /// The same, or the error of those who need it.
    async fn node_to(
        &self,
        what: &'static str,
        timeout: Duration,
    ) -> Result<(&NodeLink, Deadline), BusError> {
        let deadline = Deadline::after(timeout);
        match self.node(what, deadline).await? {
            Some(node) => Ok((node, deadline)),
            None => Err(BusError::Unsupported {
                engine: ENGINE,
                what,
                remedy: NEEDS_STORE,
            }),
        }
    }
}

#[async_trait]
impl Bus for StompBus {
    fn capabilities(&self) -> Capabilities {
        match *self.door.seen.lock() {
            Some(Seen { dialect, is_node }) => {
                let capabilities = dialect.capabilities();
                let commit = if is_node {
                    Given::Yes
                } else {
                    capabilities.commit
                };
                Capabilities {
                    commit,
                    ..capabilities
                }
            }
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

    fn begin_publish(
        &self,
        to: &Destination,
        messages: Vec<Message>,
        behind: Option<&Begun>,
    ) -> Result<Begun, Vec<Message>> {
        let deadline = Deadline::after(BEGUN_TIMEOUT);
        self.publisher.begin(to, messages, behind, deadline)
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let deadline = Deadline::after(timeout);
        let wanted = Wanted {
            from: from.clone(),
            credit_messages,
            declared: self.declared.clone(),
        };
        let connections = match self.node("a subscription", deadline).await? {
            Some(node) => Connections::Shared(node.link.clone()),
            None => Connections::Own(self.door.clone()),
        };
        let publisher = self.publisher.clone();
        let subscription = StompSubscription::start(wanted, connections, publisher, deadline);
        Ok(Box::new(subscription.await?))
    }

    async fn commit(&self, commit: &Commit<'_>, timeout: Duration) -> Result<AckLevel, BusError> {
        let (node, deadline) = self.node_to("commit in one step", timeout).await?;
        node.commit(commit, deadline).await
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        let what = "fence the owner of a bucket";
        let (node, deadline) = self.node_to(what, timeout).await?;
        node.raise_epoch(bucket, deadline).await
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        let (node, deadline) = self.node_to("keep state", timeout).await?;
        node.state(bucket, key, deadline).await
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        let (node, deadline) = self.node_to("keep state", timeout).await?;
        node.scan(bucket, after, pairs_max, deadline).await
    }

    async fn document(&self, name: &Name, timeout: Duration) -> Result<Document, BusError> {
        let (node, deadline) = self.node_to("keep documents", timeout).await?;
        node.document(name, deadline).await
    }

    async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError> {
        let (node, deadline) = self.node_to("keep documents", timeout).await?;
        node.put_document(name, expected_revision, body, deadline)
            .await
    }

    async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        let (node, deadline) = self.node_to("keep documents", timeout).await?;
        node.documents(prefix, after, documents_max, deadline).await
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
