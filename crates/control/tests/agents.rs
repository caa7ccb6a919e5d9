//! Several nodes in one process, over one broker: who has what, and what becomes of it when one
//! leaves, dies or comes back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use broker::{Broker, SystemClock};
use bus::engines::EmbeddedBus;
use bus::{Bus, Put};
use control::{
    Agent, Deployer, Ended, HEARTBEATS, NodeSettings, NodeState, Order, Rules, Share,
    definition_name,
};
use journal::{Options, testing::MemoryStorage};
use kernel::worker::{Failure, Incoming, Turn, Worker, native};
use kernel::{Address, Destination, Headers, Message, Name, StageAddress};
use runtime::{Delivery, Runtime, Settings, StageKind, StageSpec};

const PATIENCE: Duration = Duration::from_secs(30);
const KEYS: usize = 40;
const STAGE: &str = "a/adder";
/// Buckets and the entrance.
const SHARES: u32 = 129;

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

struct Node {
    name: &'static str,
    agent: Agent,
    runtime: Arc<Runtime>,
}

/// A broker and the nodes on it.
struct Cluster {
    bus: Arc<dyn Bus>,
    sent: usize,
}

fn rules() -> Rules {
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
    fn new() -> Self {
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

    async fn node(&self, name: &'static str) -> Node {
        let clock = Arc::new(SystemClock);
        let runtime = Runtime::start(self.bus.clone(), Settings::default(), clock.clone());
        let adders = Arc::new(Adders {
            runtime: runtime.clone(),
        });
        let settings = NodeSettings {
            name: Name::new(name).unwrap(),
            labels: BTreeMap::new(),
            address: None,
            rules: rules(),
        };
        let agent = Agent::start(self.bus.clone(), runtime.clone(), adders, clock, settings);
        let agent = agent.await.unwrap();
        Node {
            name,
            agent,
            runtime,
        }
    }

    async fn define(&self, revision: u64, on: &str) {
        let name = definition_name(&STAGE.parse().unwrap()).unwrap();
        let body = Some(on.as_bytes());
        let put = self.bus.put_document(&name, revision, body, PATIENCE).await;
        assert_eq!(put, Ok(Put::Stored(revision + 1)));
    }

    /// One message of each key, as outside clients send them.
    async fn send_round(&mut self) {
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
    async fn check(&self) {
        let from = Destination::Queue(Name::new("totals").unwrap());
        let subscription = self.bus.subscribe(&from, 1_000, PATIENCE).await.unwrap();
        let mut next: HashMap<String, usize> = HashMap::new();
        let mut count = 0;
        let deadline = Instant::now() + PATIENCE;
        while count < self.sent * KEYS {
            let expected = self.sent * KEYS;
            assert!(Instant::now() < deadline, "{count} of {expected} came");
            let wait = Duration::from_millis(200);
            let taken = subscription.next_batch(1_000, wait).await.unwrap();
            for delivery in &taken {
                let body = String::from_utf8_lossy(&delivery.message.body).into_owned();
                let parts: Vec<&str> = body.split(':').collect();
                let seen = next.entry(parts[0].to_owned()).or_default();
                assert_eq!(parts[1], seen.to_string(), "out of order: {body}");
                *seen += 1;
                assert_eq!(parts[2], seen.to_string(), "state lost or doubled: {body}");
                count += 1;
            }
            let receipts: Vec<_> = taken.iter().map(|delivery| delivery.receipt).collect();
            subscription.acknowledge(&receipts, PATIENCE).await.unwrap();
        }
        assert_eq!(next.len(), KEYS);
    }
}

/// How much each node holds, as the first one hears it.
fn held(nodes: &[&Node]) -> Vec<u32> {
    let heard = nodes[0].agent.nodes();
    let count = |node: &&Node| {
        let member = heard.iter().find(|member| member.last.node == node.name);
        let beat = member.and_then(|member| member.last.stages.get(STAGE));
        beat.map_or(0, |beat| beat.holds.count())
    };
    nodes.iter().map(count).collect()
}

async fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sends until something is true.
async fn sending_until(cluster: &mut Cluster, what: &str, mut is_true: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "never: {what}");
        cluster.send_round().await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn is_spread(held: &[u32]) -> bool {
    let (least, most) = (held.iter().min(), held.iter().max());
    held.iter().sum::<u32>() == SHARES
        && most
            .zip(least)
            .is_some_and(|(most, least)| most - least <= 3)
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_share_a_stage_and_hand_over_when_one_joins_and_one_is_drained() {
    let mut cluster = Cluster::new();
    cluster.define(0, "").await;
    let first = cluster.node("first").await;
    until("the first has all", || held(&[&first]) == [SHARES]).await;
    cluster.send_round().await;
    let second = cluster.node("second").await;
    sending_until(&mut cluster, "both have half", || {
        is_spread(&held(&[&first, &second]))
    })
    .await;
    let name = Name::new(first.name).unwrap();
    let drained = |order: &mut Order| {
        order.state = NodeState::Draining;
        order.stop = true;
    };
    second.agent.order(&name, drained).await.unwrap();
    sending_until(&mut cluster, "the second has all", || {
        held(&[&second, &first]) == [SHARES, 0]
    })
    .await;
    assert_eq!(first.agent.ended().await, Ended::Stopped);
    cluster.check().await;
    let turns = |node: &Node| node.runtime.flows()[0].stages[0].turns;
    assert!(turns(&first) > 0 && turns(&second) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_take_over_from_one_that_dies_and_it_gets_a_share_when_it_is_back() {
    let mut cluster = Cluster::new();
    cluster.define(0, "").await;
    let (first, second, third) = (
        cluster.node("first").await,
        cluster.node("second").await,
        cluster.node("third").await,
    );
    until("all three share", || {
        is_spread(&held(&[&first, &second, &third]))
    })
    .await;
    cluster.send_round().await;
    // It dies without a word: its heartbeats end, but what it has in hand goes on for a while.
    let Node { agent, runtime, .. } = third;
    drop(agent);
    sending_until(&mut cluster, "two share", || {
        is_spread(&held(&[&first, &second]))
    })
    .await;
    runtime.shutdown(PATIENCE).await;
    let third = cluster.node("third").await;
    sending_until(&mut cluster, "three share again", || {
        is_spread(&held(&[&first, &second, &third]))
    })
    .await;
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_that_are_named_count_and_a_name_that_is_taken_ends_the_older() {
    let mut cluster = Cluster::new();
    cluster.define(0, "second").await;
    let (first, second) = (cluster.node("first").await, cluster.node("second").await);
    until("the second has all", || {
        held(&[&first, &second]) == [0, SHARES]
    })
    .await;
    cluster.send_round().await;
    cluster.define(1, "first").await;
    first.agent.definitions_changed();
    sending_until(&mut cluster, "the first has all", || {
        held(&[&first, &second]) == [SHARES, 0]
    })
    .await;
    cluster.check().await;
    let again = cluster.node("second").await;
    assert_eq!(second.agent.ended().await, Ended::NameTaken);
    until("the newer one is heard", || {
        let heard = again.agent.nodes();
        heard.iter().any(|member| member.last.node == "second")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_paused_keeps_its_share_and_goes_on_later() {
    let mut cluster = Cluster::new();
    cluster.define(0, "").await;
    let (first, second) = (cluster.node("first").await, cluster.node("second").await);
    until("both share", || is_spread(&held(&[&first, &second]))).await;
    let name = Name::new(second.name).unwrap();
    let turns = |node: &Node| node.runtime.flows()[0].stages[0].turns;
    let state = |node: &Node| {
        let heard = node.agent.nodes();
        let second = heard.iter().find(|member| member.last.node == "second");
        second.map(|member| member.last.state)
    };
    let pause = |order: &mut Order| order.state = NodeState::Paused;
    first.agent.order(&name, pause).await.unwrap();
    until("it pauses", || state(&first) == Some(NodeState::Paused)).await;
    let before = (turns(&first), turns(&second));
    cluster.send_round().await;
    until("the other one works", || turns(&first) > before.0).await;
    let with_labels = |order: &mut Order| {
        order.labels = Some([("zone".to_owned(), "a".to_owned())].into());
        order.prefetch = Some(1);
    };
    first.agent.order(&name, with_labels).await.unwrap();
    until("its labels are heard", || {
        let heard = first.agent.nodes();
        heard
            .iter()
            .any(|member| member.last.labels.contains_key("zone"))
    })
    .await;
    assert_eq!(turns(&second), before.1, "it worked although it was paused");
    assert!(is_spread(&held(&[&first, &second])));
    let resume = |order: &mut Order| order.state = NodeState::Running;
    second.agent.order(&name, resume).await.unwrap();
    cluster.check().await;
    assert!(turns(&second) > before.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_far_more_heartbeats_than_it_leaves_unacknowledged() {
    let cluster = Cluster::new();
    let node = cluster.node("first").await;
    let topic = Destination::Topic(Name::new(HEARTBEATS).unwrap());
    let heard = |number: u64| {
        let known = node.agent.nodes();
        known
            .iter()
            .any(|member| member.last.node == "talker" && member.last.number == number)
    };
    until("it hears itself", || !node.agent.nodes().is_empty()).await;
    let mut number = 0;
    for _ in 0..50 {
        let beat = |number| {
            let beat = serde_json::json!({ "node": "talker", "start": 1, "number": number });
            Message::new(beat.to_string())
        };
        let mut batch: Vec<Message> = (number + 1..=number + 100).map(beat).collect();
        number += 100;
        cluster
            .bus
            .publish(&topic, &mut batch, PATIENCE)
            .await
            .unwrap();
        until("it hears the last", || heard(number)).await;
    }
}
