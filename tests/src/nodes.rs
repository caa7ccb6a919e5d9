//! Several nodes on one bus, each a process of its own, and a stream of messages through a stage that
//! they share.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::hive::{Hive, HiveOptions};
use crate::poll::wait_until;
use crate::stomp_client::{AckMode, Stomp, TIMEOUT};

/// How long shares may take to be where they belong.
pub const SETTLE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long messages may stay away before they count as lost.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How many wrong results are shown.
const EXAMPLES_MAX: usize = 6;
/// How many messages are sent before their receipts are waited for.
const BATCH: usize = 16;

/// What makes a process a node of this name on this bus.
pub fn node(name: &str, bus: &str) -> HiveOptions {
    Hive::options()
        .argument("--name")
        .argument(name)
        .argument("--bus")
        .argument(bus)
}

/// How many parts of a stage each node that lives has, as one of them has heard.
pub fn parts(from: &Hive, stage: &str) -> Result<HashMap<String, u64>> {
    let nodes = from.rest("GET", "/api/v1/nodes", b"")?.json()?;
    let nodes = nodes["nodes"].as_array().context("a list of nodes")?;
    let living = nodes.iter().filter(|node| node["state"] != "dead");
    let parts = living.map(|node| {
        let name = node["name"].as_str().unwrap_or_default().to_owned();
        (name, node["stages"][stage]["parts"].as_u64().unwrap_or(0))
    });
    Ok(parts.collect())
}

/// Waits until the nodes that live have so much of a stage.
pub fn wait_for_parts(
    from: &Hive,
    stage: &str,
    what: &str,
    is_right: impl Fn(&HashMap<String, u64>) -> bool,
) -> Result<()> {
    let mut last = HashMap::new();
    let settled = wait_until(SETTLE_TIMEOUT, || match parts(from, stage) {
        Ok(now) => {
            last = now;
            is_right(&last)
        }
        Err(_) => false,
    });
    ensure!(settled, "never: {what}; it is {last:?}; {}", from.log());
    Ok(())
}

/// Posts to a node and expects that it does as it is told.
pub fn tell(hive: &Hive, path: &str, body: &Value) -> Result<Value> {
    let response = hive.rest("POST", path, body.to_string().as_bytes())?;
    let status = response.status;
    ensure!(
        (200..300).contains(&status),
        "{status}: {}",
        response.text()
    );
    Ok(response.json()?)
}

/// Moves something to a node.
pub fn relocate(hive: &Hive, what: &str, to: &str) -> Result<()> {
    tell(hive, "/api/v1/moves", &json!({ "what": what, "to": to })).map(|_| ())
}

/// Numbered messages of several keys at a steady rate, and what became of them.
pub struct Stream {
    shared: Arc<Shared>,
    producer: JoinHandle<Result<Vec<u64>>>,
    consumer: JoinHandle<Result<Vec<String>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
    /// Producer and consumer let go of the server.
    hold: AtomicBool,
    /// How many of the two have.
    held: AtomicU32,
    producer_is_done: AtomicBool,
}

