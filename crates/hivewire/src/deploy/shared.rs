//! Deployments of a node among several: the definition of a stage is a document that all nodes
//! read, and each applies it to its own part.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bus::{BusError, QueueSettings};
use control::{Agent, Deployer, Member, NodeSeen, NodeSettings, Order, Share};
use kernel::{Name, StageAddress, WorkerAddress};
use runtime::StopTarget;
use tokio::time::timeout;

use super::change::Plan;
use super::expected::Expected;
use super::sharing::{Applied, Places, Sharing};
use super::slot::{Numbers, Slot};
use super::source::Component;
use super::store::{Record, Store};
use crate::events::Event;
use crate::load::Load;

use super::{ControlError, DeployError, DeployedStage, Deployments, Replica, StoreError};

/// How long this node may take to apply a definition.
const APPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the bus may take to make a queue.
const DECLARE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long it is waited until all nodes that live have come to it.
const ALL_TIMEOUT: Duration = Duration::from_secs(3);
const ALL_LOOK: Duration = Duration::from_millis(10);
/// Stands for the end of a stage, which comes after every revision.
const GONE: u64 = u64::MAX;

/// What is moved to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveTarget {
    /// All stages of a flow.
    Flow(Name),
    /// A stage.
    Stage(StageAddress),
    /// One worker, with its buckets if its stage is keyed.
    Worker(WorkerAddress),
}

impl Deployments {
    /// Begins to take part in what the nodes share. Nothing runs here before.
    pub async fn join(self: &Arc<Self>, settings: NodeSettings) -> Result<(), BusError> {
        let Some(sharing) = &self.sharing else {
            return Ok(());
        };
        let agent = Agent::start(
            self.bus.clone(),
            self.runtime.clone(),
            Arc::new(Local {
                deployments: Arc::downgrade(self),
                load: Load::new(),
            }),
            self.clock.clone(),
            settings,
        );
        // A node joins once.
        let _ = sharing.agent.set(agent.await?);
        Ok(())
    }

    /// What ran here while the node stood alone becomes what all nodes share, with its state.
    pub async fn adopt(&self, data: &Path) -> Result<(), StoreError> {
        let Some(sharing) = &self.sharing else {
            return Ok(());
        };
        let alone = Store::open(self.bus.clone(), data, None).await?;
        for record in alone.read().await?.records {
            let stage = record.spec.address.clone();
            if sharing.definition(&stage).await?.0 == 0 {
                for digest in record.digests() {
                    let component = self.store.load_component(digest).await?;
                    sharing.save_component(&component).await?;
                }
                let watcher = record.watch.then(|| sharing.node.to_string());
                let shared = Record { watcher, ..record };
                sharing.put(&stage, 0, Some(&shared)).await?;
            }
            alone.remove(&stage).await?;
        }
        self.share_plugins().await
    }

    /// What sees to this node's part, if it is one among several.
    pub fn agent(&self) -> Option<&Agent> {
        self.sharing.as_ref()?.agent.get()
    }

    fn agent_or_alone(&self) -> Result<&Agent, ControlError> {
        self.agent().ok_or(ControlError::Alone)
    }

    /// All nodes that were heard of, and whether they live.
    pub fn nodes(&self) -> Result<Vec<(Member, bool)>, ControlError> {
        Ok(self.agent_or_alone()?.known())
    }

    /// Tells a node what to be from now on.
    pub async fn order(
        &self,
        node: &Name,
        change: impl Fn(&mut Order) + Send,
    ) -> Result<Order, ControlError> {
        let agent = self.agent_or_alone()?;
        check_node(agent, node)?;
        Ok(agent.order(node, change).await?)
    }

