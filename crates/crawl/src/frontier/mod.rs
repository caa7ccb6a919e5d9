//! The frontier: URLs that wait, for each host in the order in which they came, handed out at the pace of their host.
//!
//! This is the state of one bucket as a machine: what came and the time go in, requests and writes come out. It does no I/O. What
//! waits lies in blocks on disk; in memory are the blocks that are handed out next, and a record for each host for which something waits.
//! A URL is marked as done after its [visit](crate::visit) has ended, so a crash repeats only what was under way.

mod block;
mod desk;
mod host;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use self::block::Entry;
pub use self::desk::{FrontierView, Frontiers};
pub(crate) use self::desk::{Slot, StageFrontier, Teller};
pub(crate) use self::host::HostRecord;
use self::host::{Host, Loaded};
use crate::pace::{AFTER_AN_ANSWER, Pace, PaceRule};
use crate::visit::Ended;

/// Ids are those of one process, so that whoever forgot everything never takes a visit of before for one of its own.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What a frontier keeps to.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub pace: PaceRule,
    /// How many URLs of all buckets may be under way on this node.
    pub under_way_max: usize,
    /// How often a URL is asked for.
    pub tries_max: u32,
    /// How long after the first failure it is asked for again; each further one doubles that.
    pub retry_after: Duration,
    /// How many URLs of one host are taken in all.
    pub pages_per_host_max: u64,
    /// What blocks of one bucket take in memory between two turns, but for those of which something is under way.
    pub bucket_bytes_max: usize,
}

/// A URL that came.
#[derive(Clone, Debug)]
pub(crate) struct New<'a> {
    pub url: &'a str,
    pub host: &'a str,
    pub depth: u32,
    pub from: &'a Arc<str>,
    pub redirects: u32,
}

/// A URL that is handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub id: u64,
    pub url: Box<str>,
    pub host: Arc<str>,
    pub depth: u32,
    pub from: Arc<str>,
    pub redirects: u32,
    pub tries: u32,
    pub is_last_try: bool,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// URLs that wait or are under way.
    pub waiting: u64,
    /// Of these, how many are under way.
    pub under_way: u64,
    /// Requests that were answered.
    pub fetched: u64,
    /// Requests that failed for good.
    pub failed: u64,
}

/// What is under way.
struct UnderWay {
    host: Arc<str>,
    block: u64,
    at: usize,
}

/// The frontier of one bucket.
#[derive(Default)]
pub(crate) struct Bucket {
    hosts: HashMap<Arc<str>, Host>,
    /// When each host is looked at next.
    due: BTreeSet<(u64, Arc<str>)>,
    under_way: HashMap<u64, UnderWay>,
    touched: BTreeSet<Arc<str>>,
    /// Blocks of which something was done.
    changed: BTreeSet<(Arc<str>, u64)>,
    numbers: Numbers,
    /// What blocks take in memory.
    bytes: usize,
}

/// Keys of hosts begin with this.
pub(crate) const HOST: u8 = b'h';
/// Keys of blocks begin with this.
const BLOCK: u8 = b'q';
/// Keys of what is done of blocks begin with this.
const DONE: u8 = b'd';

/// The key of a host.
pub(crate) fn host_key(host: &str) -> Vec<u8> {
    let mut key = vec![HOST];
    key.extend_from_slice(host.as_bytes());
    key
}

/// The keys of a block and of what is done of it.
pub(crate) fn block_keys(host: &str, number: u64) -> [Vec<u8>; 2] {
    [BLOCK, DONE].map(|kind| {
        let mut key = Vec::with_capacity(host.len() + 10);
        key.push(kind);
        key.extend_from_slice(host.as_bytes());
        key.push(0);
        key.extend_from_slice(&number.to_be_bytes());
        key
    })
}

impl Bucket {
    /// A frontier for which nothing waits, after so many requests.
    pub fn new(fetched: u64, failed: u64) -> Self {
        Self {
            numbers: Numbers {
                fetched,
                failed,
                ..Numbers::default()
            },
            ..Self::default()
        }
    }

