//! More workers or fewer, while messages flow.

use std::sync::Arc;

use kernel::worker::Kind;

use super::life::wait;
use super::{Stage, Version};
use crate::cell::{Cell, Place};
use crate::control::Control;
use crate::error::ScaleError;
use crate::key::BUCKETS;
use crate::moves::Event;
use crate::scope::Scope;
use crate::spec::WORKERS_MAX;

impl Stage {
    /// Has so many workers from now on. Buckets of keyed stages move one by one; nothing else pauses.
    pub async fn scale(self: &Arc<Self>, workers: u32) -> Result<(), ScaleError> {
        let _changing = self.changing.lock().await;
        self.check_size(workers)?;
        self.resize(&self.version(), workers).await
    }

    fn check_size(&self, workers: u32) -> Result<(), ScaleError> {
        let refuse = |reason: String| Err(ScaleError::Refused { reason });
        let most = if self.is_keyed() {
            BUCKETS
        } else {
            WORKERS_MAX
        };
        if workers == 0 || workers > most {
            return refuse(format!(
                "{} has 1 to {most} workers, not {workers}",
                self.address
            ));
        }
        if self.is_stopping() {
            return refuse(format!("{} is stopping", self.address));
        }
        if self.is_shared() && !self.is_keyed() {
            return refuse(format!(
                "several nodes share the workers of {}: deploy it with another number of workers",
                self.address
            ));
        }
        if let Some(rule) = &self.version().spec.scale
            && !(rule.min..=rule.max).contains(&workers)
        {
            return refuse(format!(
                "the rule of {} allows {} to {} workers, not {workers}",
                self.address, rule.min, rule.max
            ));
        }
        Ok(())
    }

    /// How many workers a new version has: as many as now if it finds that by itself and nobody asked for another number.
    pub(super) fn size_for(&self, old: &Version, new: &Version) -> u32 {
        let Some(rule) = &new.spec.scale else {
            return new.spec.workers;
        };
        let asked = match new.spec.workers == old.spec.workers {
            true => self.workers_count(),
            false => new.spec.workers,
        };
        asked.clamp(rule.min, rule.max)
    }

    /// More workers, or fewer. If the stage is keyed its buckets move: to workers that are there already, and away
    /// from those that go.
    pub(super) async fn resize(
        self: &Arc<Self>,
        version: &Arc<Version>,
        after: u32,
    ) -> Result<(), ScaleError> {
        let before = self.workers_count();
        if before < after {
            self.grow(version, before, after).await;
        }
        let mut resized = Ok(());
        if self.is_keyed() && before != after {
            let moves = self.moves.read().moves_for(after);
            resized = self.move_buckets(&moves).await;
        }
        if before > after && resized.is_ok() {
            let mut removed = self.bucket_event(Event::Removed { workers: after });
            self.end_removed(std::mem::take(&mut removed.dismissed))
                .await;
            resized = removed.check();
        }
        self.room.notify(usize::MAX);
        resized
    }

    async fn grow(self: &Arc<Self>, version: &Arc<Version>, before: u32, after: u32) {
        let added: Vec<Arc<Cell>> = (before..after)
            .map(|number| Cell::new(self.clone(), Place::Worker(number), version.clone()))
            .collect();
        self.cells.write().extend(added.iter().cloned());
        // They can be given buckets from now on.
        self.bucket_event(Event::Added { workers: after });
        for cell in &added {
            if self.is_shared() && !self.is_keyed() {
                // It does nothing before its part is taken.
                cell.put_aside();
                continue;
            }
            if !self.is_memory() && !self.is_keyed() {
                // A worker of that number may have been there before, with timers and pending asks.
                let scope = Scope::Worker(cell.number());
                if let Err(error) = self.restore_scope(&scope).await {
                    tracing::warn!(worker = %cell.address(), %error, "what a worker had pending could not be brought back");
                }
            }
            drop(cell.ask(Control::Start));
            if self.is_routed() {
                self.listen_for(cell);
            }
        }
    }

    async fn end_removed(&self, removed: Vec<Arc<Cell>>) {
        for cell in &removed {
            let ended = wait(cell.ask(|done| Control::Stop {
                for_good: true,
                done,
            }));
            if let Err(failure) = ended.await {
                tracing::warn!(worker = %cell.address(), reason = %failure, "a worker did not end in order");
            }
            self.count_turns_of(cell);
            self.book.went([cell].into_iter());
            self.stop_listening_for(cell).await;
            self.pass_on(cell);
        }
    }

    /// What waited for a worker that is gone goes to the others.
    fn pass_on(&self, gone: &Arc<Cell>) {
        let cells = self.cells.read();
        for (index, envelope) in gone.retire().into_iter().enumerate() {
            self.note_dropped(gone, &envelope);
            if envelope.incoming.kind == Kind::Woken {
                // It was for that worker and nobody else.
                continue;
            }
            cells[index % cells.len()].push(envelope);
        }
    }
}