    /// Moves something to a node, which takes it over while messages flow. Returns once all nodes
    /// can know; the move itself takes a little longer. Gives the stages.
    pub async fn move_to(
        &self,
        target: &MoveTarget,
        node: &Name,
    ) -> Result<Vec<StageAddress>, ControlError> {
        let agent = self.agent_or_alone()?;
        check_node(agent, node)?;
        let stages = match target {
            MoveTarget::Flow(flow) => {
                let all = self.shared_stages().await?;
                let of_flow: Vec<_> = all.into_iter().filter(|s| s.flow() == flow).collect();
                if of_flow.is_empty() {
                    return Err(self.unknown_flow(flow).into());
                }
                of_flow
            }
            MoveTarget::Stage(stage) => vec![stage.clone()],
            MoveTarget::Worker(worker) => vec![worker.stage().clone()],
        };
        for stage in &stages {
            let parts = match target {
                MoveTarget::Worker(worker) => Some(self.parts_of(worker)?),
                _ => None,
            };
            let changed = self.change_shared(stage, |record| {
                let places = &mut record.places;
                match &parts {
                    Some(parts) => {
                        let moved = parts.iter().map(|part| (*part, node.to_string()));
                        places.moved.extend(moved);
                        places.replicas.clear();
                    }
                    None => places.name(vec![node.to_string()]),
                }
            });
            changed.await?;
            let moved = Event::stage(stage, "moved").with("to", node.as_str());
            let moved = match target {
                MoveTarget::Worker(worker) => moved.with("worker", worker.to_string()),
                _ => moved,
            };
            self.tell(moved);
        }
        Ok(stages)
    }

    fn parts_of(&self, worker: &WorkerAddress) -> Result<Vec<u32>, ControlError> {
        let stage = worker.stage();
        let parts = self.runtime.parts_of(stage, worker.worker());
        match parts.is_empty() {
            true if self.is_in_memory(stage) => Err(DeployError::Request(format!(
                "{stage} is in memory, so each of its nodes has all of its workers: move the stage"
            ))
            .into()),
            true if !self.is_running(stage) => Err(self.unknown(stage).into()),
            true => Err(ControlError::UnknownWorker {
                worker: worker.clone(),
            }),
            false => Ok(parts),
        }
    }

    async fn shared_stages(&self) -> Result<Vec<StageAddress>, ControlError> {
        let sharing = self.sharing.as_ref().ok_or(ControlError::Alone)?;
        let records = sharing.definitions().await?;
        Ok(records.into_iter().map(|r| r.spec.address).collect())
    }

    /// Changes the definition of a shared stage and waits until this node has applied it.
    pub(super) async fn change_shared(
        &self,
        stage: &StageAddress,
        change: impl Fn(&mut Record) + Send + Sync,
    ) -> Result<Record, ControlError> {
        let expected = Expected::Anything;
        self.change_expected(stage, &expected, change).await
    }

    /// The same, if what is there is as somebody expects.
    pub(super) async fn change_expected(
        &self,
        stage: &StageAddress,
        expected: &Expected,
        change: impl Fn(&mut Record) + Send + Sync,
    ) -> Result<Record, ControlError> {
        let sharing = self.sharing.as_ref().ok_or(ControlError::Alone)?;
        let slot = self.slot(stage);
        let _order = slot.order.lock().await;
        let mut fits = Ok(());
        let changed = sharing.change(stage, |record| {
            fits = expected.check(stage, Some(record));
            change(record);
            fits.is_ok()
        });
        let changed = changed.await?;
        fits?;
        let (revision, record) = changed.ok_or_else(|| self.unknown(stage))?;
        match slot.applied(revision).await? {
            None => {
                self.all_know(stage, revision).await;
                Ok(record)
            }
            Some(reason) => Err(DeployError::Taken { reason }.into()),
        }
    }

