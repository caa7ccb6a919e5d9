//! Which buckets should move when one worker of a keyed stage has too much.

use super::record::BucketMove;
use super::sample::Sample;

/// How many buckets move in one round.
const MOVES_MAX: usize = 8;
/// Moves are worth it if the worker, or whoever has most then, has at least so much less afterwards.
const GAIN_MIN: f64 = 0.03;

/// What a worker and its buckets have to do, as shares of its time.
struct Loads {
    workers: Vec<f64>,
    /// The bucket, its worker, its load.
    buckets: Vec<(u32, u32, f64)>,
}

/// The buckets that should move away from this worker; none if that would not help.
pub(super) fn moves_away_from(worker: u32, sample: &Sample) -> Vec<BucketMove> {
    let mut loads = Loads::of(sample);
    let before = loads.workers.get(worker as usize).copied();
    let before = before.unwrap_or_default();
    let mut moves = Vec::new();
    while moves.len() < MOVES_MAX
        && let Some(best) = loads.best_move(worker)
    {
        loads.apply(&best);
        moves.push(best);
    }
    let changed = moves.iter().map(|moved| moved.to).chain([worker]);
    let most = changed.map(|worker| loads.workers[worker as usize]);
    match most.fold(0.0, f64::max) < before - GAIN_MIN {
        true => moves,
        false => Vec::new(),
    }
}

/// The share of a worker's load that its largest bucket has.
pub(super) fn largest_share(worker: u32, sample: &Sample) -> f64 {
    let own = sample.buckets.iter().filter(|b| b.worker == worker);
    let (mut largest, mut all) = (0, 0);
    for bucket in own {
        largest = largest.max(bucket.done);
        all += bucket.done;
    }
    match all {
        0 => 0.0,
        all => largest as f64 / all as f64,
    }
}

impl Loads {
    fn of(sample: &Sample) -> Self {
        let seconds = sample.took.as_secs_f64().max(1e-6);
        let busy = sample.workers.iter().map(|w| w.busy.as_secs_f64());
        let workers: Vec<f64> = busy.map(|busy| busy / seconds).collect();
        let mut done = vec![0_u64; workers.len()];
        for bucket in &sample.buckets {
            if let Some(done) = done.get_mut(bucket.worker as usize) {
                *done += bucket.done;
            }
        }
        let load = |worker: u32, of: u64| {
            let all = done.get(worker as usize).copied().unwrap_or_default();
            let load = workers.get(worker as usize).copied().unwrap_or_default();
            match all {
                0 => 0.0,
                all => load * of as f64 / all as f64,
            }
        };
        let buckets = sample.buckets.iter();
        let buckets = buckets.map(|b| (b.bucket, b.worker, load(b.worker, b.done)));
        Self {
            buckets: buckets.collect(),
            workers,
        }
    }

    /// The move after which the larger of both workers has least.
    fn best_move(&self, from: u32) -> Option<BucketMove> {
        let loaded = *self.workers.get(from as usize)?;
        let others = (0..).zip(&self.workers).filter(|(to, _)| *to != from);
        let (to, free) = others.min_by(|a, b| a.1.total_cmp(b.1))?;
        let own = self
            .buckets
            .iter()
            .filter(|(_, worker, load)| *worker == from && *load > 0.0);
        let after = |load: f64| (loaded - load).max(free + load);
        let best = own.min_by(|a, b| after(a.2).total_cmp(&after(b.2)))?;
        let is_better = after(best.2) < loaded - 1e-6;
        is_better.then_some(BucketMove {
            bucket: best.0,
            from,
            to,
        })
    }

    fn apply(&mut self, moved: &BucketMove) {
        let bucket = self.buckets.iter_mut().find(|b| b.0 == moved.bucket);
        if let Some((_, worker, load)) = bucket {
            self.workers[moved.from as usize] -= *load;
            self.workers[moved.to as usize] += *load;
            *worker = moved.to;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scaling::sample::{BucketSample, WorkerSample};

    fn sample(busy_ms: &[u64], buckets: &[(u32, u64)]) -> Sample {
        let worker = |busy: &u64| WorkerSample {
            busy: Duration::from_millis(*busy),
            ..WorkerSample::default()
        };
        let numbered = (0..).zip(buckets);
        Sample {
            took: Duration::from_millis(100),
            workers: busy_ms.iter().map(worker).collect(),
            buckets: numbered
                .map(|(bucket, (worker, done))| BucketSample {
                    bucket,
                    worker: *worker,
                    done: *done,
                })
                .collect(),
            ..Sample::default()
        }
    }

    #[test]
    fn what_is_too_much_goes_to_the_one_who_has_least() {
        let sample = sample(
            &[100, 60, 10],
            &[(0, 40), (0, 30), (0, 30), (1, 60), (2, 10)],
        );
        let moves = moves_away_from(0, &sample);
        assert_eq!(moves[0].to, 2);
        assert!(moves[0].bucket < 3);
    }

    #[test]
    fn a_hot_bucket_gets_a_worker_for_itself() {
        let alone = sample(&[100, 0], &[(0, 1_000)]);
        assert_eq!(moves_away_from(0, &alone), []);
        assert_eq!(largest_share(0, &alone), 1.0);
        let with_others = sample(&[100, 0], &[(0, 800), (0, 100), (0, 100)]);
        let moves = moves_away_from(0, &with_others);
        assert_eq!(moves.len(), 1, "{moves:?}");
        assert_eq!(moves[0].bucket, 0);
    }

    #[test]
    fn even_shares_stay() {
        let sample = sample(&[90, 88, 91], &[(0, 45), (0, 45), (1, 88), (2, 91)]);
        assert_eq!(moves_away_from(2, &sample), []);
    }
}
