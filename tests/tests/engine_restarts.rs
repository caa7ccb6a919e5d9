//! The engine that nodes share is stopped and killed while they work: nothing that it promised is
//! lost, doubled or out of order, and they are back by themselves.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hivewire_bench::peers::postgres::Postgres;
use hivewire_bench::peers::rabbitmq::RabbitMq;
use hivewire_tests::hive::Hive;
use hivewire_tests::nodes::{SETTLE_TIMEOUT, node};
use hivewire_tests::poll::wait_until;
use hivewire_tests::soak;
use hivewire_tests::stomp_client::{AckMode, Stomp, TIMEOUT};
use hivewire_tests::workers::{component, must_deploy};
use parking_lot::Mutex;
use serde_json::json;

const KEYS: usize = 40;
const STAGE: &str = "shop/tally";
const RESULTS: &str = "/queue/totals";
/// How many are sent before their receipts are waited for.
const WINDOW: usize = 500;
/// How soon nodes have connections again once the engine listens.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// How soon the whole cluster works again then: who has what may have to be found out anew.
const WHOLE_WITHIN: Duration = Duration::from_secs(15);
/// What a node says when it has a connection.
const CONNECTED: &str = "connected to the";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Stopped,
    Killed,
}

/// A server that can be made to go away.
trait Engine {
    fn stomp(&self) -> SocketAddr;
    fn connect_headers(&self) -> Vec<(&'static str, &'static str)>;
    fn subscribe_headers(&self) -> Vec<(&'static str, &'static str)>;
    fn entrance(&self) -> &'static str;
    fn id_header(&self) -> Option<&'static str>;
    fn goes_away(&mut self, how: How) -> Result<()>;
    fn comes_back(&mut self) -> Result<()>;
}

struct OwnBroker(Hive);

impl Engine for OwnBroker {
    fn stomp(&self) -> SocketAddr {
        self.0.stomp_address()
    }

    fn connect_headers(&self) -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }

    fn subscribe_headers(&self) -> Vec<(&'static str, &'static str)> {
        vec![("prefetch-count", "100")]
    }

    fn entrance(&self) -> &'static str {
        "/queue/shop.tally"
    }

    fn id_header(&self) -> Option<&'static str> {
        None
    }

    fn goes_away(&mut self, how: How) -> Result<()> {
        match how {
            How::Stopped => drop(self.0.terminate()?),
            How::Killed => self.0.kill9(),
        }
        Ok(())
    }

    fn comes_back(&mut self) -> Result<()> {
        self.0.start_again()?;
        Ok(())
    }
}

impl Engine for RabbitMq {
    fn stomp(&self) -> SocketAddr {
        self.stomp_address()
    }

    fn connect_headers(&self) -> Vec<(&'static str, &'static str)> {
        vec![("login", "guest"), ("passcode", "guest")]
    }

    fn subscribe_headers(&self) -> Vec<(&'static str, &'static str)> {
        vec![
            ("durable", "true"),
            ("auto-delete", "false"),
            ("exclusive", "false"),
            ("x-queue-type", "quorum"),
            ("prefetch-count", "100"),
        ]
    }

    fn entrance(&self) -> &'static str {
        // The queue is there with settings that a client need not know.
        "/amq/queue/shop.tally"
    }

    fn id_header(&self) -> Option<&'static str> {
        Some("amqp-message-id")
    }

    fn goes_away(&mut self, how: How) -> Result<()> {
        match how {
            How::Stopped => self.stop_app()?,
            How::Killed => self.kill(),
        }
        Ok(())
    }

    fn comes_back(&mut self) -> Result<()> {
        self.restart()?;
        Ok(())
    }
}

/// What was sent and what came of it.
struct Stream {
    /// How many messages of each key were sent.
    sent: usize,
    /// How many results of each key came.
    came: Vec<usize>,
    ids: HashSet<String>,
    wrong: Vec<String>,
}

impl Stream {
    /// One message of every key has gone through.
    fn begin(engine: &dyn Engine) -> Result<Self> {
        let mut stream = Self {
            sent: 0,
            came: vec![0; KEYS],
            ids: HashSet::new(),
            wrong: Vec::new(),
        };
        stream.send(engine, 1)?;
        stream.read_all(engine, SETTLE_TIMEOUT)?;
        Ok(stream)
    }

    /// Sends so many messages of every key, and has a receipt for each.
    fn send(&mut self, engine: &dyn Engine, rounds: usize) -> Result<()> {
        let mut stomp = Stomp::connect_with(engine.stomp(), &engine.connect_headers())?;
        let mut receipts = Vec::new();
        for round in self.sent..self.sent + rounds {
            for key in 0..KEYS {
                let (name, number) = (format!("k{key}"), round.to_string());
                let id = format!("{name}-{number}");
                let mut headers = vec![("persistent", "true"), ("key", name.as_str())];
                headers.extend(engine.id_header().map(|header| (header, id.as_str())));
                let to = engine.entrance();
                receipts.push(stomp.send_with_receipt(to, &headers, number.as_bytes())?);
            }
            if receipts.len() >= WINDOW {
                for receipt in receipts.drain(..) {
                    stomp.wait_receipt(&receipt, TIMEOUT)?;
                }
            }
        }
        for receipt in receipts {
            stomp.wait_receipt(&receipt, TIMEOUT)?;
        }
        stomp.disconnect()?;
        self.sent += rounds;
        Ok(())
    }

    fn reader(engine: &dyn Engine) -> Result<Stomp> {
        let mut stomp = Stomp::connect_with(engine.stomp(), &engine.connect_headers())?;
        let mode = AckMode::ClientIndividual;
        stomp.subscribe("1", RESULTS, mode, &engine.subscribe_headers())?;
        Ok(stomp)
    }