    /// Writes a plan into the definition, and waits until this node has applied it.
    pub(super) async fn define(
        &self,
        sharing: &Sharing,
        slot: &Slot,
        mut plan: Plan,
        expected: &Expected,
    ) -> Result<DeployedStage, DeployError> {
        let stage = plan.spec.address.clone();
        let digest = plan.component.0.digest.clone();
        if let Err(error) = self.share_components(sharing, &plan).await {
            self.refused(&stage, digest, &error).await;
            return Err(error);
        }
        let (revision, was) = sharing.definition(&stage).await?;
        expected.check(&stage, was.as_ref())?;
        let last = self.histories.lock().last_version(&stage);
        let version = 1 + was.as_ref().map_or(last, |was| was.version.max(last));
        if let Some(Replica { of, on }) = plan.replica.take() {
            // Beside what others have there by now.
            plan.places = was
                .as_ref()
                .map_or_else(Places::default, |was| was.places.clone());
            plan.places.set_replica(&mut plan.spec, &of, on);
        }
        let mut record = plan.record(version, was.clone());
        if let Some(was) = was.as_ref().filter(|was| was.runs_the_same(&record)) {
            // Only where it runs is new, or who watches it.
            record.version = was.version;
            record.previous.clone_from(&was.previous);
        }
        if let Some(was) = &was
            && was.says_the_same(&record)
            && self.is_watched(was)
            && (self.is_sound(&stage) || !sharing.runs_here(was))
        {
            return Ok(DeployedStage {
                version: was.version,
                replaced: true,
                changed: false,
                digest,
            });
        }
        record.watcher = record.watch.then(|| sharing.node.to_string());
        if let Some(was) = &was {
            record.restarts = was.restarts.clone();
        }
        let put = sharing.put(&stage, revision, Some(&record)).await?;
        let put = put.ok_or_else(|| StoreError::Changed {
            stage: stage.clone(),
        })?;
        if let Some(reason) = slot.applied(put).await? {
            // If somebody else was faster, his word counts.
            sharing.put(&stage, put, was.as_ref()).await?;
            return Err(DeployError::Taken { reason });
        }
        let event = match &was {
            None => "deployed",
            Some(was) if was.version == record.version => "moved",
            Some(_) => "replaced",
        };
        let event = Event::stage(&stage, event).with("version", record.version);
        self.tell(event.with("digest", digest.as_str()));
        self.all_know(&stage, put).await;
        if let Some(was) = &was {
            self.forget_shared(sharing, was).await;
        }
        Ok(DeployedStage {
            version: record.version,
            replaced: was.is_some(),
            changed: true,
            digest,
        })
    }

    /// Whether the node that is to watch the sources of a stage lives.
    fn is_watched(&self, record: &Record) -> bool {
        let nodes = self.agent().map(Agent::states).unwrap_or_default();
        let is_watcher =
            |node: &NodeSeen| node.lives && Some(node.name.as_str()) == record.watcher.as_deref();
        !record.watch || nodes.iter().any(is_watcher)
    }

    /// Waits a little until all nodes that live have applied a revision. One that cannot says so in its
    /// log and gets nothing of the stage; it is not waited for any longer.
    async fn all_know(&self, stage: &StageAddress, revision: u64) {
        let Some(agent) = self.agent() else {
            return;
        };
        let all_know = async {
            while !agent.all_know(stage, revision) {
                tokio::time::sleep(ALL_LOOK).await;
            }
        };
        if timeout(ALL_TIMEOUT, all_know).await.is_err() {
            tracing::warn!(%stage, "some nodes have not come to the new definition yet");
        }
    }

    /// Whatever a record needed that no other needs goes.
    async fn forget_shared(&self, sharing: &Sharing, was: &Record) {
        let digests: HashSet<String> = was.digests().cloned().collect();
        if let Err(error) = sharing.forget_components(digests).await {
            tracing::warn!(%error, "components that nobody needs stay in the store");
        }
    }

    /// Checks that the components fit, and puts them where all nodes find them.
    async fn share_components(&self, sharing: &Sharing, plan: &Plan) -> Result<(), DeployError> {
        self.loader.worker(&plan.component.0).await?;
        if let Some((router, _)) = &plan.router {
            self.loader.router(router).await?;
        }
        let router = plan.router.iter();
        for (component, _) in router.chain([&plan.component]) {
            self.store.save_component(component.clone()).await?;
            sharing.save_component(component).await?;
        }
        Ok(())
    }

