//! A stage that is only simulated: workers with a speed, bounded mailboxes, senders that wait for room, keys, cores.

use std::collections::VecDeque;
use std::time::Duration;

use kernel::Timestamp;

use super::trace::Trace;
use crate::key::BUCKETS;
use crate::scaling::controller::{Advice, Controller};
use crate::scaling::record::{BucketMove, ScaleChange};
use crate::scaling::sample::{BucketSample, Probe, Sample, WorkerSample};
use crate::table::Table;

pub const TICK_MS: u64 = 10;
const SOURCES: usize = 4;
/// How many buckets get messages in one tick.
const BUCKETS_AT_ONCE: usize = 8;

/// What a stage and its surroundings are like.
#[derive(Clone)]
pub struct World {
    pub workers: u32,
    /// Messages a second of one worker.
    pub service: f64,
    /// Speed differs by this share from tick to tick.
    pub jitter: f64,
    /// So many workers can work at the same time; more only share.
    pub cores: f64,
    pub mailbox: f64,
    pub keyed: bool,
    /// The share of one key, in the middle third of the trace.
    pub hot_share: f64,
    pub seed: u64,
}

impl Default for World {
    fn default() -> Self {
        Self {
            workers: 1,
            service: 25_000.0,
            jitter: 0.2,
            cores: f64::INFINITY,
            mailbox: 1_024.0,
            keyed: false,
            hot_share: 0.0,
            seed: 1,
        }
    }
}

/// What came of a run.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    /// Second, change, workers after.
    pub changes: Vec<(f64, ScaleChange, u32)>,
    /// The average latency of what was finished in each second, in milliseconds.
    pub latency_ms: Vec<f64>,
    /// Workers at the end of each second.
    pub workers: Vec<u32>,
    pub sent: f64,
    pub done: f64,
    /// The most that waited in mailboxes at a time, for each worker.
    pub waiting_max: f64,
}

struct Chunk {
    /// When it was to be sent.
    at: u64,
    bucket: u32,
    count: f64,
}

#[derive(Default)]
struct Worker {
    queue: VecDeque<Chunk>,
    waiting: f64,
    taken_in: f64,
    finished: f64,
    probe: Option<(u64, f64)>,
    answered: Option<u64>,
    period_done: f64,
    period_busy: f64,
}

pub struct Simulated<'a> {
    world: World,
    trace: &'a Trace,
    random: fastrand::Rng,
    tick: u64,
    workers: Vec<Worker>,
    table: Table,
    sources: Vec<VecDeque<Chunk>>,
    next: usize,
    starved_ticks: u64,
    bucket_done: Vec<f64>,
    is_moving: bool,
    lateness: (f64, f64),
    outcome: Outcome,
}

impl<'a> Simulated<'a> {
    pub fn new(world: World, trace: &'a Trace) -> Self {
        Self {
            random: fastrand::Rng::with_seed(world.seed),
            tick: 0,
            workers: (0..world.workers).map(|_| Worker::default()).collect(),
            table: Table::new(world.workers),
            sources: (0..SOURCES).map(|_| VecDeque::new()).collect(),
            next: 0,
            starved_ticks: 0,
            bucket_done: vec![0.0; BUCKETS as usize],
            is_moving: false,
            lateness: (0.0, 0.0),
            outcome: Outcome {
                changes: Vec::new(),
                latency_ms: Vec::new(),
                workers: Vec::new(),
                sent: 0.0,
                done: 0.0,
                waiting_max: 0.0,
            },
            world,
            trace,
        }
    }

    /// Runs the whole trace; the controller may be deaf.
    pub fn run(mut self, controller: &mut Controller, period_ms: u64, is_deaf: bool) -> Outcome {
        let ticks_per_second = 1_000 / TICK_MS;
        let ticks = self.trace.per_second.len() as u64 * ticks_per_second;
        while self.tick < ticks {
            self.emit();
            self.place();
            self.work();
            self.tick += 1;
            if (self.tick * TICK_MS).is_multiple_of(period_ms) {
                let sample = self.sample(period_ms);
                let now = Timestamp::from_micros(self.tick * TICK_MS * 1_000);
                let advice = controller.step(&sample, now);
                if !is_deaf {
                    self.follow(advice);
                }
                self.send_probes();
            }
            if self.tick.is_multiple_of(ticks_per_second) {
                let (late, count) = std::mem::take(&mut self.lateness);
                let average = if count > 0.0 { late / count } else { 0.0 };
                self.outcome.latency_ms.push(average);
                self.outcome.workers.push(self.workers.len() as u32);
            }
        }
        self.outcome
    }

