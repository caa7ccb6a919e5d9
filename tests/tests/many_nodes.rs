//! Nodes that share a stage: what moves, dies, is cut off or wakes up late loses, doubles and reorders
//! nothing.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;
use hivewire_bench::peers::postgres::Postgres;
use hivewire_bench::peers::rabbitmq::RabbitMq;
use hivewire_tests::hive::Hive;
use hivewire_tests::network::{Direction, Network};
use hivewire_tests::nodes::{
    Judgement, Stream, StreamSettings, node, relocate, tell, wait_for_parts,
};
use hivewire_tests::workers::{component, dead_reasons, must_deploy, other_version};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::json;

const STAGE: &str = "shop/tally";
/// Buckets and the entrance.
const PARTS: u64 = 129;
/// Several clusters at a time would only show how slow the machine is.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A broker, and nodes that reach it each through a network of its own.
struct Cluster {
    broker: Hive,
    nodes: Vec<Hive>,
    // Goes after those who use it.
    networks: Vec<Network>,
}

/// Nodes come from elsewhere, so they must say who they are.
const BROKER: &str = "
[gamq]
allow_anonymous = true

[[users]]
name = \"node\"
password = \"secret\"
node = true
";
const LOGIN: [(&str, &str); 2] = [("login", "node"), ("passcode", "secret")];

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Cluster {
    fn start(worker_args: &str) -> Result<(Self, Stream)> {
        let broker = Hive::options()
            .config(BROKER)
            .reachable_at(Ipv4Addr::UNSPECIFIED.into())
            .start()?;
        let port = broker.stomp_address().port();
        let mut networks = Vec::new();
        let mut nodes = Vec::new();
        for name in NAMES {
            let network = Network::new()?;
            let bus = format!("stomp://node:secret@{}:{port}", network.here());
            nodes.push(node(name, &bus).across(&network).start()?);
            networks.push(network);
        }
        let cluster = Self {
            broker,
            networks,
            nodes,
        };
        let stage = json!({
            "key": "header:key",
            "workers": 2,
            "args": worker_args,
            "outputs": { "out": ["queue:totals"] },
        });
        must_deploy(&cluster.nodes[0], &component("tally"), STAGE, &stage)?;
        cluster.wait_until_shared(0, &NAMES)?;
        let stream = Stream::start(&StreamSettings {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            to: "/queue/shop.tally".to_owned(),
            from: "/queue/totals".to_owned(),
            connect: LOGIN.to_vec(),
            subscribe: Vec::new(),
            id_header: None,
            keys: 40,
            rate: 800,
        });
        stream.wait_for(200)?;
        Ok((cluster, stream))
    }

    /// Waits until these nodes, and no others that live, have about the same.
    fn wait_until_shared(&self, from: usize, names: &[&str]) -> Result<()> {
        let most = PARTS.div_ceil(names.len() as u64) + 1;
        let what = format!("{names:?} share the stage");
        wait_for_parts(&self.nodes[from], STAGE, &what, |parts| {
            let of = |name: &&str| parts.get(*name).copied().unwrap_or(0);
            let total: u64 = names.iter().map(of).sum();
            total == PARTS && names.iter().all(|name| of(name) > 0 && of(name) <= most)
        })
    }

    fn wait_until_on(&self, from: usize, name: &str) -> Result<()> {
        let what = format!("{name} has all of it");
        wait_for_parts(&self.nodes[from], STAGE, &what, |parts| {
            parts.get(name) == Some(&PARTS)
        })
    }

    fn spread(&self) -> Result<()> {
        let stage = json!({ "spread": true });
        must_deploy(&self.nodes[0], &component("tally"), STAGE, &stage)
    }
}

fn must_be_clean(cluster: &Cluster, judgement: &Judgement) -> Result<()> {
    eprintln!("{judgement:?}");
    let dead = dead_reasons(&cluster.broker)?;
    assert!(judgement.sent > 1_000, "{judgement:?}");
    assert!(judgement.is_clean(), "{judgement:?}; dead: {dead:?}");
    Ok(())
}

#[test]
fn stages_move_and_nodes_come_and_go_while_messages_flow() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let (mut cluster, stream) = Cluster::start("")?;
    relocate(&cluster.nodes[0], STAGE, "b")?;
    cluster.wait_until_on(0, "b")?;
    stream.wait_for(200)?;
    // A worker of two has half of the buckets.
    relocate(&cluster.nodes[1], "shop/tally/0", "c")?;
    wait_for_parts(&cluster.nodes[0], STAGE, "c has one worker", |parts| {
        parts["c"] == 64 && parts["b"] == PARTS - 64
    })?;
    cluster.spread()?;
    cluster.wait_until_shared(0, &NAMES)?;
    // New code on all nodes.
    let folder = tempfile::tempdir()?;
    let newer = other_version(&component("tally"), folder.path(), 2)?;
    must_deploy(&cluster.nodes[2], &newer, STAGE, &json!({}))?;
    stream.wait_for(200)?;
    let drained = json!({ "state": "draining" });
    tell(&cluster.nodes[0], "/api/v1/nodes/c", &drained)?;
    cluster.wait_until_shared(0, &["a", "b"])?;
    tell(
        &cluster.nodes[0],
        "/api/v1/nodes/c",
        &json!({ "state": "running" }),
    )?;
    cluster.wait_until_shared(0, &NAMES)?;
    // One that is told to end leaves nothing behind.
    tell(
        &cluster.nodes[0],
        "/api/v1/nodes/b",
        &json!({ "state": "draining", "stop": true }),
    )?;
    cluster.wait_until_shared(0, &["a", "c"])?;
    let ended = hivewire_tests::poll::wait_until(Duration::from_secs(30), || {
        cluster.nodes[1].exit_status().is_some()
    });
    assert!(ended, "b goes on: {}", cluster.nodes[1].log());
    tell(
        &cluster.nodes[0],
        "/api/v1/flows/shop/tally/scale?workers=5",
        &json!({}),
    )?;
    stream.wait_for(200)?;
    must_be_clean(&cluster, &stream.finish()?)?;
    Ok(())
}