    /// A component of this digest: from this node's folder or from the other nodes.
    async fn find_component(
        &self,
        sharing: &Sharing,
        digest: &str,
    ) -> Result<Component, DeployError> {
        if let Ok(component) = self.store.load_component(digest).await {
            return Ok(component);
        }
        let component = sharing.load_component(digest).await?;
        self.store.save_component(component.clone()).await?;
        Ok(component)
    }

    /// Stops a shared stage for good, on all nodes.
    pub(super) async fn stop_shared(
        &self,
        sharing: &Sharing,
        stage: &StageAddress,
        expected: &Expected,
    ) -> Result<(), ControlError> {
        let slot = self.slot(stage);
        let order = slot.order.lock().await;
        let was = loop {
            let (revision, record) = sharing.definition(stage).await?;
            let Some(record) = record else {
                drop(order);
                self.forget_if_empty(stage);
                return Err(self.unknown(stage).into());
            };
            expected.check(stage, Some(&record))?;
            if sharing.put(stage, revision, None).await?.is_some() {
                break record;
            }
        };
        let is_known = slot.state.lock().record.is_some();
        if is_known {
            slot.applied(GONE).await?;
        }
        self.tell(Event::stage(stage, "stopped").with("version", was.version));
        drop(order);
        self.forget_if_empty(stage);
        self.forget_shared(sharing, &was).await;
        Ok(())
    }

    /// Stores what became of a record by itself, unless it is about an older version by now.
    pub(super) async fn keep_record(
        &self,
        version: u32,
        record: &Record,
    ) -> Result<(), StoreError> {
        let Some(sharing) = &self.sharing else {
            return self.store.put(record).await;
        };
        let change = |stored: &mut Record| {
            let is_current = stored.version == version;
            if is_current {
                stored.clone_from(record);
            }
            is_current
        };
        sharing.change(&record.spec.address, change).await?;
        Ok(())
    }

    async fn apply(&self, sharing: &Sharing, record: Record) -> Result<(), DeployError> {
        let stage = record.spec.address.clone();
        let slot = self.slot(&stage);
        let was = slot.state.lock().record.clone();
        let runs = |was: &Record| was.runs_the_same(&record) && self.is_running(&stage);
        // One that comes is paused from its beginning.
        if record.paused {
            self.runtime.pause_stage(&stage, true).await;
        }
        if !sharing.runs_here(&record) {
            self.run_elsewhere(&record).await?;
        } else if !was.as_ref().is_some_and(runs) {
            self.run_shared(sharing, &record).await?;
        } else if was.is_some_and(|was| was.restarts != record.restarts) {
            let (worker, reset) = (record.restarts.worker, record.restarts.reset);
            let restarted = self.runtime.restart(&stage, worker, reset).await;
            restarted.map_err(|error| DeployError::Taken {
                reason: error.to_string(),
            })?;
        }
        self.runtime.pause_stage(&stage, record.paused).await;
        slot.state.lock().record = Some(record);
        self.start_watching(&stage, &slot);
        self.look_at_history().await;
        Ok(())
    }

    async fn run_shared(&self, sharing: &Sharing, record: &Record) -> Result<(), DeployError> {
        let component = self.find_component(sharing, &record.component.digest);
        let code = self.loader.worker(&component.await?).await?;
        let router = match &record.router {
            Some(router) => {
                let component = self.find_component(sharing, &router.digest).await?;
                Some(self.loader.router(&component).await?)
            }
            None => None,
        };
        let spec = record.spec.clone();
        let deployed = self.runtime.deploy_shared(spec, code, router).await;
        let deployed = deployed.map_err(DeployError::Stage)?;
        let numbers = Numbers::called(deployed.version, record.version);
        let stage = record.spec.address.clone();
        self.numbers.lock().insert(stage, numbers);
        Ok(())
    }

