//! What a worker does between two batches because its stage asks for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bus::{Commit, StateWrite};
use bytes::Bytes;
use kernel::worker::{Failure, FailureKind};

use super::provide::Providing;
use super::run::{Probation, Run};
use crate::control::{Control, Done};
use crate::moves::MoveId;
use crate::scope::Scope;
use crate::stage::Version;
use crate::store::host_failure;
use crate::views::WorkerState;

/// How many keys are removed in one commit when the state is cleared.
const CLEAR_PAIRS: usize = 1_000;

impl Run {
    pub async fn control(&mut self, control: Control) {
        if needs_quiet(&control) {
            self.settle_all().await;
        }
        match control {
            Control::Start(done) => {
                let started = self.start().await;
                let _ = done.send(started);
            }
            Control::Snapshot(done) => {
                let _ = done.send(self.snapshot().await);
            }
            Control::Replace {
                version,
                on_probation,
                done,
            } => {
                let replaced = self.replace(version, on_probation).await;
                let _ = done.send(replaced);
            }
            Control::Force { version } => {
                if let Some(extras) = &mut self.body.extras {
                    extras.probation = None;
                }
                self.set_version(version);
                self.lose_instance();
            }
            Control::Leave { bucket, done } => self.leave(bucket, done).await,
            Control::Give { id, done } => self.give(id, done).await,
            Control::Restart { reset, done } => {
                let restarted = self.restart(reset).await;
                if let Some(done) = done {
                    let _ = done.send(restarted);
                }
            }
            Control::Passivate => self.passivate().await,
            Control::Resume => self.go_on(),
            Control::Provide => self.body.providing = Providing::Ready,
            Control::Look => {}
            Control::Reload => {
                self.lose_instance();
                if let Some(extras) = &mut self.body.extras {
                    extras.epochs.clear();
                }
            }
            Control::Settle { bucket } => {
                self.settle(bucket).await;
            }
            Control::End(done) => {
                let ended = self.end().await;
                let _ = done.send(ended);
            }
            Control::Stop { for_good, done } => {
                let stopped = self.stop(for_good).await;
                let _ = done.send(stopped);
            }
        }
    }

    /// Answers once nothing of the bucket waits any more.
    async fn leave(&mut self, bucket: u32, done: Done<()>) {
        self.settle(bucket).await;
        let waits = {
            let mailbox = self.cell.mailbox.lock();
            mailbox.has_bucket(bucket) && !mailbox.held
        };
        if waits {
            self.desk.leaving.push((bucket, done));
            return;
        }
        self.flush().await;
        if let Some(extras) = &mut self.body.extras {
            extras.epochs.remove(&Scope::Bucket(bucket));
        }
        let _ = done.send(Ok(()));
    }

    /// Gives a bucket away: what was begun of it is committed, its outputs have left, and nothing of it stays.
    async fn give(&mut self, id: MoveId, done: Done<()>) {
        self.settle(id.bucket).await;
        self.flush().await;
        let mut singles = 0;
        if let Some(extras) = &mut self.body.extras {
            extras.epochs.remove(&Scope::Bucket(id.bucket));
            singles = extras.singles;
        }
        let mut mailbox = self.cell.mailbox.lock();
        let (given, of_first) = mailbox.take_bucket(id.bucket, singles);
        self.cell.note_waiting(&mailbox);
        drop(mailbox);
        let back = self.cell.stage.bucket_given(id, given);
        if singles > 0 {
            // What comes back is before those that are handled one by one, so it is handled like them.
            self.body.extras().singles = singles - of_first + back.len();
        }
        if !back.is_empty() {
            let mut mailbox = self.cell.mailbox.lock();
            mailbox.put_back(back.into_iter());
            self.cell.note_waiting(&mailbox);
        }
        let _ = done.send(Ok(()));
    }

    async fn start(&mut self) -> Result<(), Failure> {
        if self.body.instance.is_none() {
            self.start_instance().await?;
            self.cell.set_state(WorkerState::Idle);
        }
        Ok(())
    }

    /// Goes over to another version with the state of this one. If that fails nothing has changed.
    async fn replace(&mut self, version: Arc<Version>, on_probation: bool) -> Result<(), Failure> {
        if self.version().number == version.number {
            return Ok(());
        }
        let was_started = self.body.instance.is_some();
        if was_started {
            let snapshot = self.snapshot().await?;
            let instance = self.make_instance(&version, snapshot.clone()).await?;
            let parked = self.body.instance.replace(instance);
            self.begin_providing_of(&version);
            let old = self.version().clone();
            let turns_left = version.spec.hand_over.probation_turns;
            self.body.extras().probation = (on_probation && turns_left > 0).then(|| Probation {
                old,
                parked,
                snapshot,
                has_committed: false,
                turns_left,
            });
        } else if on_probation {
            // It has no instance: it proves itself when a message wakes it.
            let (old, snapshot) = (self.version().clone(), self.saved().await?);
            self.body.extras().probation = Some(Probation {
                old,
                parked: None,
                snapshot,
                has_committed: true,
                turns_left: version.spec.hand_over.probation_turns,
            });
        } else if let Some(extras) = &mut self.body.extras {
            extras.probation = None;
        }
        self.set_version(version);
        Ok(())
    }

