//! What a stage looks like in one probe period.

use std::collections::VecDeque;
use std::time::Duration;

/// What was measured of a stage in one probe period.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    /// How long the period was.
    pub took: Duration,
    /// Its workers, by their number.
    pub workers: Vec<WorkerSample>,
    /// How many messages wait, here and in the queues of the bus, as far as those can be asked.
    pub depth: u64,
    /// How long somebody who wanted to send waited for room. Bounded mailboxes move the queue to the senders,
    /// so this is part of the latency.
    pub starved: Duration,
    /// What each bucket had done, if the stage is keyed.
    pub buckets: Vec<BucketSample>,
    /// Workers are added or removed, or buckets move.
    pub is_moving: bool,
}

/// What was measured of one worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WorkerSample {
    /// What became of its last probe.
    pub probe: Probe,
    /// How many messages it finished.
    pub done: u64,
    /// How long it worked on messages.
    pub busy: Duration,
    /// How long it waited, with a message in hand, for those that it sends to.
    pub blocked: Duration,
}

/// What became of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Probe {
    /// None was sent yet.
    #[default]
    None,
    /// It waits behind the messages, for so long already.
    Waits(Duration),
    /// The worker came to it after so long.
    Answered(Duration),
}

/// What was measured of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketSample {
    /// Its number.
    pub bucket: u32,
    /// The worker that has it.
    pub worker: u32,
    /// How many of its messages were handled.
    pub done: u64,
}

impl Sample {
    /// How many messages were finished.
    pub fn done(&self) -> u64 {
        self.workers.iter().map(|worker| worker.done).sum()
    }

    /// How long all workers together worked.
    pub fn busy(&self) -> Duration {
        self.workers.iter().map(|worker| worker.busy).sum()
    }

    /// How long all workers together waited for those behind them.
    pub fn blocked(&self) -> Duration {
        self.workers.iter().map(|worker| worker.blocked).sum()
    }

    /// How many workers there are.
    pub fn count(&self) -> u32 {
        self.workers.len() as u32
    }

    /// The longest that a message waited in front of the workers, whether the probe was answered or not.
    pub fn slowest_probe(&self) -> Duration {
        let delays = self.workers.iter().map(|worker| worker.probe.delay());
        delays.max().unwrap_or_default()
    }
}

impl Probe {
    /// How long it waited until now, or until it was answered.
    pub fn delay(self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Waits(delay) | Self::Answered(delay) => delay,
        }
    }
}

/// The last periods of a stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent(VecDeque<Sample>);

impl Recent {
    /// Takes in one period; of older ones so many are kept that there are `kept`.
    pub fn add(&mut self, sample: &Sample, kept: usize) {
        while self.0.len() >= kept.max(1) {
            self.0.pop_front();
        }
        self.0.push_back(sample.clone());
    }

    /// All of them as one long period; what is not a sum is as it was last.
    pub fn together(&self) -> Sample {
        let mut together = self.0.back().cloned().unwrap_or_default();
        for sample in self.0.iter().rev().skip(1) {
            together.took += sample.took;
            for (sum, worker) in together.workers.iter_mut().zip(&sample.workers) {
                sum.done += worker.done;
                sum.busy += worker.busy;
                sum.blocked += worker.blocked;
            }
            for (sum, bucket) in together.buckets.iter_mut().zip(&sample.buckets) {
                sum.done += bucket.done;
            }
        }
        together
    }
}