    /// What is there as numbers.
    pub fn numbers(&self) -> Numbers {
        Numbers {
            under_way: self.under_way.len() as u64,
            ..self.numbers
        }
    }

    /// Whether a host is in memory.
    pub fn has_host(&self, host: &str) -> bool {
        self.hosts.contains_key(host)
    }

    /// A host as it was kept on disk, or one that is new. After a change of owner the one before may have asked it for something
    /// a moment ago, so the first request waits for a whole delay.
    pub fn load_host(
        &mut self,
        host: &str,
        record: Option<HostRecord>,
        rules: &Rules,
        now_ms: u64,
    ) {
        if self.has_host(host) {
            return;
        }
        let host: Arc<str> = host.into();
        let mut pace = match record {
            Some(_) => Pace::taken_over(&rules.pace, now_ms),
            None => Pace::new(),
        };
        let record = record.unwrap_or_default();
        pace.set_crawl_delay(Duration::from_millis(record.crawl_delay_ms));
        self.numbers.waiting += record.waiting;
        self.hosts.insert(host.clone(), Host::new(record, pace));
        self.plan(&host, rules, now_ms);
    }

    /// Takes a URL in, if there is room for it. Its host has to be in memory.
    pub fn add(&mut self, new: &New<'_>, rules: &Rules) -> bool {
        let Some((name, host)) = self.host_mut(new.host) else {
            return false;
        };
        if host.record.waiting + host.record.fetched >= rules.pages_per_host_max {
            return false;
        }
        host.record.waiting += 1;
        host.new.push(Entry {
            url: new.url.into(),
            depth: new.depth,
            from: new.from.clone(),
            redirects: new.redirects,
            tries: 0,
            not_before_ms: 0,
        });
        self.numbers.waiting += 1;
        self.touched.insert(name);
        true
    }

    /// A visit has ended. One that this frontier does not know began under another owner, and nothing happens.
    pub fn ended(&mut self, ended: &Ended, rules: &Rules, now_ms: u64) {
        let Some(under_way) = self.under_way.remove(&ended.id) else {
            return;
        };
        let UnderWay { host, block, at } = under_way;
        let known = self
            .hosts
            .get_mut(&host)
            .expect("it stays while something is under way");
        known.under_way -= 1;
        match &ended.outcome {
            Some(outcome) => known.pace.ended(
                &rules.pace,
                now_ms,
                outcome.took,
                outcome.status,
                outcome.retry_after,
            ),
            None => known.pace.cancelled(),
        }
        if let Some(delay) = ended.crawl_delay {
            known.pace.set_crawl_delay(delay);
            known.record.crawl_delay_ms = delay.as_millis() as u64;
        }
        if ended
            .outcome
            .as_ref()
            .is_some_and(|outcome| outcome.status.is_some())
        {
            known.record.fetched += 1;
            self.numbers.fetched += 1;
        }
        let loaded = known
            .blocks
            .get_mut(&block)
            .expect("it stays while something is under way");
        loaded.set_done(at);
        loaded.under_way -= 1;
        let entry = &loaded.entries[at];
        let again = ended.outcome.as_ref().is_some_and(|outcome| outcome.retry);
        let again = match ended.put_off {
            Some(wait) => Some((entry.tries, wait.as_millis() as u64)),
            None if again && entry.tries + 1 < rules.tries_max => {
                let wait = rules.retry_after.as_millis() as u64;
                let wait = wait.saturating_mul(1 << entry.tries.min(10));
                Some((entry.tries + 1, wait))
            }
            None => None,
        };
        if let Some((tries, wait_ms)) = again {
            known.new.push(Entry {
                tries,
                not_before_ms: now_ms + wait_ms,
                ..entry.clone()
            });
        } else {
            known.record.waiting -= 1;
            self.numbers.waiting -= 1;
            let failed = ended
                .outcome
                .as_ref()
                .is_some_and(|outcome| outcome.status.is_none());
            self.numbers.failed += u64::from(failed);
        }
        self.touched.insert(host.clone());
        self.changed.insert((host.clone(), block));
        self.plan(&host, rules, now_ms);
    }