    /// Begins anew from the committed state, or without any.
    async fn restart(&mut self, reset: bool) -> Result<(), Failure> {
        self.body.instance = None;
        if let Some(extras) = &mut self.body.extras {
            extras.probation = None;
        }
        if reset {
            self.clear_state().await?;
        }
        self.cell.restarts.fetch_add(1, Ordering::Relaxed);
        let stage = &self.cell.stage;
        stage.counters.restarts.fetch_add(1, Ordering::Relaxed);
        self.go_on();
        self.start().await
    }

    async fn passivate(&mut self) {
        if self.cell.waiting() > 0 || self.body.instance.is_none() {
            return;
        }
        match self.save().await {
            Ok(()) => {
                self.body.instance = None;
                if let Some(extras) = &mut self.body.extras {
                    extras.probation = None;
                }
                self.cell.set_state(WorkerState::Passive);
                self.flush().await;
                self.shrink();
            }
            Err(failure) => self.note(&failure),
        }
    }

    /// Gives back memory that a worker without an instance does not need.
    fn shrink(&mut self) {
        let Some(extras) = &mut self.body.extras else {
            return;
        };
        if extras.completions.as_ref().is_some_and(|c| c.is_empty()) {
            extras.completions = None;
        }
        if extras.singles == 0
            && extras.completions.is_none()
            && extras.epochs.is_empty()
            && extras.underway.is_empty()
        {
            self.body.extras = None;
        }
    }

    fn go_on(&self) {
        self.cell.mailbox.lock().held = false;
        self.cell.set_state(match self.body.instance {
            Some(_) => WorkerState::Idle,
            None => WorkerState::Passive,
        });
        self.cell.stage.room.notify(usize::MAX);
    }

    async fn stop(&mut self, for_good: bool) -> Result<(), Failure> {
        let saved = self.save().await;
        if for_good {
            self.say_goodbye().await;
        }
        self.body.instance = None;
        self.hold(WorkerState::Stopped);
        self.flush().await;
        saved
    }

    async fn end(&mut self) -> Result<(), Failure> {
        self.stop(true).await?;
        self.clear_state().await
    }

    /// Removes everything that the worker, or the buckets that it owns, ever kept.
    pub async fn clear_state(&mut self) -> Result<(), Failure> {
        let stage = self.cell.stage.clone();
        for scope in stage.scopes_of(&self.cell) {
            stage.runtime.alarms.cancel_all(&stage, &scope);
            loop {
                let pairs = stage.store.scan(&scope, b"", None, CLEAR_PAIRS).await;
                let pairs = pairs.map_err(host_failure)?;
                if pairs.is_empty() {
                    break;
                }
                let remove = |(key, _): (Bytes, Bytes)| StateWrite::Remove { key };
                let writes = pairs.into_iter().map(remove).collect();
                self.write_scope(&scope, writes).await?;
            }
        }
        Ok(())
    }

    /// Commits writes that belong to no turn.
    pub async fn write(&mut self, writes: Vec<StateWrite>) -> Result<(), Failure> {
        let scope = self.own_scope();
        self.write_scope(&scope, writes).await
    }

    async fn write_scope(&mut self, scope: &Scope, writes: Vec<StateWrite>) -> Result<(), Failure> {
        let stage = self.cell.stage.clone();
        if stage.store.is_memory() {
            stage.store.write_memory(scope, writes);
            return Ok(());
        }
        let timeout = Duration::from_millis(stage.runtime.settings.commit_timeout_ms);
        let commit = Commit {
            owner: Some(self.own(scope, timeout).await?),
            writes,
            ..Commit::default()
        };
        let committed = stage.runtime.bus.commit(&commit, timeout).await;
        committed
            .map(|_| ())
            .map_err(|error| Failure::of(FailureKind::Host, error.to_string()))
    }
}

/// Whether no commit may be under way when this is done.
fn needs_quiet(control: &Control) -> bool {
    !matches!(
        control,
        Control::Leave { .. }
            | Control::Give { .. }
            | Control::Resume
            | Control::Provide
            | Control::Look
            | Control::Reload
            | Control::Settle { .. }
    )
}
