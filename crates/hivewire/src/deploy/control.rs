//! Stopping and starting again.

use std::sync::Arc;

use kernel::{Name, StageAddress, WorkerAddress};
use runtime::{HistoryEvent, StopTarget};

use super::slot::Slot;
use super::{ControlError, Deployments, UnknownStage};

impl Deployments {
    /// Stops a flow with all its stages, for good. Messages that wait stay in their queues.
    pub async fn stop_flow(&self, flow: &Name) -> Result<(), ControlError> {
        let stages: Vec<StageAddress> = self
            .addresses()
            .into_iter()
            .filter(|stage| stage.flow() == flow)
            .collect();
        if stages.is_empty() {
            return Err(UnknownStage::flow(flow.as_str(), &self.addresses()).into());
        }
        for stage in stages {
            self.stop_stage(&stage).await?;
        }
        Ok(())
    }

    /// Stops a stage for good. Messages that wait stay in its queue.
    pub async fn stop_stage(&self, stage: &StageAddress) -> Result<(), ControlError> {
        let (this, stage) = (self.this(), stage.clone());
        tokio::spawn(async move { this.stop_in_order(&stage).await }).await?
    }

    async fn stop_in_order(&self, stage: &StageAddress) -> Result<(), ControlError> {
        let slot = self.find_slot(stage);
        let _order = match &slot {
            Some(slot) => Some(slot.order.lock().await),
            None => None,
        };
        let running = self.is_running(stage);
        let record = slot
            .as_ref()
            .and_then(|slot| slot.state.lock().record.clone());
        if !running && record.is_none() {
            return Err(self.unknown(stage).into());
        }
        if let Some(slot) = &slot {
            slot.state.lock().watches.renew();
        }
        if running {
            let target = StopTarget::Stage(stage.clone());
            if let Err(error) = self.runtime.stop(&target).await {
                if let Some(slot) = &slot {
                    self.start_watching(stage, slot);
                }
                return Err(error.into());
            }
            self.look_at_history().await;
        } else if let Some(record) = &record {
            let (version, digest) = (record.version, record.component.digest.clone());
            self.note(stage, HistoryEvent::Stopped, version, digest, String::new())
                .await;
        }
        if let Some(slot) = &slot {
            slot.state.lock().record = None;
            self.store.remove(stage).await?;
            self.forget_if_empty(stage);
        }
        Ok(())
    }

    /// Stops one worker. It comes back with the next restart of its stage.
    pub async fn stop_worker(&self, worker: &WorkerAddress) -> Result<(), ControlError> {
        if !self.is_running(worker.stage()) {
            return Err(self.unknown(worker.stage()).into());
        }
        let target = StopTarget::Worker(worker.clone());
        Ok(self.runtime.stop(&target).await?)
    }

    /// Starts a stage, or one of its workers, again; with `reset`, without its state.
    pub async fn restart(
        &self,
        stage: &StageAddress,
        worker: Option<u32>,
        reset: bool,
    ) -> Result<(), ControlError> {
        let (this, stage) = (self.this(), stage.clone());
        tokio::spawn(async move { this.restart_in_order(&stage, worker, reset).await }).await?
    }

    async fn restart_in_order(
        &self,
        stage: &StageAddress,
        worker: Option<u32>,
        reset: bool,
    ) -> Result<(), ControlError> {
        let slot = self.find_slot(stage);
        let _order = match &slot {
            Some(slot) => Some(slot.order.lock().await),
            None => None,
        };
        if !self.is_running(stage) {
            let slot = slot.as_ref().ok_or_else(|| self.unknown(stage))?;
            self.load_now(stage, slot).await?;
            if !reset {
                return Ok(());
            }
        }
        self.runtime.restart(stage, worker, reset).await?;
        self.look_at_history().await;
        Ok(())
    }

    /// Tries once more what could not be loaded at the start of the node.
    async fn load_now(&self, stage: &StageAddress, slot: &Arc<Slot>) -> Result<(), ControlError> {
        let record = slot.state.lock().record.clone();
        let record = record.ok_or_else(|| self.unknown(stage))?;
        Ok(self.load_again(slot, record).await?)
    }
}
