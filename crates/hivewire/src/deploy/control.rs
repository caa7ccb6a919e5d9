//! Stopping and starting again.

use std::sync::Arc;

use kernel::{Name, StageAddress, WorkerAddress};
use runtime::{HistoryEvent, StopTarget};

use super::expected::Expected;
use super::sharing::Restarts;
use super::slot::Slot;
use super::store::Record;
use super::{ControlError, Deployments, UnknownStage};
use crate::events::Event;

impl Deployments {
    /// Stops a flow with all its stages, for good. Messages that wait stay in their queues.
    pub async fn stop_flow(&self, flow: &Name) -> Result<(), ControlError> {
        let stages: Vec<StageAddress> = self
            .known_addresses()
            .await?
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
        self.stop_expected(stage, Expected::Anything).await
    }

    /// Stops a stage for good, if it is as somebody expects.
    pub async fn stop_expected(
        &self,
        stage: &StageAddress,
        expected: Expected,
    ) -> Result<(), ControlError> {
        let (this, stage) = (self.this(), stage.clone());
        tokio::spawn(async move { this.stop_in_order(&stage, &expected).await }).await?
    }

    /// Ends what one node has of a stage. The stage goes on with the replicas of others; without any it
    /// stops for good.
    pub async fn stop_replica(&self, stage: &StageAddress, of: &str) -> Result<(), ControlError> {
        let (this, stage, of) = (self.this(), stage.clone(), of.to_owned());
        tokio::spawn(async move { this.stop_replica_in_order(&stage, &of).await }).await?
    }

    async fn stop_replica_in_order(
        &self,
        stage: &StageAddress,
        of: &str,
    ) -> Result<(), ControlError> {
        if self.has_other_replicas(stage, of) {
            let changed = self.change_shared(stage, |record| record.end_replica(of));
            // It may have become the last one in the meantime.
            if !changed.await?.places.replicas.contains_key(of) {
                return Ok(());
            }
        }
        self.stop_in_order(stage, &Expected::Anything).await
    }

    fn has_other_replicas(&self, stage: &StageAddress, of: &str) -> bool {
        let Some(slot) = self.find_slot(stage) else {
            return false;
        };
        let state = slot.state.lock();
        let record = state.record.as_ref();
        record.is_some_and(|record| record.places.replicas.keys().any(|node| node != of))
    }

    /// All stages: of this node, or of all nodes that share them.
    async fn known_addresses(&self) -> Result<Vec<StageAddress>, ControlError> {
        let Some(sharing) = &self.sharing else {
            return Ok(self.addresses());
        };
        let records = sharing.definitions().await?;
        let shared = records.into_iter().map(|record| record.spec.address);
        let mut all: Vec<_> = shared.chain(self.addresses()).collect();
        all.sort();
        all.dedup();
        Ok(all)
    }

    async fn stop_in_order(
        &self,
        stage: &StageAddress,
        expected: &Expected,
    ) -> Result<(), ControlError> {
        if let Some(sharing) = &self.sharing
            && sharing.definition(stage).await?.1.is_some()
        {
            return self.stop_shared(sharing, stage, expected).await;
        }
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
        expected.check(stage, record.as_ref())?;
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
        if let Some(sharing) = &self.sharing
            && sharing.definition(stage).await?.1.is_some()
        {
            let again = |record: &mut Record| {
                let restarts = &mut record.restarts;
                *restarts = Restarts {
                    count: restarts.count + 1,
                    worker,
                    reset,
                };
            };
            let record = self.change_shared(stage, again).await?;
            let restarted = Event::stage(stage, "restarted").with("version", record.version);
            self.tell(restarted.with("worker", worker).with("reset", reset));
            return Ok(());
        }
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

    /// Gives a stage another number of workers, while messages flow. Gives the version.
    pub async fn scale(
        &self,
        stage: &StageAddress,
        workers: u32,
        expected: Expected,
    ) -> Result<u32, ControlError> {
        let (this, stage) = (self.this(), stage.clone());
        let scaling = tokio::spawn(async move {
            let version = this.scale_in_order(&stage, workers, &expected).await?;
            let scaled = Event::stage(&stage, "scaled").with("version", version);
            this.tell(scaled.with("workers", workers));
            Ok(version)
        });
        scaling.await?
    }

    async fn scale_in_order(
        &self,
        stage: &StageAddress,
        workers: u32,
        expected: &Expected,
    ) -> Result<u32, ControlError> {
        if self.sharing.is_some() {
            let scaled = self.change_expected(stage, expected, |record| {
                if record.spec.workers == workers {
                    return;
                }
                record.spec.workers = workers;
                record.version += 1;
                // Parts that were moved by hand may be no more.
                record.places.moved.clear();
                record.places.replicas.clear();
            });
            return Ok(scaled.await?.version);
        }
        let slot = self.find_slot(stage).ok_or_else(|| self.unknown(stage))?;
        let _order = slot.order.lock().await;
        let record = slot.state.lock().record.clone();
        let record = record.ok_or_else(|| self.unknown(stage))?;
        expected.check(stage, Some(&record))?;
        Ok(self.put_scaled(&slot, &record, workers).await?)
    }

    /// From now on a stage takes nothing, on all nodes and also after a restart; or it takes everything again.
    pub async fn pause(&self, stage: &StageAddress, paused: bool) -> Result<(), ControlError> {
        let (this, stage) = (self.this(), stage.clone());
        let pausing = tokio::spawn(async move {
            this.pause_in_order(&stage, paused).await?;
            let event = if paused { "paused" } else { "resumed" };
            this.tell(Event::stage(&stage, event));
            Ok(())
        });
        pausing.await?
    }

    async fn pause_in_order(&self, stage: &StageAddress, paused: bool) -> Result<(), ControlError> {
        if let Some(sharing) = &self.sharing
            && sharing.definition(stage).await?.1.is_some()
        {
            let changed = self.change_shared(stage, |record| record.paused = paused);
            return changed.await.map(|_| ());
        }
        let slot = self.find_slot(stage);
        let _order = match &slot {
            Some(slot) => Some(slot.order.lock().await),
            None => None,
        };
        let record = slot.as_ref().and_then(|slot| {
            let mut state = slot.state.lock();
            let record = state.record.as_mut()?;
            record.paused = paused;
            Some(record.clone())
        });
        if record.is_none() && !self.is_running(stage) {
            return Err(self.unknown(stage).into());
        }
        // Of code that is linked in there is no record: whoever embeds the node deploys and pauses it at each start.
        if let Some(record) = &record {
            self.store.put(record).await?;
        }
        self.runtime.pause_stage(stage, paused).await;
        Ok(())
    }

    /// Tries once more what could not be loaded at the start of the node.
    async fn load_now(&self, stage: &StageAddress, slot: &Arc<Slot>) -> Result<(), ControlError> {
        let record = slot.state.lock().record.clone();
        let record = record.ok_or_else(|| self.unknown(stage))?;
        Ok(self.load_again(slot, record).await?)
    }
}
