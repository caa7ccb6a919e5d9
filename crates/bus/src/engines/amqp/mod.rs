//! RabbitMQ over AMQP 0-9-1: the delivery half of the contract.
//!
//! - A durable queue is a quorum queue, a transient one a classic queue that is not durable. No
//!   delivery limit is set. A topic is a routing key of the exchange `amq.topic`, where clients of
//!   the server's other protocols find it too; each subscriber has a private queue.
//! - A lost connection is made again for ever, with back-off and jitter. A publish whose
//!   confirmation was lost is repeated under the same message id.
//! - Tries are counted in a header of ours: a retry publishes the message again, at the end of the
//!   queue, and acknowledges the old one. The server's own requeueing keeps no order either, and
//!   its count includes what was only prefetched, so a flapping network would kill messages.
//! - To end a subscription its channel is closed, never its consumer cancelled: what it holds
//!   would come behind what others get meanwhile.
//! - An acknowledgement of a durable queue that was made less than two seconds ago says `memory`: a
//!   server that crashes that early was seen to lose the queue itself, confirmed messages and all.
//! - What a topic carries while a subscriber has no connection does not reach it.

mod connection;
mod convert;
mod publisher;
mod server;
mod subscription;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::{Destination, Message, Name};

use self::connection::Link;
use self::publisher::{Publisher, Target};
use self::server::Server;
use self::subscription::AmqpSubscription;
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::commit::Commit;
use crate::contract::{Bus, QueueSettings, Subscription};
use crate::deadline::Deadline;
use crate::engines::declared::Declared;
use crate::error::BusError;

const ENGINE: &str = "amqp";
const NEEDS_STORE: &str = "it needs the shared store; without one, use the embedded engine";

/// So many members make a quorum queue survive the loss of a machine.
const REPLICATED_MEMBERS_MIN: u8 = 3;

/// How to reach the server.
#[derive(Clone, Debug)]
pub struct AmqpSettings {
    /// Address, user, password and virtual host: `amqp://user:password@host:5672/vhost`, or
    /// `amqps://` for TLS. `?ca=FILE` names the authorities to trust instead of those that browsers
    /// trust. Several addresses, with commas between them, are tried in turn.
    pub uri: String,
    /// How often either side shows that it is alive. After twice that time the connection counts
    /// as lost.
    pub heartbeat_seconds: u16,
    /// The longest pause between two attempts to connect.
    pub reconnect_pause_ms_max: u64,
    /// How many members a quorum queue gets. The cluster must have that many nodes: from three on
    /// an acknowledgement counts as replicated.
    pub quorum_members: u8,
}

impl AmqpSettings {
    /// The default settings for this address.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            heartbeat_seconds: 3,
            reconnect_pause_ms_max: 2_000,
            quorum_members: 1,
        }
    }

    fn servers(&self) -> Result<Vec<Server>, BusError> {
        let addresses = self.uri.split(',');
        let servers = addresses.map(|address| Server::parse(address, self.heartbeat_seconds));
        servers.collect()
    }
}

/// Settings of queues, and what follows from them.
struct Queues {
    declared: Declared,
    quorum_members: u8,
}

impl Queues {
    fn durable_level(&self) -> AckLevel {
        if self.quorum_members >= REPLICATED_MEMBERS_MIN {
            AckLevel::Replicated
        } else {
            AckLevel::Synced
        }
    }
}

/// A bus over a RabbitMQ server or cluster.
pub struct AmqpBus {
    link: Arc<Link>,
    queues: Arc<Queues>,
    publisher: Arc<Publisher>,
}

impl AmqpBus {
    /// Starts connecting and returns at once; must be called within a tokio runtime. Dropping the
    /// bus and all its subscriptions ends the connection.
    pub fn start(settings: &AmqpSettings) -> Result<Self, BusError> {
        let servers = settings.servers()?;
        let pause_max = Duration::from_millis(settings.reconnect_pause_ms_max);
        let link = Arc::new(Link::start(servers, pause_max));
        let queues = Arc::new(Queues {
            declared: Declared::default(),
            quorum_members: settings.quorum_members,
        });
        let publisher = Arc::new(Publisher::new(link.clone(), queues.clone()));
        Ok(Self {
            link,
            queues,
            publisher,
        })
    }
}

#[async_trait]
impl Bus for AmqpBus {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: ENGINE,
            durable_level: self.queues.durable_level(),
            commit: Given::No("needs the shared store"),
            order_after_retry: Given::No("a retry joins the end of the queue"),
            counts_lost_subscribers: Given::No(
                "the server cannot tell what was handled from what was only prefetched",
            ),
            in_turn: Given::Yes,
            reconnects: Given::Yes,
        }
    }

    async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        let connected = self.link.connected("a declaration", deadline).await?;
        connected
            .declare(queue, settings, self.queues.quorum_members, deadline)
            .await?;
        self.queues.declared.remember(queue, settings)
    }

    async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        timeout: Duration,
    ) -> Result<AckLevel, BusError> {
        let deadline = Deadline::after(timeout);
        self.publisher
            .publish(&Target::of(to)?, batch, deadline)
            .await
    }

    async fn subscribe(
        &self,
        from: &Destination,
        credit_messages: u32,
        timeout: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        let deadline = Deadline::after(timeout);
        // Checks that the name can be one here.
        Target::of(from)?;
        let subscription = AmqpSubscription::start(
            from.clone(),
            credit_messages,
            self.link.clone(),
            self.queues.clone(),
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
