//! When a turn fails: it is undone, the culprit is found, and supervision decides.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bus::{Commit, Reject, StateWrite};
use kernel::worker::{Effects, Failure, FailureKind, Kind, LogLevel};

use super::Place;
use super::host;
use super::run::{Probation, Run};
use crate::control::Control;
use crate::scope::Scope;
use crate::supervision::{Affected, Decision};
use crate::views::WorkerState;

/// How much of a failure goes into the headers of a dead letter.
const REASON_BYTES_MAX: usize = 4_000;
/// How long to wait after a failure of the host before trying again.
const HOST_PAUSE: Duration = Duration::from_millis(100);
/// A key that no worker has: what begins like this is never written.
const OWNER_CHECK: &str = "~owner";

impl Run {
    /// The turn failed. Whether what waits behind its messages may follow at once.
    pub async fn recover(&mut self, scope: &Scope, failure: Failure) -> bool {
        self.begin_woken(scope);
        self.desk.spread();
        match self.desk.incomings.len() {
            0 => {
                self.lose_instance();
                self.note(&failure);
                self.pause(HOST_PAUSE);
                false
            }
            1 => self.blame(scope, failure).await,
            _ => {
                // What the instance did in its memory cannot be undone, so it goes.
                self.lose_instance();
                self.put_back(scope);
                false
            }
        }
    }

    /// One message failed by itself.
    async fn blame(&mut self, scope: &Scope, failure: Failure) -> bool {
        if failure.kind == FailureKind::Host {
            self.lose_instance();
            self.note(&failure);
            self.put_back(scope);
            self.pause(HOST_PAUSE);
            return false;
        }
        if !self.still_owns(scope).await {
            return false;
        }
        if self.is_on_probation() && self.goes_back(scope, &failure).await {
            return true;
        }
        self.note(&failure);
        self.desk.incomings[0].tries += 1;
        let stage = self.cell.stage.clone();
        let workers = stage.workers_count();
        let now = stage.runtime.clock.now();
        let decision = stage
            .supervisor
            .lock()
            .failed(self.cell.number(), workers, &failure, now);
        self.body.extras().failing = true;
        match decision {
            Decision::Resume => {
                self.bury(scope, &failure).await;
                true
            }
            Decision::Restart { workers, after } => {
                self.restart_after(scope, &failure, workers, after).await;
                false
            }
            Decision::Stop { workers } => {
                self.body.instance = None;
                self.put_back(scope);
                self.hold(WorkerState::Stopped);
                stage.stop_affected(&self.cell, workers);
                false
            }
            Decision::Escalate { reason } => {
                self.body.instance = None;
                self.settle_failed(scope, &failure).await;
                self.hold(WorkerState::Waiting);
                stage.escalate(&reason);
                false
            }
        }
    }

    /// Whether what becomes of a message is still for this node to decide. One that woke up late may
    /// have failed for no other reason than that.
    async fn still_owns(&mut self, scope: &Scope) -> bool {
        let stage = self.cell.stage.clone();
        if !stage.is_shared() {
            return true;
        }
        let timeout = Duration::from_millis(stage.runtime.settings.commit_timeout_ms);
        let owner = match self.own(scope, timeout).await {
            Ok(owner) => owner,
            Err(failure) => {
                self.note(&failure);
                self.leave_to_others();
                return false;
            }
        };
        // A commit that changes nothing, but is refused if another node has taken over.
        let commit = Commit {
            owner: Some(owner),
            writes: vec![StateWrite::Remove {
                key: OWNER_CHECK.into(),
            }],
            ..Commit::default()
        };
        match stage.runtime.bus.commit(&commit, timeout).await {
            Ok(_) => true,
            Err(error) => {
                let failure = self.not_committed(scope, &error).await;
                self.note(&failure);
                self.leave_to_others();
                false
            }
        }
    }

    /// Keeps nothing of the messages at hand: they come again, here or elsewhere.
    fn leave_to_others(&mut self) {
        self.lose_instance();
        self.desk.incomings.clear();
        self.desk.sources.clear();
        self.pause(HOST_PAUSE);
    }

    async fn restart_after(
        &mut self,
        scope: &Scope,
        failure: &Failure,
        workers: Affected,
        after: Duration,
    ) {
        let stage = self.cell.stage.clone();
        self.count_restart();
        self.settle_failed(scope, failure).await;
        self.lose_instance();
        stage.restart_affected(&self.cell, workers);
        self.pause(after);
    }