    fn second(&self) -> usize {
        (self.tick * TICK_MS / 1_000) as usize
    }

    fn emit(&mut self) {
        let rate = self.trace.per_second[self.second()];
        let count = rate * TICK_MS as f64 / 1_000.0 / SOURCES as f64;
        if count == 0.0 {
            return;
        }
        let third = self.trace.per_second.len() / 3;
        let is_hot = (third..2 * third).contains(&self.second());
        let hot_share = if is_hot { self.world.hot_share } else { 0.0 };
        for source in &mut self.sources {
            self.outcome.sent += count;
            let at = self.tick;
            if !self.world.keyed {
                let bucket = 0;
                source.push_back(Chunk { at, bucket, count });
                continue;
            }
            if hot_share > 0.0 {
                let count = count * hot_share;
                let bucket = 7;
                source.push_back(Chunk { at, bucket, count });
            }
            for _ in 0..BUCKETS_AT_ONCE {
                // Some keys are more frequent than others.
                let (a, b) = (self.random.u32(0..BUCKETS), self.random.u32(0..BUCKETS));
                let count = count * (1.0 - hot_share) / BUCKETS_AT_ONCE as f64;
                let bucket = if self.random.f64() < 0.2 { a.min(b) } else { a };
                source.push_back(Chunk { at, bucket, count });
            }
        }
    }

    /// Senders push in order as long as there is room; a sender whose first message finds none waits.
    fn place(&mut self) {
        let mut is_starved = false;
        for index in 0..self.sources.len() {
            while let Some(first) = self.sources[index].front() {
                let Some(worker) = self.choose(first.bucket) else {
                    is_starved = true;
                    break;
                };
                let room = self.world.mailbox - self.workers[worker].waiting;
                let first = self.sources[index].front_mut().expect("it was just seen");
                let count = first.count.min(room);
                let chunk = Chunk { count, ..*first };
                first.count -= count;
                if first.count <= 1e-9 {
                    self.sources[index].pop_front();
                }
                self.workers[worker].push(chunk);
            }
        }
        self.starved_ticks += u64::from(is_starved);
        let waiting = self.workers.iter().map(|worker| worker.waiting);
        self.outcome.waiting_max = waiting.fold(self.outcome.waiting_max, f64::max);
    }

    fn choose(&mut self, bucket: u32) -> Option<usize> {
        let has_room = |worker: &Worker| worker.waiting < self.world.mailbox - 1e-6;
        if self.world.keyed {
            let owner = self.table.owner(bucket) as usize;
            return has_room(&self.workers[owner]).then_some(owner);
        }
        let count = self.workers.len();
        let found = (0..count).map(|step| (self.next + step) % count);
        let found = found.into_iter().find(|at| has_room(&self.workers[*at]));
        self.next = found.map_or(self.next, |at| at + 1);
        found
    }

    fn work(&mut self) {
        let active = self.workers.iter().filter(|w| w.waiting > 0.0).count();
        let share = (self.world.cores / active.max(1) as f64).min(1.0);
        let seconds = TICK_MS as f64 / 1_000.0;
        for worker in &mut self.workers {
            let jitter = 1.0 + self.world.jitter * (self.random.f64() * 2.0 - 1.0);
            let can = self.world.service * jitter * share * seconds;
            let mut left = can;
            while left > 1e-9
                && let Some(first) = worker.queue.front_mut()
            {
                let count = first.count.min(left);
                left -= count;
                first.count -= count;
                worker.waiting -= count;
                worker.finished += count;
                worker.period_done += count;
                self.outcome.done += count;
                self.bucket_done[first.bucket as usize] += count;
                let late = (self.tick + 1 - first.at) as f64 * TICK_MS as f64;
                self.lateness.0 += late * count;
                self.lateness.1 += count;
                if first.count <= 1e-9 {
                    worker.queue.pop_front();
                }
            }
            worker.period_busy += seconds * (can - left) / can;
            if let Some((sent, behind)) = worker.probe
                && worker.finished >= behind - 1e-6
            {
                worker.probe = None;
                worker.answered = Some((self.tick - sent) * TICK_MS);
            }
        }
    }

