//! What leaves over the outputs of stages: how much over each edge, and a sample for whoever looks.
//!
//! The counts of an edge outlive versions of its stage. A turn counts what it sends over an edge by itself and adds it once,
//! when it has arrived.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kernel::worker::{Incoming, Stretch, Value};
use kernel::{Address, Message, StageAddress, Timestamp};
use parking_lot::Mutex;

use crate::views::{SampleView, SampledView};

/// How long a sample goes on being taken after somebody looked.
const ARMED_FOR: Duration = Duration::from_secs(30);
/// How many messages of an output are kept.
const KEPT_MAX: usize = 50;
/// How many are taken in a second.
const TAKEN_PER_SECOND_MAX: u32 = 20;
/// How much of a body is kept.
const BODY_BYTES_MAX: usize = 4 << 10;

/// Where the outputs of one version lead.
#[derive(Default)]
pub(crate) struct Outputs(BTreeMap<String, Output>);

/// Where one output leads.
pub(crate) struct Output {
    pub sampler: Arc<Sampler>,
    pub edges: Vec<(Address, Arc<EdgeCount>)>,
}

/// How many messages were sent over an edge.
#[derive(Debug, Default)]
pub(crate) struct EdgeCount(AtomicU64);

impl EdgeCount {
    pub fn add(&self, messages: u64) {
        self.0.fetch_add(messages, Ordering::Release);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn forget(&self) {
        self.0.store(0, Ordering::Release);
    }
}

impl Outputs {
    pub fn get(&self, output: &str) -> Option<&Output> {
        self.0.get(output)
    }

    /// All edges: the output, where it leads, and how much was sent there.
    pub fn edges(&self) -> impl Iterator<Item = (&str, &Address, u64)> {
        self.0.iter().flat_map(|(name, output)| {
            let edges = output.edges.iter();
            edges.map(move |(to, count)| (name.as_str(), to, count.get()))
        })
    }
}

/// The counts of all edges of a process.
#[derive(Default)]
pub(crate) struct KnownOutputs(Mutex<HashMap<StageAddress, OfStage>>);

#[derive(Default)]
struct OfStage {
    counts: HashMap<String, HashMap<Address, Arc<EdgeCount>>>,
    samplers: HashMap<String, Arc<Sampler>>,
}

impl KnownOutputs {
    /// The outputs of a stage, with the counts that they have already.
    pub fn of(&self, stage: &StageAddress, outputs: &BTreeMap<String, Vec<Address>>) -> Outputs {
        let mut known = self.0.lock();
        let known = known.entry(stage.clone()).or_default();
        // What leads elsewhere by now begins anew if it ever comes back.
        known.counts.retain(|name, counts| {
            let to = outputs.get(name);
            counts.retain(|address, _| to.is_some_and(|to| to.contains(address)));
            to.is_some()
        });
        known.samplers.retain(|name, _| outputs.contains_key(name));
        let output = |(name, to): (&String, &Vec<Address>)| {
            let counts = known.counts.entry(name.clone()).or_default();
            let edge = |address: &Address| {
                let count = counts.entry(address.clone()).or_default();
                (address.clone(), count.clone())
            };
            let edges = to.iter().map(edge).collect();
            let sampler = known.samplers.entry(name.clone()).or_default().clone();
            (name.clone(), Output { sampler, edges })
        };
        Outputs(outputs.iter().map(output).collect())
    }

    /// A stage begins anew, so what was sent to it before counts no more.
    pub fn begin_anew(&self, stage: &StageAddress) {
        let to = Address::Stage(stage.clone());
        let known = self.0.lock();
        let counts = known.values().flat_map(|of| of.counts.values());
        counts
            .filter_map(|counts| counts.get(&to))
            .for_each(|count| count.forget());
    }

    /// A stage is gone.
    pub fn forget(&self, stage: &StageAddress) {
        self.0.lock().remove(stage);
    }
}

/// Takes some of what an output emits, as long as somebody wants to see it.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// Whether anybody looked of late.
    is_armed: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    armed_until: Option<Instant>,
    second_began: Option<Instant>,
    taken: u32,
    /// How many were emitted since somebody began to look.
    seen: u64,
    messages: VecDeque<SampledView>,
}

/// What a turn emitted to an output that somebody looks at.
#[derive(Default)]
pub(crate) struct Taken {
    seen: u64,
    messages: Vec<(u64, Message)>,
}