impl Shared {
    /// Waits as long as it is told to, once the connection is closed in good order.
    fn obey(&self, stomp: &mut Option<Stomp>) -> Result<()> {
        if !self.hold.load(Ordering::SeqCst) {
            return Ok(());
        }
        if let Some(stomp) = stomp.take() {
            stomp.disconnect()?;
        }
        self.held.fetch_add(1, Ordering::SeqCst);
        while self.hold.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// What a stream is.
#[derive(Clone)]
pub struct StreamSettings {
    /// Where STOMP is spoken with the server that all nodes share.
    pub address: SocketAddr,
    /// Where messages go.
    pub to: String,
    /// Where results come from.
    pub from: String,
    /// Headers that the server wants with a connection.
    pub connect: Vec<(&'static str, &'static str)>,
    /// Headers that the server wants with a subscription.
    pub subscribe: Vec<(&'static str, &'static str)>,
    /// The header for the id of a message, where the bus needs one to know a message again. Results
    /// that come twice under the same id count once.
    pub id_header: Option<&'static str>,
    /// How many keys there are.
    pub keys: usize,
    /// How many messages in a second, of all keys together.
    pub rate: u32,
}

impl StreamSettings {
    fn connect(&self) -> Result<Stomp> {
        Ok(Stomp::connect_with(self.address, &self.connect)?)
    }
}

impl Stream {
    /// Begins to send and to receive.
    pub fn start(settings: &StreamSettings) -> Self {
        let shared = Arc::new(Shared::default());
        let producer = std::thread::spawn({
            let (settings, shared) = (settings.clone(), shared.clone());
            move || {
                let produced = produce(&settings, &shared);
                shared.producer_is_done.store(true, Ordering::SeqCst);
                produced
            }
        });
        let consumer = std::thread::spawn({
            let (settings, shared) = (settings.clone(), shared.clone());
            move || consume(&settings, &shared)
        });
        Self {
            shared,
            producer,
            consumer,
        }
    }

    /// Lets the server do without producer and consumer for a while: both close their connections in
    /// good order, so that nothing of theirs is in doubt. What is in the stage goes on.
    pub fn hold(&self) -> Result<()> {
        self.shared.hold.store(true, Ordering::SeqCst);
        let held = wait_until(SETTLE_TIMEOUT, || {
            self.shared.held.load(Ordering::SeqCst) == 2
        });
        ensure!(held, "producer and consumer did not let go");
        Ok(())
    }

    /// Both go on.
    pub fn go_on(&self) {
        self.shared.held.store(0, Ordering::SeqCst);
        self.shared.hold.store(false, Ordering::SeqCst);
    }

    /// How many messages were acknowledged so far.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// Waits until so many more were acknowledged.
    pub fn wait_for(&self, more: u64) -> Result<()> {
        let target = self.sent() + more;
        let reached = wait_until(SETTLE_TIMEOUT, || self.sent() >= target);
        ensure!(reached, "only {} of {target} were taken", self.sent());
        Ok(())
    }

    /// Stops sending, waits for the rest, and says what was wrong with the results.
    pub fn finish(self) -> Result<Judgement> {
        self.shared.stop.store(true, Ordering::SeqCst);
        let sent = self
            .producer
            .join()
            .map_err(|_| anyhow::anyhow!("the producer panicked"))??;
        let came = self
            .consumer
            .join()
            .map_err(|_| anyhow::anyhow!("the consumer panicked"))??;
        judge(&sent, &came)
    }
}

/// Sends one key after another.
fn produce(settings: &StreamSettings, shared: &Shared) -> Result<Vec<u64>> {
    let mut counts = vec![0_u64; settings.keys];
    let mut stomp: Option<Stomp> = None;
    let pause = Duration::from_secs_f64(BATCH as f64 / f64::from(settings.rate));
    let mut next = 0_usize;
    while !shared.stop.load(Ordering::SeqCst) {
        shared.obey(&mut stomp)?;
        let batch: Vec<usize> = (0..BATCH).map(|n| (next + n) % settings.keys).collect();
        send_batch(settings, &mut stomp, &batch, &counts)?;
        for key in &batch {
            counts[*key] += 1;
        }
        next += BATCH;
        shared.sent.fetch_add(BATCH as u64, Ordering::SeqCst);
        std::thread::sleep(pause);
    }
    Ok(counts)
}

fn send_batch(
    settings: &StreamSettings,
    stomp: &mut Option<Stomp>,
    batch: &[usize],
    counts: &[u64],
) -> Result<()> {
    let stomp = match stomp {
        Some(stomp) => stomp,
        None => stomp.insert(settings.connect()?),
    };
    let mut receipts = Vec::new();
    for key in batch {
        let (name, number) = (format!("k{key}"), counts[*key].to_string());
        let id = format!("{name}-{number}");
        let mut headers = vec![("persistent", "true"), ("key", name.as_str())];
        headers.extend(settings.id_header.map(|header| (header, id.as_str())));
        receipts.push(stomp.send_with_receipt(&settings.to, &headers, number.as_bytes())?);
    }
    for receipt in receipts {
        stomp.wait_receipt(&receipt, TIMEOUT)?;
    }
    Ok(())
}

fn consume(settings: &StreamSettings, shared: &Shared) -> Result<Vec<String>> {
    let mut came = Vec::new();
    let mut ids = HashSet::new();
    let mut silent_since = Instant::now();
    let mut stomp: Option<Stomp> = None;
    loop {
        shared.obey(&mut stomp)?;
        let is_done = shared.producer_is_done.load(Ordering::SeqCst);
        let all_came = came.len() as u64 >= shared.sent.load(Ordering::SeqCst);
        if is_done && (all_came || silent_since.elapsed() > SILENCE_MAX) {
            break;
        }
        if let Some((id, body)) = receive(settings, &mut stomp)? {
            if id.is_none_or(|id| ids.insert(id)) {
                came.push(body);
            }
            silent_since = Instant::now();
        }
    }
    // Whatever is doubled comes after the rest.
    while let Some((id, body)) = receive(settings, &mut stomp)? {
        if id.is_none_or(|id| ids.insert(id)) {
            came.push(body);
        }
    }
    Ok(came)
}

/// The next result and its id, if one comes soon.
fn receive(
    settings: &StreamSettings,
    stomp: &mut Option<Stomp>,
) -> Result<Option<(Option<String>, String)>> {
    let stomp = match stomp {
        Some(stomp) => stomp,
        None => {
            let fresh = stomp.insert(settings.connect()?);
            fresh.subscribe(
                "1",
                &settings.from,
                AckMode::ClientIndividual,
                &settings.subscribe,
            )?;
            fresh
        }
    };
    let frame = match stomp.next_message(Duration::from_millis(200)) {
        Ok(frame) => frame,
        Err(error) if error.is_timeout() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    stomp.ack(&frame)?;
    let id = settings.id_header.and_then(|header| frame.header(header));
    let id = id.map(str::to_owned);
    Ok(Some((id, String::from_utf8(frame.body)?)))
}

/// What was wrong with the results of a stream.
#[derive(Debug, Default)]
pub struct Judgement {
    /// How many messages were sent.
    pub sent: u64,
    /// Results that never came.
    pub lost: u64,
    /// Results that came more than once.
    pub doubled: u64,
    /// Results that came before an earlier one of their key.
    pub reordered: u64,
    /// Results whose count is not that of their message.
    pub miscounted: u64,
    /// The first results that were not as they should be, each with what came before of its key.
    pub examples: Vec<String>,
}

impl Judgement {
    /// Whether nothing was wrong.
    pub fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.reordered + self.miscounted == 0
    }
}

/// Compares results `key:number:count` with what was sent of each key.
fn judge(sent: &[u64], came: &[String]) -> Result<Judgement> {
    let mut judgement = Judgement {
        sent: sent.iter().sum(),
        ..Judgement::default()
    };
    let mut seen: Vec<Vec<u32>> = sent.iter().map(|n| vec![0; *n as usize]).collect();
    let mut last: Vec<Option<u64>> = vec![None; sent.len()];
    for result in came {
        let parts: Vec<&str> = result.split(':').collect();
        let [key, number, count] = parts[..] else {
            anyhow::bail!("{result} is no result");
        };
        let key: usize = key.trim_start_matches('k').parse()?;
        let (number, count): (u64, u64) = (number.parse()?, count.parse()?);
        let Some(times) = seen[key].get_mut(number as usize) else {
            anyhow::bail!("{result} was never sent");
        };
        *times += 1;
        judgement.doubled += u64::from(*times > 1);
        judgement.reordered += u64::from(last[key].is_some_and(|last| number < last));
        judgement.miscounted += u64::from(count != number + 1);
        let is_wrong = *times > 1 || count != number + 1;
        if is_wrong && judgement.examples.len() < EXAMPLES_MAX {
            let before = last[key];
            judgement
                .examples
                .push(format!("{result} after {before:?}"));
        }
        last[key] = last[key].max(Some(number));
    }
    let never = seen.iter().flatten().filter(|times| **times == 0);
    judgement.lost = never.count() as u64;
    Ok(judgement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_wrong_is_found() {
        let judged = |came: &[&str]| {
            let came: Vec<String> = came.iter().map(|&text| text.to_owned()).collect();
            judge(&[2, 1], &came).unwrap()
        };
        assert!(judged(&["k0:0:1", "k1:0:1", "k0:1:2"]).is_clean());
        assert_eq!(judged(&["k0:0:1", "k1:0:1"]).lost, 1);
        assert_eq!(judged(&["k0:0:1", "k0:0:1", "k1:0:1", "k0:1:2"]).doubled, 1);
        assert_eq!(judged(&["k0:1:2", "k0:0:1", "k1:0:1"]).reordered, 1);
        assert_eq!(judged(&["k0:0:1", "k0:1:1", "k1:0:1"]).miscounted, 1);
    }
}