    /// Hands out what may be asked for now, at most so many. What is told by [`Bucket::wanted`] afterwards is to be read first.
    pub fn hand_out(&mut self, rules: &Rules, now_ms: u64, most: usize) -> Vec<Request> {
        let mut requests = Vec::new();
        // Those come first of which something is in memory: a block that is read for one URL and let go for lack of room would be
        // read for the next one again.
        let due = self.due.iter().take_while(|(due_ms, _)| *due_ms <= now_ms);
        let is_ready = |(_, name): &&(u64, Arc<str>)| self.hosts[name].is_ready(now_ms);
        let due = due.take(LOOKED_AT_MAX).filter(is_ready);
        let due: Vec<_> = due.take(most).cloned().collect();
        // No host takes all the room while others wait.
        let share = most.div_ceil(due.len().max(1));
        for (due_ms, host) in due {
            let share = share.min(most - requests.len());
            if share == 0 {
                break;
            }
            self.due.remove(&(due_ms, host.clone()));
            self.hand_out_of(&host, rules, now_ms, &mut requests, share);
        }
        requests
    }

    fn hand_out_of(
        &mut self,
        name: &Arc<str>,
        rules: &Rules,
        now_ms: u64,
        requests: &mut Vec<Request>,
        most: usize,
    ) {
        let host = self
            .hosts
            .get_mut(name)
            .expect("only those in memory are due");
        host.due_ms = None;
        for _ in 0..most {
            if host.pace.may_start(&rules.pace, now_ms) > now_ms {
                break;
            }
            let Some((number, at)) = host.pop(now_ms) else {
                break;
            };
            let block = host.blocks.get_mut(&number).expect("it was just there");
            block.under_way += 1;
            let entry = &block.entries[at];
            let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
            requests.push(Request {
                id,
                url: entry.url.clone(),
                host: name.clone(),
                depth: entry.depth,
                from: entry.from.clone(),
                redirects: entry.redirects,
                tries: entry.tries,
                is_last_try: entry.tries + 1 >= rules.tries_max,
            });
            let under_way = UnderWay {
                host: name.clone(),
                block: number,
                at,
            };
            self.under_way.insert(id, under_way);
            host.under_way += 1;
            host.pace.started(&rules.pace, now_ms);
        }
        self.plan(name, rules, now_ms);
    }

    /// Blocks that have to be read before so many more can be handed out.
    pub fn wanted(&self, now_ms: u64, most: usize) -> Vec<(Arc<str>, u64)> {
        let due = self.due.iter().take_while(|(due_ms, _)| *due_ms <= now_ms);
        due.filter_map(|(_, name)| Some((name.clone(), self.hosts.get(name)?.wanted()?)))
            .take(most.min(WANTED_MAX))
            .collect()
    }

    /// A block that was read, with what is done of it. False if it cannot be understood.
    pub fn supply(
        &mut self,
        host: &str,
        number: u64,
        block: Option<&[u8]>,
        done: Option<&[u8]>,
    ) -> bool {
        let Some(host) = self.hosts.get_mut(host) else {
            return true;
        };
        let loaded = block.map(|block| Loaded::read(block, done));
        let is_broken = matches!(loaded, Some(None));
        let before = host.bytes;
        host.supply(number, loaded.flatten());
        self.bytes = self.bytes + host.bytes - before;
        !is_broken
    }

