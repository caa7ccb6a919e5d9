//! Commits of single buckets that the bus has not answered yet.
//!
//! Where an answer takes a while, because it comes over a network or after a sync, a worker of a keyed
//! stage does not wait for it: it goes on with other buckets, whose state is not touched by it. With
//! the same bucket it goes on only when the answer is there, so each bucket has one commit under way
//! at most, and one that is refused has nothing behind it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bus::{BusError, Commit, Owner};
use kernel::worker::{Failure, Incoming};
use parking_lot::Mutex;

use super::Cell;
use super::commit::{Plan, apply, consumed, submit};
use super::run::{Extras, Run};
use crate::control::Control;
use crate::mailbox::Source;
use crate::scope::Scope;

/// A commit that is answered some time.
#[derive(Default)]
pub(super) struct Underway {
    outcome: Mutex<Option<Result<(), Box<Uncommitted>>>>,
    ended: event_listener::Event,
}

/// What was to be committed and was not.
struct Uncommitted {
    error: BusError,
    messages: Messages,
}

/// The messages of a turn, and where they came from.
struct Messages {
    incomings: VecDeque<Incoming>,
    sources: Vec<Option<Source>>,
    discarded: Vec<Source>,
}

impl Underway {
    fn end(&self, outcome: Result<(), Box<Uncommitted>>) {
        *self.outcome.lock() = Some(outcome);
        self.ended.notify(usize::MAX);
    }

    async fn outcome(&self) -> Result<(), Box<Uncommitted>> {
        loop {
            let ended = self.ended.listen();
            if let Some(outcome) = self.outcome.lock().take() {
                return outcome;
            }
            ended.await;
        }
    }
}

/// What has to be done to commit a turn.
struct Job {
    cell: Arc<Cell>,
    scope: Scope,
    bucket: u32,
    owner: Option<Owner>,
    plan: Plan,
    messages: Messages,
}

impl Job {
    async fn run(mut self, underway: Arc<Underway>) {
        match self.commit().await {
            Ok(()) => {
                let turns = self.messages.incomings.len() as u64;
                self.cell.turns.fetch_add(turns, Ordering::Release);
                underway.end(Ok(()));
            }
            Err(error) => {
                underway.end(Err(Box::new(Uncommitted {
                    error,
                    messages: self.messages,
                })));
                self.cell.control(Control::Settle {
                    bucket: self.bucket,
                });
            }
        }
    }

    async fn commit(&mut self) -> Result<(), BusError> {
        let stage = &self.cell.stage;
        let timeout = Duration::from_millis(stage.runtime.settings.commit_timeout_ms);
        let commit = Commit {
            owner: self.owner.take(),
            consumed: consumed(&self.messages.sources, &self.messages.discarded),
            writes: std::mem::take(&mut self.plan.writes),
            sends: std::mem::take(&mut self.plan.sends),
        };
        let submitted = submit(stage, &commit, timeout).await?;
        submitted.permanent().await?;
        apply(&self.cell, &self.scope, &mut self.plan);
        let local = std::mem::take(&mut self.plan.local);
        local.deliver(&stage.runtime).await;
        Ok(())
    }
}

impl Run {
    /// The bucket, if the worker may go on with others before the turn at hand is committed.
    pub fn leaves_commit(&self, scope: &Scope) -> Option<u32> {
        let Scope::Bucket(bucket) = *scope else {
            return None;
        };
        // What has to prove itself is looked at before anything follows.
        let is_proven = |e: &Extras| e.probation.is_none() && !e.failing && e.singles == 0;
        let turn = self.desk.turn.as_ref().map(|(_, turn)| turn);
        let goes_to_bus = !self.desk.sources.is_empty()
            || turn.is_some_and(|turn| !turn.effects().has_only_sends());
        let leaves = goes_to_bus
            && !self.cell.stage.is_memory()
            && self.cell.stage.runtime.bus.submit_waits()
            && self.body.extras.as_deref().is_none_or(is_proven);
        leaves.then_some(bucket)
    }

    /// Leaves the commit of the turn to itself.
    pub async fn leave_commit(&mut self, scope: &Scope, bucket: u32) -> Result<(), Failure> {
        let mut effects = self.turn(scope).take_effects();
        let plan = self.plan(scope, &mut effects)?;
        self.turn(scope).give_memory(effects);
        let owner = self.owner_of(scope, &plan).await?;
        let job = Job {
            cell: self.cell.clone(),
            scope: scope.clone(),
            bucket,
            owner,
            plan,
            messages: Messages {
                incomings: std::mem::take(&mut self.desk.incomings),
                sources: std::mem::take(&mut self.desk.sources),
                discarded: std::mem::take(&mut self.desk.discarded),
            },
        };
        let underway = Arc::<Underway>::default();
        self.body.extras().underway.insert(bucket, underway.clone());
        self.cell.stage.runtime.tokio.spawn(job.run(underway));
        Ok(())
    }

    pub fn has_underway(&self, bucket: u32) -> bool {
        let extras = self.body.extras.as_ref();
        extras.is_some_and(|extras| extras.underway.contains_key(&bucket))
    }

    /// Waits until the bucket's commit is answered. Whether what comes behind it may follow at once:
    /// if it was not committed its messages come again first.
    pub async fn settle(&mut self, bucket: u32) -> bool {
        let extras = self.body.extras.as_mut();
        let Some(underway) = extras.and_then(|extras| extras.underway.remove(&bucket)) else {
            return true;
        };
        let began = Instant::now();
        let outcome = underway.outcome().await;
        self.desk.waited += began.elapsed();
        let Err(uncommitted) = outcome else {
            return true;
        };
        let Uncommitted { error, messages } = *uncommitted;
        self.desk.incomings = messages.incomings;
        self.desk.sources = messages.sources;
        self.desk.discarded = messages.discarded;
        let scope = Scope::Bucket(bucket);
        let failure = self.not_committed(&scope, &error).await;
        Box::pin(self.recover(&scope, failure)).await
    }

    /// Waits until no commit is under way.
    pub async fn settle_all(&mut self) {
        while let Some(bucket) = self.first_underway() {
            self.settle(bucket).await;
        }
    }

    fn first_underway(&self) -> Option<u32> {
        let extras = self.body.extras.as_ref()?;
        extras.underway.keys().next().copied()
    }
}
