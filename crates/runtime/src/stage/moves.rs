//! Moving buckets from worker to worker, without stopping anything else.
//!
//! While the table is locked for writing, a bucket is marked as on its way: everything before is in its worker's mailbox, since
//! senders hand over while they read the table, and everything after is held. Between two batches the worker settles what it
//! has begun of the bucket, lets its outputs leave, and gives what waits. That, and behind it what was held, goes to the new
//! worker, while the table is locked again and changed. State, timers and pending asks belong to the bucket and
//! are found by whoever has it; the new worker raises the epoch with its first commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::worker::Failure;
use tokio::sync::oneshot;

use super::Stage;
use super::life::release;
use crate::cell::Cell;
use crate::control::Control;
use crate::error::ScaleError;
use crate::key::BUCKETS;
use crate::mailbox::Envelope;

/// How long a worker may take to finish its batch and give a bucket.
const GIVE_MAX: Duration = Duration::from_secs(60);
/// How many buckets are on their way at the same time.
const ROUND: usize = 8;

/// A bucket on its way.
struct Leaving {
    bucket: u32,
    to: u32,
    from: Arc<Cell>,
    given: oneshot::Receiver<Result<Vec<Envelope>, Failure>>,
    began: Instant,
}

impl Stage {
    /// Puts messages of a bucket into the mailbox of its worker, whether there is room or not.
    pub fn push_to_bucket(&self, bucket: u32, envelopes: impl Iterator<Item = Envelope>) {
        let table = self.table.read();
        if self.holds.has(bucket) {
            self.holds.extend(bucket, envelopes);
            return;
        }
        let cell = self.cells.read().get(table.owner(bucket) as usize).cloned();
        match cell {
            Some(cell) => cell.push_all(envelopes),
            // The stage has ended; the bus delivers again.
            None => release(envelopes),
        }
    }

    /// Gives a bucket to another worker.
    pub async fn move_bucket(self: &Arc<Self>, bucket: u32, to: u32) -> Result<(), ScaleError> {
        let _changing = self.changing.lock().await;
        let refuse = |reason: String| Err(ScaleError::Refused { reason });
        if !self.is_keyed() {
            return refuse(format!(
                "{} is not keyed, so it has no buckets",
                self.address
            ));
        }
        if bucket >= BUCKETS || to >= self.workers_count() {
            return refuse(format!(
                "{} has buckets 0 to {} and workers 0 to {}; it has no bucket {bucket} for worker {to}",
                self.address,
                BUCKETS - 1,
                self.workers_count() - 1
            ));
        }
        self.move_buckets(&[(bucket, to)]).await
    }

    /// Gives buckets to other workers, few at a time. After a failure those that did not move stay where they are.
    pub(super) async fn move_buckets(&self, moves: &[(u32, u32)]) -> Result<(), ScaleError> {
        for round in moves.chunks(ROUND) {
            let leaving: Vec<Leaving> = round
                .iter()
                .filter_map(|(bucket, to)| self.begin_move(*bucket, *to))
                .collect();
            let mut outcome = Ok(());
            for leaving in leaving {
                let moved = self.finish_move(leaving).await;
                outcome = outcome.and(moved);
            }
            outcome?;
        }
        Ok(())
    }

    /// From now on what comes for the bucket is held. None if the worker has it already.
    fn begin_move(&self, bucket: u32, to: u32) -> Option<Leaving> {
        let table = self.table.write();
        let owner = table.owner(bucket);
        if owner == to {
            return None;
        }
        let from = self.cells.read().get(owner as usize).cloned()?;
        self.holds.open(bucket);
        let given = from.ask(|done| Control::Give { bucket, done });
        Some(Leaving {
            bucket,
            to,
            from,
            given,
            began: Instant::now(),
        })
    }

    async fn finish_move(&self, mut leaving: Leaving) -> Result<(), ScaleError> {
        let answered = tokio::time::timeout(GIVE_MAX, &mut leaving.given).await;
        let given = match answered {
            Ok(Ok(given)) => given,
            Ok(Err(_)) => Err(Failure::new("the worker is gone")),
            Err(_) => {
                // What comes after this goes back to the mailbox it came from.
                leaving.given.close();
                let late = leaving.given.try_recv();
                late.unwrap_or_else(|_| {
                    let reason = format!("it was still busy after {GIVE_MAX:?}");
                    Err(Failure::new(reason))
                })
            }
        };
        let bucket = leaving.bucket;
        let mut table = self.table.write();
        let held = self.holds.close(bucket);
        let moved = match given {
            Ok(given) => {
                let cell = self.cells.read().get(leaving.to as usize).cloned();
                let has_place = cell.is_some();
                if has_place {
                    table.owners[bucket as usize] = leaving.to;
                    table.version += 1;
                }
                // Without a place the stage is about to end, and whoever ends it sees to what waits.
                let cell = cell.unwrap_or_else(|| leaving.from.clone());
                cell.push_all(given.into_iter().chain(held));
                Ok(())
            }
            Err(failure) => {
                leaving.from.push_all(held.into_iter());
                Err(ScaleError::Move {
                    bucket,
                    worker: leaving.from.address(),
                    reason: failure.reason,
                })
            }
        };
        drop(table);
        self.pauses.add(leaving.began.elapsed());
        self.room.notify(usize::MAX);
        moved
    }
}

#[cfg(test)]
impl Stage {
    /// The control of the tests: changes the owner without asking the old one for anything.
    pub fn move_bucket_wrongly(&self, bucket: u32, to: u32) {
        self.table.write().owners[bucket as usize] = to;
    }
}
