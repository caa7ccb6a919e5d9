//! A broker, nodes on it in one process, and a stage that they share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::{Broker, SystemClock};
use bus::engines::EmbeddedBus;
use bus::{Bus, Put};
use control::{Agent, Deployer, NodeSettings, Rules, Share, definition_name};
use journal::{Options, testing::MemoryStorage};
use kernel::worker::{Failure, Incoming, Turn, Worker, native};
use kernel::{Address, Destination, Headers, Message, Name, StageAddress};
use runtime::{Delivery, Runtime, Settings, StageKind, StageSpec};

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const KEYS: usize = 40;
pub const STAGE: &str = "a/adder";
/// Buckets and the entrance.
pub const SHARES: u32 = 129;

/// Adds up what each key gets and emits `key:number:total`.
struct Adder;

#[async_trait]
impl Worker for Adder {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let key = incoming
            .message
            .headers
            .get("key")
            .unwrap_or("?")
            .to_owned();
        let body = String::from_utf8(incoming.message.body.to_vec())?;
        let before = turn.state(key.as_bytes()).await?;
        let before: u64 = match before {
            Some(before) => String::from_utf8(before.to_vec())?.parse()?,
            None => 0,
        };
        let total = before + 1;
        turn.set_state(key.clone(), total.to_string())?;
        turn.emit("out", Message::new(format!("{key}:{body}:{total}")))
    }
}

/// Knows one stage; the document only says on which nodes.
struct Adders {
    runtime: Arc<Runtime>,
}

#[async_trait]
impl Deployer for Adders {
    async fn deploy(
        &self,
        stage: &StageAddress,
        _revision: u64,
        definition: &[u8],
    ) -> Result<Share, String> {
        let on = String::from_utf8_lossy(definition);
        let out: Address = "queue:totals".parse().map_err(|_| "no address")?;
        let key = "header:key".parse().map_err(|_| "no key")?;
        let spec = StageSpec::new(stage.clone())
            .kind(StageKind::Keyed(key))
            .delivery(Delivery::Durable)
            .workers(2)
            .output("out", out);
        let code = native("adder", "1", |_| Adder);
        let deployed = self.runtime.deploy_shared(spec, code, None).await;
        deployed.map_err(|error| error.to_string())?;
        Ok(Share {
            count: SHARES,
            on: on.split_whitespace().map(str::to_owned).collect(),
            ..Share::default()
        })
    }

    async fn remove(&self, _stage: &StageAddress) {}
}

pub struct Node {
    pub name: &'static str,
    pub agent: Agent,
    pub runtime: Arc<Runtime>,
}

/// A broker and the nodes on it.
pub struct Cluster {
    pub bus: Arc<dyn Bus>,
    pub sent: usize,
}

pub fn rules() -> Rules {
    Rules {
        heartbeat_every: Duration::from_millis(100),
        dead_after: Duration::from_millis(1_500),
        cut_off_after: Duration::from_millis(1_200),
        listen_for: Duration::from_millis(300),
        steady_after: Duration::from_millis(300),
        hand_over_max: Duration::from_secs(5),
        moves_at_once: 16,
    }
}

impl Cluster {
    pub fn new() -> Self {
        let (broker, _) = Broker::start(
            Arc::new(MemoryStorage::new(1)),
            Options::default(),
            broker::Settings::default(),
            Arc::new(SystemClock),
        )
        .unwrap();
        Self {
            bus: Arc::new(EmbeddedBus::new(broker)),
            sent: 0,
        }
    }

    pub async fn node(&self, name: &'static str) -> Node {
        Self::node_over(self.bus.clone(), name).await
    }

    /// A node that reaches the broker through this.
    pub async fn node_over(bus: Arc<dyn Bus>, name: &'static str) -> Node {
        let clock = Arc::new(SystemClock);
        let runtime = Runtime::start(bus.clone(), Settings::default(), clock.clone());
        let adders = Arc::new(Adders {
            runtime: runtime.clone(),
        });
        let settings = NodeSettings {
            name: Name::new(name).unwrap(),
            labels: BTreeMap::new(),
            address: None,
            rules: rules(),
        };
        let agent = Agent::start(bus, runtime.clone(), adders, clock, settings);
        let agent = agent.await.unwrap();
        Node {
            name,
            agent,
            runtime,
        }
    }

    pub async fn define(&self, revision: u64, on: &str) {
        let name = definition_name(&STAGE.parse().unwrap()).unwrap();
        let body = Some(on.as_bytes());
        let put = self.bus.put_document(&name, revision, body, PATIENCE).await;
        assert_eq!(put, Ok(Put::Stored(revision + 1)));
    }

    /// One message of each key, as outside clients send them.
    pub async fn send_round(&mut self) {
        let queue = Destination::Queue(Name::new("a.adder").unwrap());
        let message = |key: usize| {
            let key = format!("k{key}");
            let headers = Headers::from_pairs([("key", key.as_str())]).unwrap();
            Message::new(self.sent.to_string()).with_headers(headers)
        };
        let mut batch: Vec<Message> = (0..KEYS).map(message).collect();
        self.bus
            .publish(&queue, &mut batch, PATIENCE)
            .await
            .unwrap();
        self.sent += 1;
    }

    /// Everything that was sent came, each once and in order.
    pub async fn check(&self) {
        self.judge().await.unwrap();
    }

    /// What is wrong with what came, if anything is.
    pub async fn judge(&self) -> Result<(), String> {
        let from = Destination::Queue(Name::new("totals").unwrap());
        let subscription = self.bus.subscribe(&from, 1_000, PATIENCE).await.unwrap();
        let mut next: HashMap<String, usize> = HashMap::new();
        let (mut count, expected) = (0, self.sent * KEYS);
        let deadline = Instant::now() + PATIENCE;
        while count < expected {
            if Instant::now() > deadline {
                return Err(format!("{count} of {expected} came"));
            }
            let wait = Duration::from_millis(200);
            let taken = subscription.next_batch(1_000, wait).await.unwrap();
            for delivery in &taken {
                let body = String::from_utf8_lossy(&delivery.message.body).into_owned();
                let parts: Vec<&str> = body.split(':').collect();
                let seen = next.entry(parts[0].to_owned()).or_default();
                if parts[1] != seen.to_string() {
                    return Err(format!("{body} came where {seen} was due"));
                }
                *seen += 1;
                if parts[2] != seen.to_string() {
                    return Err(format!("state lost or doubled: {body}"));
                }
                count += 1;
            }
            let receipts: Vec<_> = taken.iter().map(|delivery| delivery.receipt).collect();
            subscription.acknowledge(&receipts, PATIENCE).await.unwrap();
        }
        Ok(())
    }
}

/// How much each node holds, as the first one hears it.
pub fn held(nodes: &[&Node]) -> Vec<u32> {
    let heard = nodes[0].agent.nodes();
    let count = |node: &&Node| {
        let member = heard.iter().find(|member| member.last.node == node.name);
        let beat = member.and_then(|member| member.last.stages.get(STAGE));
        beat.map_or(0, |beat| beat.holds.count())
    };
    nodes.iter().map(count).collect()
}

pub async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends until something is true.
pub async fn sending_until(cluster: &mut Cluster, what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        cluster.send_round().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub fn is_spread(held: &[u32]) -> bool {
    let (least, most) = (held.iter().min(), held.iter().max());
    held.iter().sum::<u32>() == SHARES
        && most
            .zip(least)
            .is_some_and(|(most, least)| most - least <= 3)
}
