//! `frontier`: URLs wait here, and are handed out at the pace of their host.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flows::plugins::author::{OUT, Plugin, REFUSED};
use flows::plugins::{Environment, Outputs, ParameterError, Period};
use flows::{Data, Event, Hold};
use kernel::worker::{Failure, FailureKind, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;

use super::urls::{self, REDIRECTS, Urls};
use crate::frontier::{
    Bucket, Frontiers, HOST, HostRecord, New, Request, Rules, Slot, StageFrontier, Teller,
    block_keys, host_key,
};
use crate::pace::PaceRule;
use crate::visit::Visit;

/// Parameters of `frontier`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How fast one host is asked.
    #[serde(default)]
    pace: PaceRule,
    /// How many URLs may be under way on this node. Their pages are in memory until they are dealt with.
    #[serde(default = "under_way_max")]
    under_way_max: usize,
    /// How often a URL is asked for, if the server cannot be reached or wants it to be asked again later.
    #[serde(default = "tries_max")]
    tries_max: u32,
    /// How long after the first failure a URL is asked for again; each further failure doubles that.
    #[serde(default = "retry_after")]
    retry_after: Period,
    /// How many URLs of one host are taken in all. Others go to the output `refused`.
    #[serde(default = "pages_per_host_max")]
    pages_per_host_max: u64,
    /// How many redirects in a row are followed. Where one more leads goes to the output `refused`.
    #[serde(default = "redirects_max")]
    redirects_max: u32,
    /// After how many answers nothing more is handed out on this node. Without it there is no such bound.
    pages_max: Option<u64>,
}

fn under_way_max() -> usize {
    256
}

fn tries_max() -> u32 {
    3
}

fn retry_after() -> Period {
    Period::from_millis(10_000)
}

fn redirects_max() -> u32 {
    10
}

fn pages_per_host_max() -> u64 {
    10_000_000
}

pub(super) struct Frontier {
    rules: Rules,
    redirects_max: u32,
    pages_max: u64,
    stage: Arc<StageFrontier>,
}

/// What is kept of a bucket besides its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Meta {
    /// Names the bucket among those of this stage.
    id: u64,
    /// Grows with every turn that changes something.
    version: u64,
    fetched: u64,
    failed: u64,
    /// Whether the timer is set that brings the bucket to life after a change of its owner.
    has_timer: bool,
}

const META: &[u8] = b"m";
const TIMER: &str = "frontier";
/// A bucket for which something waits has this timer; when it goes off does not matter.
const TIMER_AFTER: Duration = Duration::from_secs(3_600);
const SCAN_MAX: usize = 1_000;
/// What URLs that wait take in memory in each bucket: with all buckets of a node, 64 MiB.
const BUCKET_BYTES_MAX: usize = 256 << 10;
/// How many URLs are handed out in one turn.
const HAND_OUT_MAX: usize = 256;
/// A bucket for which something waits has a turn at least this often.
const TURN_EVERY_MS: u64 = 5_000;