    /// A stage in memory of which this node has nothing: what is sent to it goes over its queue to the nodes that have it.
    async fn run_elsewhere(&self, record: &Record) -> Result<(), DeployError> {
        let stage = &record.spec.address;
        self.stop_here(stage).await;
        let settings = QueueSettings {
            durable: false,
            ..QueueSettings::default()
        };
        let queue = stage.queue();
        let declared = self.bus.declare(&queue, &settings, DECLARE_TIMEOUT);
        Ok(declared.await.map_err(StoreError::Bus)?)
    }

    async fn stop_here(&self, stage: &StageAddress) {
        let target = StopTarget::Stage(stage.clone());
        if self.is_running(stage)
            && let Err(error) = self.runtime.stop(&target).await
        {
            tracing::error!(%stage, %error, "a stage that this node is not to have could not be stopped");
        }
    }

    async fn remove_shared(&self, stage: &StageAddress) {
        let slot = self.slot(stage);
        slot.state.lock().watches.renew();
        self.stop_here(stage).await;
        slot.state.lock().record = None;
        slot.applied.send_replace(Applied {
            revision: GONE,
            failure: None,
        });
        self.look_at_history().await;
        self.forget_if_empty(stage);
    }
}

fn check_node(agent: &Agent, node: &Name) -> Result<(), ControlError> {
    let known = agent.states();
    let known: Vec<String> = known.into_iter().map(|seen| seen.name).collect();
    match known.iter().any(|known| known == node.as_str()) {
        true => Ok(()),
        false => Err(ControlError::UnknownNode {
            node: node.to_string(),
            known,
        }),
    }
}

impl Slot {
    /// Waits until this node has applied a revision; why it could not, if so.
    async fn applied(&self, revision: u64) -> Result<Option<String>, DeployError> {
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|applied| applied.revision >= revision);
        match timeout(APPLY_TIMEOUT, reached).await {
            Ok(Ok(applied)) => Ok(applied.failure.clone()),
            _ => Err(DeployError::Late {
                seconds: APPLY_TIMEOUT.as_secs(),
            }),
        }
    }
}

/// Applies definitions to this node.
struct Local {
    deployments: Weak<Deployments>,
    load: Load,
}

#[async_trait]
impl Deployer for Local {
    async fn deploy(
        &self,
        stage: &StageAddress,
        revision: u64,
        definition: &[u8],
    ) -> Result<Share, String> {
        let deployments = self.deployments.upgrade().ok_or("this node stops")?;
        let sharing = deployments.sharing.as_ref().ok_or("this node is alone")?;
        let record: Record = serde_json::from_slice(definition).map_err(|e| e.to_string())?;
        let (places, version) = (record.places.clone(), record.version);
        let digest = record.component.digest.clone();
        let whole = record.is_memory() && sharing.runs_here(&record);
        let failure = match deployments.apply(sharing, record).await {
            Ok(()) => None,
            Err(error) => {
                deployments.refused(stage, digest, &error).await;
                Some(error.to_string())
            }
        };
        let slot = deployments.slot(stage);
        slot.state.lock().failure.clone_from(&failure);
        slot.applied.send_replace(Applied {
            revision,
            failure: failure.clone(),
        });
        match failure {
            Some(reason) => Err(reason),
            None => Ok(Share {
                revision,
                version,
                change: 0,
                count: deployments.runtime.parts(stage).len() as u32,
                whole,
                on: places.on,
                moved: places.moved,
                strict: places.strict,
            }),
        }
    }

    async fn remove(&self, stage: &StageAddress) {
        if let Some(deployments) = self.deployments.upgrade() {
            deployments.remove_shared(stage).await;
        }
    }

    fn load(&self) -> u32 {
        self.load.hundredths()
    }
}