    pub fn count_restart(&self) {
        let counters = &self.cell.stage.counters;
        self.cell.restarts.fetch_add(1, Ordering::Relaxed);
        counters.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// Does without the instance. The next one does not know what this one had begun, so it is woken to look.
    pub fn lose_instance(&mut self) {
        self.body.instance = None;
        self.cell.stage.wake_timed(&self.cell);
    }

    /// The message comes again, or goes to the dead letters if it had its tries. One that woke the worker is over: whoever
    /// begins anew is woken anew, if something is pending.
    async fn settle_failed(&mut self, scope: &Scope, failure: &Failure) {
        let tries_max = self.version().spec.supervision.tries_max;
        let incoming = &self.desk.incomings[0];
        if incoming.kind == Kind::Woken || incoming.tries >= tries_max {
            self.bury(scope, failure).await;
        } else {
            self.put_back(scope);
        }
    }

    /// Puts the message at hand among the dead letters, with the reason, unless it only woke the worker.
    pub async fn bury(&mut self, scope: &Scope, failure: &Failure) {
        if self.desk.incomings[0].kind != Kind::Woken {
            self.send_to_dead_letters(failure).await;
        }
        // What it stood for, an ask or a timer, is over all the same.
        self.turn(scope).clear();
        if let Err(failure) = self.commit(scope).await {
            self.note(&failure);
        }
        self.desk.incomings.clear();
        self.desk.sources.clear();
    }

    async fn send_to_dead_letters(&mut self, failure: &Failure) {
        let stage = self.cell.stage.clone();
        stage.counters.dead.fetch_add(1, Ordering::Relaxed);
        let reason = dead_reason(failure);
        let incoming = self.desk.incomings[0].clone();
        let timeout = Duration::from_millis(stage.runtime.settings.commit_timeout_ms);
        match self.desk.sources.pop().flatten() {
            Some(source) => {
                let delivery = source.tag.join(incoming.message);
                let reject = Reject::Dead { reason };
                let rejected = source.subscription.reject(&delivery, reject, timeout).await;
                if let Err(error) = rejected {
                    tracing::warn!(worker = %self.cell.address(), %error, "a message could not be put among the dead letters; it comes again");
                }
            }
            None => {
                if matches!(incoming.kind, Kind::Message | Kind::Reply(_)) {
                    self.note_dropped(1);
                }
                let queue = self.cell.address().queue();
                let tries = incoming.tries;
                stage
                    .runtime
                    .bury(&queue, incoming.message, &reason, tries)
                    .await;
            }
        }
    }

    /// Messages of this process end here.
    pub fn note_dropped(&self, messages: u64) {
        let stage = &self.cell.stage;
        if stage.is_memory() && stage.counts(&self.cell) {
            stage.book.dropped(messages);
        }
    }

    /// Writes down what happened.
    pub fn note(&self, failure: &Failure) {
        let stage = &self.cell.stage;
        stage.counters.failures.fetch_add(1, Ordering::Relaxed);
        let text = match &failure.backtrace {
            Some(backtrace) => format!("{}\n{backtrace}", failure.reason),
            None => failure.reason.clone(),
        };
        self.cell.log(LogLevel::Error, &text);
        stage.note_failure(self.cell.number(), &failure.reason);
    }

    /// Takes no messages for a while.
    pub fn pause(&self, after: Duration) {
        if after.is_zero() {
            return;
        }
        self.hold(WorkerState::Waiting);
        let cell = self.cell.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            cell.control(Control::Resume);
        });
    }

    /// Takes no messages until told otherwise.
    pub fn hold(&self, state: WorkerState) {
        self.cell.mailbox.lock().held = true;
        self.cell.set_state(state);
    }

    fn is_on_probation(&self) -> bool {
        let extras = self.body.extras.as_ref();
        extras.is_some_and(|extras| extras.probation.is_some())
    }

    /// The new version failed on probation. If the old one can handle the message the new one is
    /// to blame, and the worker goes back; otherwise the message is, and the new version stays.
    async fn goes_back(&mut self, scope: &Scope, failure: &Failure) -> bool {
        let Some(probation) = self.body.extras().probation.take() else {
            return false;
        };
        let old_version = probation.old.clone();
        let turns_left = probation.turns_left;
        let Some(old) = self.old_instance(probation).await else {
            return false;
        };
        let new_version = self.set_version(old_version.clone());
        self.body.instance = Some(old);
        let outcome = match self.attempt(scope).await {
            Ok(()) => self.commit(scope).await,
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(()) => {
                self.note(failure);
                let stage = &self.cell.stage;
                if let Some(new_version) = new_version {
                    stage.roll_back(&new_version, &old_version, &self.cell, &failure.reason);
                }
                self.finish_turns(1);
                true
            }
            Err(_) => {
                if let Some(new_version) = new_version {
                    self.set_version(new_version);
                }
                self.body.instance = None;
                // It stays on probation, but there is nothing left to park.
                self.body.extras().probation = Some(Probation {
                    old: old_version,
                    parked: None,
                    snapshot: bytes::Bytes::new(),
                    has_committed: true,
                    turns_left,
                });
                false
            }
        }
    }

    /// An instance of the old version with the newest state that it can take.
    async fn old_instance(
        &mut self,
        probation: Probation,
    ) -> Option<Box<dyn kernel::worker::Worker>> {
        if probation.has_committed || probation.parked.is_none() {
            let made = self
                .make_instance(&probation.old, probation.snapshot.clone())
                .await;
            match made {
                Ok(instance) => return Some(instance),
                Err(failure) => self.cell.log(
                    LogLevel::Warn,
                    &format!("the old version could not take over what the new one saved ({failure}); it goes on from where it was replaced"),
                ),
            }
        }
        probation.parked
    }

    /// Turns are over and committed.
    pub async fn succeeded(&mut self, messages: u64) {
        self.finish_turns(messages);
        let Some(extras) = &mut self.body.extras else {
            return;
        };
        if std::mem::take(&mut extras.failing) {
            let number = self.cell.number();
            self.cell.stage.supervisor.lock().succeeded(number);
        }
        let Some(mut probation) = self.body.extras().probation.take() else {
            return;
        };
        probation.turns_left = probation.turns_left.saturating_sub(messages as u32);
        if probation.turns_left == 0 {
            return;
        }
        probation.has_committed = true;
        if !probation.snapshot.is_empty() {
            let limit = self.call_limit();
            let instance = self.body.instance.as_mut().expect("it has just handled");
            if let Ok(snapshot) = host::call(limit, instance.save()).await {
                probation.snapshot = snapshot;
            }
        }
        self.body.extras().probation = Some(probation);
    }

    fn finish_turns(&mut self, messages: u64) {
        let events = std::mem::take(&mut self.desk.events);
        let pulled = std::mem::take(&mut self.desk.pulled);
        let stage = &self.cell.stage;
        if events + pulled > 0 && stage.is_memory() && stage.counts(&self.cell) {
            stage.book.others(events, pulled);
        }
        self.cell.turns.fetch_add(messages, Ordering::Release);
    }

    /// Ends the worker's own part: `stop`, whose effects are committed.
    pub async fn say_goodbye(&mut self) {
        let scope = self.own_scope();
        let Some(mut instance) = self.body.instance.take() else {
            return;
        };
        let limit = self.call_limit();
        let mut turn = self.new_turn(&scope);
        let stopped = host::call(limit, instance.stop(&mut turn)).await;
        let effects: Effects = match stopped {
            Ok(()) => turn.take_effects(),
            Err(failure) => {
                self.note(&failure);
                return;
            }
        };
        if let Err(failure) = self.commit_effects(&scope, effects).await {
            self.note(&failure);
        }
    }

    /// The scope of what belongs to no message.
    pub fn own_scope(&self) -> Scope {
        match &self.cell.place {
            Place::Worker(number) => Scope::Worker(*number),
            _ => self.cell.scope(0),
        }
    }
}

/// What a dead letter says about the failure.
fn dead_reason(failure: &Failure) -> String {
    let mut reason = match &failure.backtrace {
        Some(backtrace) => format!("{}\n{backtrace}", failure.reason),
        None => failure.reason.clone(),
    };
    if reason.len() > REASON_BYTES_MAX {
        let cut = (0..=REASON_BYTES_MAX)
            .rev()
            .find(|at| reason.is_char_boundary(*at))
            .unwrap_or(0);
        reason.truncate(cut);
        reason.push('…');
    }
    reason
}