impl Plugin for Frontier {
    const ID: &'static str = "frontier";
    const DESCRIPTION: &'static str = "Keeps URLs on disk, and hands them out one by one at the pace of their host.\n\n\
        Key the stage by host (`json:/host`), so that each host belongs to one worker of one node. A URL stays until everything that was \
        made of it is dealt with: its page stored, its links here or on their way in a queue. After a crash only what was under way is handed out again. \
        By default a host is asked for one page at a time, with a pause that grows with the time it takes to answer; hosts that answer with 429 or 503 are left alone \
        for as long as they say.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            OUT,
            "Requests: one `url` each, with `host`, `depth`, `from` and `tries`.",
        ),
        (
            REFUSED,
            "URLs beyond the budget of their host, or behind too many redirects, with `rule` and `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "Ten pages a minute from each host",
            r#"{"pace": {"delay": "6s"}}"#,
        ),
        (
            "A server of one's own, as fast as it can",
            r#"{"pace": {"unlimited": true}, "pages_per_host_max": 100000}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let frontiers = environment.shared.get_or_make(Frontiers::default);
        let Some(stage) = &environment.stage else {
            return Err(ParameterError::general("the frontier has to be a stage"));
        };
        Ok(Self {
            rules: Rules {
                pace: parameters.pace,
                under_way_max: parameters.under_way_max,
                tries_max: parameters.tries_max,
                retry_after: parameters.retry_after.duration(),
                pages_per_host_max: parameters.pages_per_host_max,
                bucket_bytes_max: BUCKET_BYTES_MAX,
            },
            redirects_max: parameters.redirects_max,
            pages_max: parameters.pages_max.unwrap_or(u64::MAX),
            stage: frontiers.stage(stage),
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    if parameters.under_way_max == 0 {
        return Err(ParameterError::new("under_way_max", "write 1 or more"));
    }
    if parameters.tries_max == 0 {
        return Err(ParameterError::new("tries_max", "write 1 or more"));
    }
    parameters
        .pace
        .check()
        .map_err(|problem| ParameterError::new("pace", problem))
}

#[async_trait]
impl Worker for Frontier {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let now_ms = turn.now().as_millis();
        let (mut meta, is_new) = read_meta(turn).await?;
        let slot = self.stage.slot(meta.id);
        let mut bucket = match slot.take(meta.version) {
            Some(bucket) => bucket,
            None => Box::new(self.read_bucket(&meta, turn, now_ms).await?),
        };
        let went_off =
            |message: &Incoming| matches!(&message.kind, Kind::Timer(name) if **name == *TIMER);
        let mut is_changed = is_new;
        if messages.iter().any(went_off) {
            meta.has_timer = false;
            is_changed = true;
        }
        let waker = turn.waker();
        for ended in slot.endings.take(waker.clone(), usize::MAX) {
            bucket.ended(&ended, &self.rules, now_ms);
        }
        self.add(messages, &mut bucket, turn, now_ms).await?;
        let writes = bucket.writes(&self.rules, now_ms);
        let requests = self.hand_out(&slot, &mut bucket, turn, now_ms).await?;
        for request in requests {
            emit(&request, &slot, turn)?;
        }
        is_changed |= !writes.is_empty();
        for (key, value) in writes {
            match value {
                Some(value) => turn.set_state(key, value)?,
                None => turn.remove_state(key)?,
            }
        }
        if bucket.is_empty() == meta.has_timer {
            meta.has_timer = !meta.has_timer;
            is_changed = true;
            match meta.has_timer {
                true => turn.set_timer(TIMER, TIMER_AFTER, Bytes::new())?,
                false => turn.cancel_timer(TIMER)?,
            }
        }
        if is_changed {
            let numbers = bucket.numbers();
            meta.version += 1;
            (meta.fetched, meta.failed) = (numbers.fetched, numbers.failed);
            turn.set_state(META, meta.encode())?;
        }
        bucket.shrink(&self.rules);
        bucket.forget_idle(&self.rules, now_ms);
        self.plan(&slot, &bucket, now_ms, waker);
        slot.put(meta.version, bucket);
        Ok(())
    }
}

impl Frontier {
    /// Reads the hosts for which something waits.
    async fn read_bucket(&self, meta: &Meta, turn: &Turn, now_ms: u64) -> Result<Bucket, Failure> {
        let mut bucket = Bucket::new(meta.fetched, meta.failed);
        let mut after: Option<Bytes> = None;
        loop {
            let hosts = turn.scan(&[HOST], after.as_deref(), SCAN_MAX).await?;
            for (key, record) in &hosts {
                let (host, record) = read_host(key, record)?;
                if record.waiting > 0 {
                    bucket.load_host(host, Some(record), &self.rules, now_ms);
                }
            }
            match hosts.into_iter().last() {
                Some((last, _)) => after = Some(last),
                None => return Ok(bucket),
            }
        }
    }

    /// Takes in what came.
    async fn add(
        &self,
        messages: &[Incoming],
        bucket: &mut Bucket,
        turn: &mut Turn,
        now_ms: u64,
    ) -> Result<(), Failure> {
        let mut events = Vec::new();
        for message in messages
            .iter()
            .filter(|message| message.kind == Kind::Message)
        {
            events.push(Event::of(message)?);
        }
        let mut came = Vec::with_capacity(events.len());
        for event in &events {
            came.push(Urls::of(event)?);
        }
        let unknown: BTreeSet<&str> = came
            .iter()
            .map(|urls| urls.host)
            .filter(|host| !bucket.has_host(host))
            .collect();
        let unknown: Vec<&str> = unknown.into_iter().collect();
        let keys: Vec<Bytes> = unknown.iter().map(|host| host_key(host).into()).collect();
        let records = turn.states(&keys).await?;
        for (host, record) in unknown.iter().zip(records) {
            let record = record.as_deref().map(decode_host).transpose()?;
            bucket.load_host(host, record, &self.rules, now_ms);
        }
        for (event, urls) in events.iter().zip(&came) {
            if urls.redirects > self.redirects_max {
                let these: Vec<&str> = urls.all().collect();
                let reason = format!(
                    "{} redirects in a row lead there, and redirects_max of the frontier is {}",
                    urls.redirects, self.redirects_max
                );
                urls::refuse(event, urls, &these, REDIRECTS, reason, turn)?;
                continue;
            }
            let mut beyond = Vec::new();
            let from: Arc<str> = urls.from.into();
            for url in urls.all() {
                let new = New {
                    url,
                    host: urls.host,
                    depth: urls.depth,
                    from: &from,
                    redirects: urls.redirects,
                };
                if !bucket.add(&new, &self.rules) {
                    beyond.push(url);
                }
            }
            if !beyond.is_empty() {
                let reason = format!(
                    "{} has its {} URLs: raise pages_per_host_max of the frontier",
                    urls.host, self.rules.pages_per_host_max
                );
                urls::refuse(event, urls, &beyond, "budget", reason, turn)?;
            }
        }
        Ok(())
    }

    /// Hands out what may be asked for now, and reads blocks for that.
    async fn hand_out(
        &self,
        slot: &Arc<Slot>,
        bucket: &mut Bucket,
        turn: &Turn,
        now_ms: u64,
    ) -> Result<Vec<Request>, Failure> {
        let mut requests = Vec::new();
        loop {
            let most = self.allowed(slot, bucket, HAND_OUT_MAX - requests.len());
            let mut handed_out = bucket.hand_out(&self.rules, now_ms, most);
            let left = most - handed_out.len();
            requests.append(&mut handed_out);
            let wanted = bucket.wanted(now_ms, left);
            if wanted.is_empty() {
                return Ok(requests);
            }
            let keys = wanted
                .iter()
                .flat_map(|(host, number)| block_keys(host, *number));
            let keys: Vec<Bytes> = keys.map(Bytes::from).collect();
            let read = turn.states(&keys).await?;
            for ((host, number), pair) in wanted.iter().zip(read.chunks(2)) {
                let [block, done] = pair else { continue };
                if !bucket.supply(host, *number, block.as_deref(), done.as_deref()) {
                    return Err(broken(&format!("block {number} of {host}")));
                }
            }
        }
    }

    /// How many of so many may be handed out on this node.
    fn allowed(&self, slot: &Arc<Slot>, bucket: &Bucket, most: usize) -> usize {
        let bounds = (self.rules.under_way_max as u64, self.pages_max);
        self.stage.reserve(slot, bucket.numbers(), most, bounds)
    }

    /// Sees to the next turn.
    fn plan(
        &self,
        slot: &Arc<Slot>,
        bucket: &Bucket,
        now_ms: u64,
        waker: Arc<dyn kernel::worker::Wake>,
    ) {
        let under_way = bucket.numbers().under_way as usize;
        slot.endings.expect((under_way / 4).clamp(1, 64));
        if bucket.is_empty() {
            return;
        }
        let due_ms = bucket.next_due().unwrap_or(u64::MAX);
        let wake_ms = match due_ms <= now_ms && self.allowed(slot, bucket, 1) == 0 {
            // Other buckets have what may be under way on this node, or its pages are all that are wanted.
            true => {
                self.stage.hunger(slot, waker.clone());
                u64::MAX
            }
            false => due_ms,
        };
        slot.wake_at(wake_ms.min(now_ms + TURN_EVERY_MS), now_ms, waker);
    }
}

fn emit(request: &Request, slot: &Slot, turn: &mut Turn) -> Result<(), Failure> {
    let fields = [
        ("depth", Data::from(u64::from(request.depth))),
        ("from", request.from.to_string().into()),
        ("host", request.host.to_string().into()),
        ("tries", u64::from(request.tries).into()),
        ("url", request.url.to_string().into()),
    ];
    let redirects =
        (request.redirects > 0).then(|| (REDIRECTS, u64::from(request.redirects).into()));
    let data = Data::record(fields.into_iter().chain(redirects));
    let teller = Arc::new(Teller(Arc::downgrade(&slot.endings)));
    let visit = Visit::begin(request.id, request.is_last_try, teller);
    let event = Event::new(data).held_by(Hold::new(visit));
    turn.emit_value(OUT, Arc::new(event))
}

/// What is kept of the bucket, and whether that is new.
async fn read_meta(turn: &Turn) -> Result<(Meta, bool), Failure> {
    match turn.state(META).await? {
        Some(stored) => match Meta::decode(&stored) {
            Some(meta) => Ok((meta, false)),
            None => Err(broken("the record of the bucket")),
        },
        None => {
            let id = fastrand::u64(..);
            let meta = Meta {
                id,
                version: 0,
                fetched: 0,
                failed: 0,
                has_timer: false,
            };
            Ok((meta, true))
        }
    }
}

impl Meta {
    fn encode(&self) -> Vec<u8> {
        let numbers = [self.id, self.version, self.fetched, self.failed];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
        bytes.push(u8::from(self.has_timer));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, [has_timer]) = bytes.split_at_checked(32)? else {
            return None;
        };
        let number = |at: usize| {
            let bytes = numbers[at * 8..][..8].try_into().ok()?;
            Some(u64::from_be_bytes(bytes))
        };
        Some(Self {
            id: number(0)?,
            version: number(1)?,
            fetched: number(2)?,
            failed: number(3)?,
            has_timer: *has_timer != 0,
        })
    }
}

fn read_host<'a>(key: &'a [u8], record: &[u8]) -> Result<(&'a str, HostRecord), Failure> {
    let host = key.get(1..).and_then(|host| str::from_utf8(host).ok());
    let host = host.ok_or_else(|| broken("the key of a host"))?;
    Ok((host, decode_host(record)?))
}

fn decode_host(record: &[u8]) -> Result<HostRecord, Failure> {
    HostRecord::decode(record).ok_or_else(|| broken("the record of a host"))
}

fn broken(what: &str) -> Failure {
    let reason = format!(
        "the state of the frontier cannot be understood ({what}): was it written by a newer version? Otherwise remove the stage and add it anew"
    );
    Failure::of(FailureKind::Host, reason)
}
