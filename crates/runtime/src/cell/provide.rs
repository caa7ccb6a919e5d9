//! Turns of a provider: they begin by themselves, not with a message.

use std::sync::Arc;
use std::time::Duration;

use kernel::descriptor::PluginKind;
use kernel::worker::{Failure, FailureKind, Provided};

use super::run::Run;
use super::{Cell, Place, host};
use crate::control::Control;
use crate::stage::Version;
use crate::supervision::Decision;
use crate::views::WorkerState;

/// Whether a provider has something to give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Providing {
    /// It is none, has given everything, or waits for its time.
    #[default]
    No,
    /// It has, as far as is known.
    Ready,
}

impl Run {
    /// A new instance of a provider begins to provide.
    pub fn begin_providing(&mut self) {
        let version = self.version().clone();
        self.begin_providing_of(&version);
    }

    /// As [`Run::begin_providing`], for a version that comes next.
    pub fn begin_providing_of(&mut self, version: &Version) {
        let info = version.code.info();
        let provides = info.native && info.kind == PluginKind::Provider;
        self.body.providing = match provides && matches!(self.cell.place, Place::Worker(_)) {
            true => Providing::Ready,
            false => Providing::No,
        };
    }

    /// Whether it is the turn of a provider, as long as nothing else is to be done.
    pub fn is_to_provide(&self) -> bool {
        let stage = &self.cell.stage;
        let is_paused = stage.is_paused() || stage.runtime.is_paused();
        self.body.providing == Providing::Ready && !is_paused && !stage.runtime.is_stopping()
    }

    /// Lets the provider give what it has next, and commits it.
    pub async fn provide(&mut self) {
        self.cell.set_state(WorkerState::Busy);
        match self.try_to_provide().await {
            Ok(Provided::More) => self.succeeded(1).await,
            Ok(Provided::After(pause)) => {
                self.succeeded(1).await;
                self.provide_after(pause);
            }
            Ok(Provided::Done) => {
                self.succeeded(1).await;
                self.body.providing = Providing::No;
            }
            Err(failure) => self.provided_wrongly(failure),
        }
    }

    async fn try_to_provide(&mut self) -> Result<Provided, Failure> {
        if self.body.instance.is_none() {
            self.start_instance().await?;
        }
        let scope = self.own_scope();
        self.turn(&scope);
        let limit = self.call_limit();
        let instance = self.body.instance.as_mut().expect("it was started");
        let (_, turn) = self.desk.turn.as_mut().expect("it was begun");
        let provided = host::call(limit, instance.provide(turn)).await;
        if provided.is_err() {
            turn.clear();
        }
        let provided = provided?;
        self.commit(&scope).await?;
        Ok(provided)
    }

    fn provide_after(&mut self, pause: Duration) {
        self.body.providing = Providing::No;
        // Whoever forgets the worker need not wait for it.
        let cell = Arc::downgrade(&self.cell);
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            if let Some(cell) = cell.upgrade() {
                cell.control(Control::Provide);
            }
        });
    }

    /// Nothing of the turn happened. What it was to give comes again, from the committed position.
    fn provided_wrongly(&mut self, failure: Failure) {
        const HOST_PAUSE: Duration = Duration::from_millis(100);
        self.body.instance = None;
        self.note(&failure);
        if failure.kind == FailureKind::Host {
            self.pause(HOST_PAUSE);
            return;
        }
        let stage = self.cell.stage.clone();
        let (number, workers) = (self.cell.number(), stage.workers_count());
        let now = stage.runtime.clock.now();
        self.body.extras().failing = true;
        let mut supervisor = stage.supervisor.lock();
        let decision = supervisor.failed(number, workers, &failure, now);
        drop(supervisor);
        match decision {
            Decision::Resume => self.pause(HOST_PAUSE),
            Decision::Restart { workers, after } => {
                self.count_restart();
                stage.restart_affected(&self.cell, workers);
                self.pause(after.max(HOST_PAUSE));
            }
            Decision::Stop { workers } => {
                self.hold(WorkerState::Stopped);
                stage.stop_affected(&self.cell, workers);
            }
            Decision::Escalate { reason } => {
                self.hold(WorkerState::Waiting);
                stage.escalate(&reason);
            }
        }
    }
}

impl Cell {
    /// A provider that waited because nothing was to be pulled goes on.
    pub fn go_on_providing(self: &Arc<Self>) {
        self.control(Control::Look);
    }
}
