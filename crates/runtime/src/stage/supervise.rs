//! What supervision decides for other workers than the one that failed.

use std::sync::Arc;

use super::Stage;
use crate::cell::Cell;
use crate::control::Control;
use crate::supervision::{Affected, Supervisor};
use crate::views::{HistoryEvent, StageState};

impl Stage {
    /// Restarts those whom a failure concerns besides the one that failed.
    pub fn restart_affected(&self, failed: &Arc<Cell>, affected: Affected) {
        for cell in self.others(failed, affected) {
            cell.control(Control::Restart {
                reset: false,
                done: None,
            });
        }
    }

    /// Stops those whom a failure concerns besides the one that failed.
    pub fn stop_affected(&self, failed: &Arc<Cell>, affected: Affected) {
        for cell in self.others(failed, affected) {
            drop(cell.ask(|done| Control::Stop {
                for_good: false,
                done,
            }));
        }
    }

    fn others(&self, failed: &Arc<Cell>, affected: Affected) -> Vec<Arc<Cell>> {
        let cells = self.cells.read();
        let range = affected.among(cells.len() as u32);
        let meant = &cells[range.start as usize..range.end as usize];
        let others = meant.iter().filter(|cell| !Arc::ptr_eq(cell, failed));
        others.cloned().collect()
    }

    /// The stage cannot help itself: its flow decides.
    pub fn escalate(self: &Arc<Self>, reason: &str) {
        if matches!(self.state(), StageState::Stopping | StageState::Failed) {
            return;
        }
        self.set_state(StageState::Failed);
        match self.runtime.flow_decides(&self.address, reason) {
            Some(after) => {
                let stage = self.clone();
                self.runtime.tokio.spawn(async move {
                    tokio::time::sleep(after).await;
                    stage.begin_anew();
                });
            }
            None => self.give_up(reason),
        }
    }

    /// All workers begin anew.
    fn begin_anew(&self) {
        if self.is_stopping() {
            return;
        }
        let rule = self.version().spec.supervision.clone();
        *self.supervisor.lock() = Supervisor::new(rule);
        self.set_state(StageState::Running);
        for cell in self.cells() {
            cell.control(Control::Restart {
                reset: false,
                done: None,
            });
        }
    }

    /// The stage takes no more messages until somebody restarts it; they wait in its queue.
    fn give_up(self: &Arc<Self>, reason: &str) {
        self.runtime
            .note(self, HistoryEvent::Failed, &self.version(), reason);
        for cell in self.cells() {
            drop(cell.ask(|done| Control::Stop {
                for_good: false,
                done,
            }));
        }
    }

    /// Somebody restarts a stage that gave up, or that runs: what failed before is forgotten.
    pub fn mark_running(&self) {
        let rule = self.version().spec.supervision.clone();
        *self.supervisor.lock() = Supervisor::new(rule);
        self.runtime.forgive(self.address.flow());
        self.set_state(StageState::Running);
    }
}
