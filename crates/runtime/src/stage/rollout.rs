//! Hand-over to another version: checked off the path, worker by worker, and back again if it
//! fails.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kernel::worker::{Code, Failure, FailureKind, Start, Turn};

use super::life::{check_spec, failure_text, wait};
use super::{Stage, Version};
use crate::cell::Cell;
use crate::control::Control;
use crate::dry_run::DryHost;
use crate::error::DeployError;
use crate::spec::StageSpec;
use crate::views::{HistoryEvent, StageState};

/// How long one worker may take to finish its batch and go over.
const REPLACE_MAX: Duration = Duration::from_secs(60);

impl Stage {
    /// Whether a stage of this spec is the same stage, so that workers can go over one by one.
    pub fn fits(&self, spec: &StageSpec) -> bool {
        self.kind == spec.kind && self.delivery == spec.delivery
    }

    /// Goes over to other code or another spec. If that fails all workers run what they ran.
    pub async fn replace(
        self: &Arc<Self>,
        number: u32,
        spec: StageSpec,
        code: Arc<dyn Code>,
    ) -> Result<(), DeployError> {
        let _changing = self.changing.lock().await;
        check_spec(&spec, &*code)?;
        self.make_room(&spec);
        if let Err(error) = self.dry_run(&spec, &code).await {
            self.current.settle_spill();
            return Err(error);
        }
        let old = self.version();
        let new = self.new_version(number, spec, code);
        self.set_state(StageState::Handover);
        let replaced = self.replace_workers(&old, &new).await;
        self.set_state(StageState::Running);
        replaced?;
        *self.supervisor.lock() = crate::supervision::Supervisor::new(new.spec.supervision.clone());
        let workers = self.size_for(&old, &new);
        if let Err(error) = self.resize(&new, workers).await {
            // Everybody runs the new version; only the number of workers, or who has which bucket, is not what it should be.
            tracing::warn!(stage = %self.address, %error, "the stage has not the size it was given");
        }
        self.scale_by_itself();
        Ok(())
    }

    /// More room for a cycle holds at once: workers that stand still for lack of it could never go over.
    fn make_room(&self, spec: &StageSpec) {
        if self.current.raise_spill(spec.intake.spill_messages_max) {
            self.room.notify(usize::MAX);
        }
    }

    /// Starts the new code on a copy of real state, apart from everything that runs.
    async fn dry_run(&self, spec: &StageSpec, code: &Arc<dyn Code>) -> Result<(), DeployError> {
        let refuse = |failure: Failure| DeployError::DryRun {
            stage: self.address.clone(),
            reason: failure_text(&failure),
        };
        let Some(cell) = self.cells.read().first().cloned() else {
            return Ok(());
        };
        let asked = wait(cell.ask(Control::Snapshot));
        let snapshot = match tokio::time::timeout(REPLACE_MAX, asked).await {
            Ok(Ok(snapshot)) => snapshot,
            Err(_) => {
                let why = self.standing.why();
                let why = why.map_or(String::new(), |why| format!(", for {why}"));
                return Err(refuse(Failure::of(
                    FailureKind::Deadline,
                    format!(
                        "{} did not end what it does within {REPLACE_MAX:?}{why}",
                        cell.address()
                    ),
                )));
            }
            // An instance that cannot save is broken; the new version may well be the cure.
            Ok(Err(failure)) => {
                tracing::warn!(worker = %cell.address(), reason = %failure, "the running version cannot save its state");
                Bytes::new()
            }
        };
        let (code, spec, address) = (code.clone(), spec.clone(), cell.address());
        let store = DryHost::new(self.runtime.clone(), cell);
        let tried = tokio::task::spawn_blocking(move || {
            let start = Start {
                address,
                limits: spec.instance_limits.clone(),
            };
            let run = async {
                let mut instance = code.instantiate(&start)?;
                let mut turn = Turn::new(Arc::new(store), spec.turn_limits.clone());
                instance.init(spec.args.as_bytes(), &mut turn).await?;
                match snapshot.is_empty() {
                    true => Ok(()),
                    false => instance.load(snapshot).await,
                }
            };
            futures_lite::future::block_on(run)
        });
        match tokio::time::timeout(REPLACE_MAX, tried).await {
            Ok(Ok(tried)) => tried.map_err(refuse),
            Ok(Err(panicked)) => Err(refuse(Failure::of(
                FailureKind::Trap,
                format!("the worker panicked: {panicked}"),
            ))),
            Err(_) => Err(refuse(Failure::of(
                FailureKind::Deadline,
                format!("it was not ready after {REPLACE_MAX:?}"),
            ))),
        }
    }

    async fn replace_workers(
        self: &Arc<Self>,
        old: &Arc<Version>,
        new: &Arc<Version>,
    ) -> Result<(), DeployError> {
        self.current.set(new);
        let mut gone_over = Vec::new();
        for cell in self.everybody() {
            let replaced = tokio::time::timeout(REPLACE_MAX, go_over(&cell, new, true)).await;
            let failure = match replaced {
                Ok(Ok(())) => {
                    gone_over.push(cell);
                    continue;
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::of(
                    FailureKind::Deadline,
                    format!("{} did not go over within {REPLACE_MAX:?}", cell.address()),
                ),
            };
            self.current.set(old);
            for cell in &gone_over {
                go_back(cell, old).await;
            }
            return Err(DeployError::HandOver {
                stage: self.address.clone(),
                worker: cell.address(),
                reason: failure_text(&failure),
            });
        }
        Ok(())
    }

    /// Workers, their children, and the owner.
    fn everybody(&self) -> Vec<Arc<Cell>> {
        let mut all = self.cells();
        all.extend(self.children.lock().values().cloned());
        all.extend(self.owner.lock().clone());
        all
    }

    /// A new version failed on probation and the old one did not: everybody goes back.
    pub fn roll_back(
        self: &Arc<Self>,
        new: &Arc<Version>,
        old: &Arc<Version>,
        by: &Arc<Cell>,
        reason: &str,
    ) {
        if !self.current.set_if(old, |now| now.number == new.number) {
            // Somebody else was first.
            return;
        }
        let detail = format!("{} failed on probation: {reason}", by.address());
        self.runtime
            .note(self, HistoryEvent::RolledBack, new, &detail);
        let (stage, old) = (self.clone(), old.clone());
        self.runtime.tokio.spawn(async move {
            let _changing = stage.changing.lock().await;
            for cell in stage.everybody() {
                go_back(&cell, &old).await;
            }
        });
    }
}

async fn go_over(cell: &Arc<Cell>, to: &Arc<Version>, on_probation: bool) -> Result<(), Failure> {
    let version = to.clone();
    wait(cell.ask(|done| Control::Replace {
        version,
        on_probation,
        done,
    }))
    .await
}

/// Going back cannot be refused: a worker that cannot save begins anew from its committed state.
async fn go_back(cell: &Arc<Cell>, to: &Arc<Version>) {
    if let Err(failure) = go_over(cell, to, false).await {
        tracing::warn!(worker = %cell.address(), reason = %failure, "a worker could not hand over its state on the way back");
        let version = to.clone();
        cell.control(Control::Force { version });
    }
}