    /// When something may be handed out next.
    pub fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Whether nothing waits and nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.numbers.waiting == 0
    }

    /// What has to be written of what happened since the last time; none removes a key.
    pub fn writes(&mut self, rules: &Rules, now_ms: u64) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        let mut writes = BTreeMap::new();
        for (name, number) in std::mem::take(&mut self.changed) {
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            let [block_key, done_key] = block_keys(&name, number);
            match host.blocks.get(&number) {
                Some(block) if !block.is_over() => {
                    writes.insert(done_key, Some(block.done().to_vec()));
                }
                _ => {
                    let before = host.bytes;
                    host.remove(number);
                    self.bytes = self.bytes + host.bytes - before;
                    writes.insert(block_key, None);
                    writes.insert(done_key, None);
                }
            }
        }
        for name in std::mem::take(&mut self.touched) {
            let Some(host) = self.hosts.get_mut(&name) else {
                continue;
            };
            let before = host.bytes;
            let room = rules.bucket_bytes_max.saturating_sub(self.bytes);
            for (number, bytes) in host.close_blocks(room) {
                let [block_key, _] = block_keys(&name, number);
                writes.insert(block_key, Some(bytes));
            }
            self.bytes = self.bytes + host.bytes - before;
            host.record.first = host.first();
            writes.insert(host_key(&name), Some(host.record.encode()));
            self.plan(&name, rules, now_ms);
        }
        writes
    }

    fn host_mut(&mut self, host: &str) -> Option<(Arc<str>, &mut Host)> {
        let (name, _) = self.hosts.get_key_value(host)?;
        let name = name.clone();
        Some((name, self.hosts.get_mut(host)?))
    }

    /// Looks at a host as soon as something of it may be handed out.
    fn plan(&mut self, name: &Arc<str>, rules: &Rules, now_ms: u64) {
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        let due_ms = host.next_time().and_then(|next_ms| {
            match host.pace.may_start(&rules.pace, now_ms) {
                // It is planned anew when something of it has ended.
                AFTER_AN_ANSWER => None,
                start_ms => Some(next_ms.max(start_ms).max(now_ms)),
            }
        });
        let before = std::mem::replace(&mut host.due_ms, due_ms);
        if before == due_ms {
            return;
        }
        if let Some(before) = before {
            self.due.remove(&(before, name.clone()));
        }
        if let Some(due_ms) = due_ms {
            self.due.insert((due_ms, name.clone()));
        }
    }

    /// Lets go of blocks if they take too much memory, those first that are handed out last.
    pub fn shrink(&mut self, rules: &Rules) {
        if self.bytes <= rules.bucket_bytes_max {
            return;
        }
        for (_, name) in self.due.iter().rev() {
            if let Some(host) = self.hosts.get_mut(name) {
                let before = host.bytes;
                host.unload();
                self.bytes = self.bytes + host.bytes - before;
            }
            if self.bytes <= rules.bucket_bytes_max / 2 {
                return;
            }
        }
    }

    /// Forgets hosts for which nothing waits and that could be asked at once; they are read again when something comes.
    pub fn forget_idle(&mut self, rules: &Rules, now_ms: u64) {
        if self.hosts.len() <= HOSTS_KEPT {
            return;
        }
        self.hosts.retain(|_, host| {
            let is_idle = host.record.waiting == 0 && host.under_way == 0;
            !is_idle || host.pace.may_start(&rules.pace, now_ms) > now_ms
        });
    }
}

/// Among so many hosts that are due those are looked for of which something is in memory.
const LOOKED_AT_MAX: usize = 1_024;
/// How many blocks are read at a time.
const WANTED_MAX: usize = 64;

/// So many hosts are kept in memory although nothing waits for them.
const HOSTS_KEPT: usize = 1_000;

/// What is known of a host, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// Its name.
    pub host: String,
    /// URLs that wait or are under way.
    pub waiting: u64,
    /// Of these, how many are under way.
    pub under_way: u64,
    /// Requests that were answered.
    pub fetched: u64,
    /// When the next request may start, in milliseconds since 1970.
    pub next_start_ms: u64,
}

impl Bucket {
    /// The hosts in memory.
    pub fn hosts(&self) -> impl Iterator<Item = HostView> {
        self.hosts.iter().map(|(name, host)| HostView {
            host: name.to_string(),
            waiting: host.record.waiting,
            under_way: u64::from(host.under_way),
            fetched: host.record.fetched,
            next_start_ms: host.pace.next_start_ms(),
        })
    }
}