    fn send_probes(&mut self) {
        for worker in &mut self.workers {
            if worker.probe.is_none() {
                worker.probe = Some((self.tick, worker.taken_in));
            }
        }
    }

    fn sample(&mut self, period_ms: u64) -> Sample {
        let tick = self.tick;
        let workers = self.workers.iter_mut().map(|worker| WorkerSample {
            probe: match (worker.probe, worker.answered.take()) {
                (_, Some(delay)) => Probe::Answered(Duration::from_millis(delay)),
                (Some((sent, _)), None) => {
                    Probe::Waits(Duration::from_millis((tick - sent) * TICK_MS))
                }
                (None, None) => Probe::None,
            },
            done: std::mem::take(&mut worker.period_done).round() as u64,
            busy: Duration::from_secs_f64(std::mem::take(&mut worker.period_busy)),
            blocked: Duration::ZERO,
        });
        let workers = workers.collect();
        let waiting: f64 = self.workers.iter().map(|worker| worker.waiting).sum();
        let done = std::mem::replace(&mut self.bucket_done, vec![0.0; BUCKETS as usize]);
        let buckets = (0..).zip(done).filter(|_| self.world.keyed);
        Sample {
            took: Duration::from_millis(period_ms),
            workers,
            depth: waiting as u64,
            starved: Duration::from_millis(std::mem::take(&mut self.starved_ticks) * TICK_MS),
            buckets: buckets
                .map(|(bucket, done)| BucketSample {
                    bucket,
                    worker: self.table.owner(bucket),
                    done: done as u64,
                })
                .collect(),
            is_moving: std::mem::take(&mut self.is_moving),
        }
    }

    fn follow(&mut self, advice: Advice) {
        let second = (self.tick * TICK_MS) as f64 / 1_000.0;
        match advice {
            Advice::Stay => {}
            Advice::Resize(to) => {
                let change = match to > self.workers.len() as u32 {
                    true => ScaleChange::Grow,
                    false => ScaleChange::Shrink,
                };
                self.resize(to);
                self.outcome.changes.push((second, change, to));
                self.is_moving = true;
            }
            Advice::Rebalance(moves) => {
                for moved in &moves {
                    self.move_bucket(moved);
                }
                let workers = self.workers.len() as u32;
                let change = ScaleChange::Rebalance;
                self.outcome.changes.push((second, change, workers));
                self.is_moving = true;
            }
        }
    }

    fn resize(&mut self, to: u32) {
        while (self.workers.len() as u32) < to {
            self.workers.push(Worker::default());
        }
        if self.world.keyed {
            let next = self.table.resized(to);
            for bucket in self.table.moved(&next) {
                let (from, to) = (self.table.owner(bucket), next.owner(bucket));
                self.move_bucket(&BucketMove { bucket, from, to });
            }
            self.table.version = next.version;
        }
        let removed = self.workers.split_off(to as usize);
        let left = removed.into_iter().flat_map(|worker| worker.queue);
        for (index, chunk) in left.enumerate() {
            self.workers[index % to as usize].push(chunk);
        }
    }

    fn move_bucket(&mut self, moved: &BucketMove) {
        let from = &mut self.workers[moved.from as usize];
        let (gone, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut from.queue)
            .into_iter()
            .partition(|chunk| chunk.bucket == moved.bucket);
        from.queue = kept;
        for chunk in gone {
            let from = &mut self.workers[moved.from as usize];
            from.waiting -= chunk.count;
            from.finished += chunk.count;
            self.workers[moved.to as usize].push(chunk);
        }
        self.table.owners[moved.bucket as usize] = moved.to;
    }
}

impl Worker {
    fn push(&mut self, chunk: Chunk) {
        self.waiting += chunk.count;
        self.taken_in += chunk.count;
        self.queue.push_back(chunk);
    }
}