    fn count(&self) -> usize {
        self.came.iter().sum()
    }

    /// Reads results until all are there.
    fn read_all(&mut self, engine: &dyn Engine, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        let mut stomp = Self::reader(engine)?;
        while self.count() < self.sent * KEYS {
            let missing = self.sent * KEYS - self.count();
            ensure!(Instant::now() < deadline, "{missing} results are missing");
            let frame = match stomp.next_message(Duration::from_millis(200)) {
                Ok(frame) => frame,
                Err(error) if error.is_timeout() => continue,
                Err(error) => return Err(error.into()),
            };
            stomp.ack_confirmed(&frame)?;
            let id = engine.id_header().and_then(|header| frame.header(header));
            if id.is_some_and(|id| !self.ids.insert(id.to_owned())) {
                continue;
            }
            self.note(&String::from_utf8(frame.body)?)?;
        }
        stomp.disconnect()?;
        Ok(())
    }

    fn note(&mut self, result: &str) -> Result<()> {
        let parts: Vec<&str> = result.split(':').collect();
        let [key, number, count] = parts[..] else {
            anyhow::bail!("{result} is no result");
        };
        let key: usize = key.trim_start_matches('k').parse()?;
        let (number, count): (usize, usize) = (number.parse()?, count.parse()?);
        let due = self.came[key];
        if number != due || count != due + 1 {
            self.wrong
                .push(format!("{result} came where {due} was due"));
        }
        self.came[key] += 1;
        Ok(())
    }
}

/// Lets the engine go away and come back several times while it is in the middle of something.
fn survive(
    engine: &mut dyn Engine,
    nodes: &[Hive],
    stream: &mut Stream,
    hows: &[How],
    rounds: usize,
) -> Result<()> {
    for how in hows {
        let before: Vec<usize> = nodes
            .iter()
            .map(|node| node.times_said(CONNECTED))
            .collect();
        stream.send(engine, rounds)?;
        // The first result of many is there: the stage is in the middle of them.
        let mut watcher = Stream::reader(engine)?;
        watcher.next_message(TIMEOUT)?;
        engine.goes_away(*how)?;
        drop(watcher);
        engine.comes_back()?;
        let listening = Instant::now();
        let back = wait_until(BACK_WITHIN, || {
            let mut nodes = nodes.iter().zip(&before);
            nodes.all(|(node, before)| node.times_said(CONNECTED) > *before)
        });
        let reconnected = listening.elapsed();
        ensure!(back, "{how:?}: no connection within {BACK_WITHIN:?}");
        stream
            .read_all(engine, WHOLE_WITHIN)
            .with_context(|| format!("{how:?}, {:?} after it listens", listening.elapsed()))?;
        eprintln!(
            "{how:?}: connected {reconnected:?} after it listens, all done after {:?}",
            listening.elapsed()
        );
    }
    ensure!(stream.wrong.is_empty(), "{:?}", stream.wrong);
    Ok(())
}

/// Stops and kills in turn.
fn hows(count: u64) -> Vec<How> {
    let all = [How::Stopped, How::Killed].into_iter().cycle();
    all.take(soak::times(count) as usize).collect()
}

fn own_cluster(args: &str) -> Result<(OwnBroker, Vec<Hive>)> {
    let broker = Hive::start()?;
    let bus = format!("stomp://{}", broker.stomp_address());
    let nodes = vec![node("a", &bus).start()?, node("b", &bus).start()?];
    let stage =
        json!({ "key": "header:key", "args": args, "outputs": { "out": ["queue:totals"] } });
    must_deploy(&nodes[0], &component("tally"), STAGE, &stage)?;
    Ok((OwnBroker(broker), nodes))
}

#[test]
fn nodes_outlive_their_broker() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let (mut broker, nodes) = own_cluster("")?;
    let mut stream = Stream::begin(&broker)?;
    survive(&mut broker, &nodes, &mut stream, &hows(6), 250)
}

#[test]
fn nodes_outlive_rabbitmq() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let mut rabbitmq = RabbitMq::start()?;
    let postgres = Postgres::start()?;
    let start = |name| {
        node(name, &rabbitmq.amqp_uri())
            .argument("--state")
            .argument(postgres.uri())
            .start()
    };
    let nodes = vec![start("a")?, start("b")?];
    let stage = json!({ "key": "header:key", "outputs": { "out": ["queue:totals"] } });
    must_deploy(&nodes[0], &component("tally"), STAGE, &stage)?;
    let mut stream = Stream::begin(&rabbitmq)?;
    // A queue that it has not written down yet would go with a crash, and all that is in it.
    let names = (0..128).map(|bucket| format!("shop.tally.b{bucket}"));
    for name in names.chain(["totals".to_owned()]) {
        let written = wait_until(SETTLE_TIMEOUT, || {
            rabbitmq.has_written_queue(&name).unwrap_or(false)
        });
        ensure!(written, "{name} was never written");
    }
    survive(&mut rabbitmq, &nodes, &mut stream, &hows(2), 50)
}

/// The control: a worker whose counts are in memory is found out when its nodes lose their engine
/// for so long that they let go of everything.
#[test]
fn what_is_lost_with_an_engine_is_found_out() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let (mut broker, mut nodes) = own_cluster("memory")?;
    let mut stream = Stream::begin(&broker)?;
    broker.goes_away(How::Killed)?;
    for node in &mut nodes {
        node.kill9();
    }
    broker.comes_back()?;
    for node in &mut nodes {
        node.start_again()?;
    }
    stream.send(&broker, 5)?;
    stream.read_all(&broker, SETTLE_TIMEOUT)?;
    ensure!(!stream.wrong.is_empty(), "nothing was found");
    Ok(())
}