#[test]
fn what_a_dead_node_had_runs_again_on_the_others() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let (mut cluster, stream) = Cluster::start("")?;
    cluster.nodes[2].kill9();
    let died = Instant::now();
    cluster.wait_until_shared(0, &["a", "b"])?;
    let took = died.elapsed();
    stream.wait_for(200)?;
    cluster.nodes[2].start_again()?;
    cluster.wait_until_shared(0, &NAMES)?;
    // The broker dies while the stage works; nothing that it promised may be missing.
    stream.hold()?;
    cluster.broker.kill9();
    cluster.broker.start_again()?;
    stream.go_on();
    stream.wait_for(400)?;
    must_be_clean(&cluster, &stream.finish()?)?;
    eprintln!("the others had everything after {took:?}");
    Ok(())
}

#[test]
fn who_is_cut_off_or_wakes_up_late_does_no_harm() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let (cluster, stream) = Cluster::start("")?;
    // It goes on, but nobody hears it, and it hears nobody.
    cluster.networks[2].set_connected(false)?;
    cluster.wait_until_shared(0, &["a", "b"])?;
    stream.wait_for(200)?;
    cluster.networks[2].set_connected(true)?;
    cluster.wait_until_shared(0, &NAMES)?;
    // It is heard and hears nobody, or the other way round.
    for direction in [Direction::There, Direction::Here] {
        cluster.networks[1].set_black_hole(direction, true)?;
        cluster.wait_until_shared(0, &["a", "c"])?;
        stream.wait_for(200)?;
        cluster.networks[1].set_black_hole(direction, false)?;
        cluster.wait_until_shared(0, &NAMES)?;
    }
    // It stands still with messages in its hands, and knows nothing of that when it wakes up.
    cluster.nodes[1].signal(Signal::STOP)?;
    cluster.wait_until_shared(0, &["a", "c"])?;
    stream.wait_for(200)?;
    cluster.nodes[1].signal(Signal::CONT)?;
    cluster.wait_until_shared(0, &NAMES)?;
    stream.wait_for(200)?;
    must_be_clean(&cluster, &stream.finish()?)?;
    Ok(())
}

#[test]
fn a_cable_that_is_loose_does_no_harm() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let (cluster, stream) = Cluster::start("")?;
    // Too short to be taken for dead, and long enough for it now and then.
    for milliseconds in [200, 1_500, 400, 3_000, 700, 6_000, 100] {
        cluster.networks[1].set_connected(false)?;
        std::thread::sleep(Duration::from_millis(milliseconds));
        cluster.networks[1].set_connected(true)?;
        stream.wait_for(200)?;
    }
    cluster.wait_until_shared(0, &NAMES)?;
    must_be_clean(&cluster, &stream.finish()?)?;
    Ok(())
}

#[test]
fn the_same_holds_over_rabbitmq_with_postgresql() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let rabbitmq = RabbitMq::start()?;
    let postgres = Postgres::start()?;
    let start = |name| {
        node(name, &rabbitmq.amqp_uri())
            .argument("--state")
            .argument(postgres.uri())
            .start()
    };
    let (first, mut second) = (start("a")?, start("b")?);
    let stage = json!({ "key": "header:key", "outputs": { "out": ["queue:totals"] } });
    must_deploy(&first, &component("tally"), STAGE, &stage)?;
    let has = |parts: &HashMap<String, u64>, name: &str| parts.get(name).copied().unwrap_or(0);
    wait_for_parts(&first, STAGE, "both share", |parts| {
        has(parts, "a") + has(parts, "b") == PARTS && has(parts, "b") > 0
    })?;
    let stream = Stream::start(&StreamSettings {
        address: rabbitmq.stomp_address(),
        // The queue is there with settings that a client need not know.
        to: "/amq/queue/shop.tally".to_owned(),
        from: "/queue/totals".to_owned(),
        connect: vec![("login", "guest"), ("passcode", "guest")],
        subscribe: vec![
            ("durable", "true"),
            ("auto-delete", "false"),
            ("exclusive", "false"),
            ("x-queue-type", "quorum"),
            ("prefetch-count", "100"),
        ],
        id_header: Some("amqp-message-id"),
        keys: 40,
        rate: 200,
    });
    stream.wait_for(200)?;
    relocate(&first, STAGE, "b")?;
    wait_for_parts(&first, STAGE, "b has all", |parts| has(parts, "b") == PARTS)?;
    stream.wait_for(200)?;
    second.kill9();
    wait_for_parts(&first, STAGE, "a has all", |parts| has(parts, "a") == PARTS)?;
    stream.wait_for(200)?;
    let judgement = stream.finish()?;
    eprintln!("{judgement:?}");
    assert!(judgement.is_clean(), "{judgement:?}");
    Ok(())
}

/// The control: a worker that keeps in memory what belongs into its state is found out by a move.
#[test]
fn a_worker_that_forgets_is_found_out() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let (cluster, stream) = Cluster::start("memory")?;
    relocate(&cluster.nodes[0], STAGE, "b")?;
    cluster.wait_until_on(0, "b")?;
    stream.wait_for(200)?;
    let judgement = stream.finish()?;
    eprintln!("{judgement:?}");
    assert!(
        judgement.miscounted > 0 && judgement.lost == 0,
        "{judgement:?}"
    );
    Ok(())
}