impl Sampler {
    /// Whether messages are to be taken: this is all that it costs while nobody looks.
    pub fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Relaxed)
    }

    /// A turn is committed.
    pub fn add(&self, taken: Taken, now: Instant, at: Timestamp) {
        let mut kept = self.kept.lock();
        if kept.armed_until.is_none_or(|until| until < now) {
            *kept = Kept::default();
            self.is_armed.store(false, Ordering::Relaxed);
            return;
        }
        let is_over = |began: Instant| now.duration_since(began) >= Duration::from_secs(1);
        if kept.second_began.is_none_or(is_over) {
            kept.second_began = Some(now);
            kept.taken = 0;
        }
        for (index, message) in taken.messages {
            if kept.taken >= TAKEN_PER_SECOND_MAX {
                break;
            }
            kept.taken += 1;
            if kept.messages.len() == KEPT_MAX {
                kept.messages.pop_front();
            }
            let number = kept.seen + index;
            kept.messages.push_back(sampled(number, at, &message));
        }
        kept.seen += taken.seen;
    }

    /// What was taken, the newest first. From now on more is taken for a while.
    pub fn look(&self, now: Instant, count: usize) -> SampleView {
        let mut kept = self.kept.lock();
        if kept.armed_until.is_none_or(|until| until < now) {
            *kept = Kept::default();
        }
        kept.armed_until = Some(now + ARMED_FOR);
        self.is_armed.store(true, Ordering::Relaxed);
        SampleView {
            armed_ms: ARMED_FOR.as_millis() as u64,
            seen: kept.seen,
            messages: kept.messages.iter().rev().take(count).cloned().collect(),
        }
    }
}

impl Taken {
    pub fn take(&mut self, message: &Message, value: Option<&Arc<dyn Value>>) {
        self.seen += 1;
        // No more of one turn than of one second.
        if self.messages.len() < TAKEN_PER_SECOND_MAX as usize {
            let mut incoming = Incoming {
                value: value.cloned(),
                ..Incoming::new(message.clone())
            };
            incoming.encode_value();
            self.messages.push((self.seen, incoming.message));
        }
    }

    pub fn take_stretch(&mut self, stretch: &Stretch) {
        let room = (TAKEN_PER_SECOND_MAX as usize).saturating_sub(self.messages.len());
        for (index, item) in (1..).zip(stretch.items().take(room)) {
            let mut incoming = Incoming::from(item);
            incoming.encode_value();
            self.messages.push((self.seen + index, incoming.message));
        }
        self.seen += stretch.len() as u64;
    }

    pub fn is_empty(&self) -> bool {
        self.seen == 0
    }
}

fn sampled(number: u64, at: Timestamp, message: &Message) -> SampledView {
    let shown = message.body.len().min(BODY_BYTES_MAX);
    let headers = message.headers.iter();
    SampledView {
        number,
        at_ms: at.as_millis(),
        // A part of it would keep all of it in memory.
        body: Bytes::copy_from_slice(&message.body[..shown]),
        body_bytes: message.body.len(),
        headers: headers
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bodies: &[&str]) -> Taken {
        let mut taken = Taken::default();
        for body in bodies {
            taken.take(&Message::new((*body).to_owned()), None);
        }
        taken
    }

    #[test]
    fn a_sample_is_taken_only_while_somebody_looks() {
        let sampler = Sampler::default();
        let (start, at) = (Instant::now(), Timestamp::from_micros(1_000));
        assert!(!sampler.is_armed());
        assert_eq!(sampler.look(start, 10).seen, 0);
        assert!(sampler.is_armed());
        sampler.add(taken(&["a", "b"]), start, at);
        sampler.add(taken(&["c"]), start, at);
        let seen = sampler.look(start, 2);
        let bodies: Vec<_> = seen
            .messages
            .iter()
            .map(|m| (m.number, &m.body[..]))
            .collect();
        assert_eq!((seen.seen, bodies), (3, vec![(3, &b"c"[..]), (2, b"b")]));
        let later = start + ARMED_FOR + Duration::from_secs(1);
        sampler.add(taken(&["d"]), later, at);
        assert!(!sampler.is_armed());
        assert_eq!(sampler.look(later, 10).seen, 0, "it begins anew");
    }

    #[test]
    fn samples_are_bounded_in_number_and_size() {
        let sampler = Sampler::default();
        let (start, at) = (Instant::now(), Timestamp::from_micros(1_000));
        sampler.look(start, 1);
        let long = "x".repeat(BODY_BYTES_MAX * 3);
        for second in 0..5 {
            let now = start + Duration::from_secs(second);
            (0..10).for_each(|_| sampler.add(taken(&[long.as_str(); 30]), now, at));
        }
        let seen = sampler.look(start, usize::MAX);
        assert_eq!((seen.seen, seen.messages.len()), (1_500, KEPT_MAX));
        let of_last = seen.messages.iter().filter(|m| m.number > 1_200).count();
        assert_eq!(of_last, TAKEN_PER_SECOND_MAX as usize);
        assert_eq!(seen.messages[0].body.len(), BODY_BYTES_MAX);
        assert_eq!(seen.messages[0].body_bytes, long.len());
    }
}
