//! All flows of a process: deploying, sending, asking, looking.

mod asks;
mod shared;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bus::Bus;
use kernel::worker::{Code, Incoming};
use kernel::{Address, Clock, Message, Name, StageAddress, WorkerAddress};

pub(crate) use self::shared::Shared;
use crate::control::Control;
use crate::error::{AskError, DeployError, ScaleError, SendError, ShareError, StopError};
use crate::logs::{LogReader, LogTap};
use crate::router::Router;
use crate::scaling::ScaleDecision;
use crate::settings::Settings;
use crate::spec::{Delivery, StageSpec};
use crate::stage::{NoRoom, Part, Plan, Stage};
use crate::views::{
    FlowView, HistoryEntry, HistoryEvent, SampleView, StageLoad, StageLook, StageState, StageView,
    WorkerView,
};

/// All flows of a process. Dropping it lets them go without saving; [`Runtime::shutdown`] saves.
pub struct Runtime {
    shared: Arc<Shared>,
    /// One deployment per stage at a time; different stages do not wait for each other.
    deploying: tokio::sync::Mutex<()>,
    housekeeping: Vec<tokio::task::JoinHandle<()>>,
}

/// What a deployment came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The number of the version in the history of the stage.
    pub version: u32,
    /// Whether it took over from another one.
    pub replaced: bool,
}

/// What is to be stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopTarget {
    /// A flow with all its stages.
    Flow(Name),
    /// A stage with all its workers.
    Stage(StageAddress),
    /// One worker; a restart brings it back.
    Worker(WorkerAddress),
}

impl Runtime {
    /// A runtime over this bus. It must be started within a tokio runtime, which it uses.
    pub fn start(bus: Arc<dyn Bus>, settings: Settings, clock: Arc<dyn Clock>) -> Arc<Self> {
        let shared = Arc::new(Shared::new(bus, settings, clock));
        let housekeeping = Shared::keep_house(&shared);
        Arc::new(Self {
            shared,
            deploying: tokio::sync::Mutex::default(),
            housekeeping,
        })
    }

    /// Deploys a stage: for the first time, or over the one that runs, whose workers then go over
    /// one by one with their state. On any failure what ran before goes on.
    pub async fn deploy(
        &self,
        spec: StageSpec,
        code: Arc<dyn Code>,
    ) -> Result<Deployed, DeployError> {
        self.deploy_with(spec, code, None, false).await
    }

    /// Deploys a stage of which other nodes have parts too, perhaps with a router of one's own.
    /// Nothing of it runs here before it is [taken](Runtime::take). A stage in memory has no parts: each node has
    /// one of its own, which runs at once.
    pub async fn deploy_shared(
        &self,
        spec: StageSpec,
        code: Arc<dyn Code>,
        router: Option<Arc<dyn Router>>,
    ) -> Result<Deployed, DeployError> {
        let is_shared = spec.delivery == Delivery::Durable;
        self.deploy_with(spec, code, router, is_shared).await
    }

    /// Deploys a stage with a router of one's own.
    pub async fn deploy_routed(
        &self,
        spec: StageSpec,
        code: Arc<dyn Code>,
        router: Arc<dyn Router>,
    ) -> Result<Deployed, DeployError> {
        self.deploy_with(spec, code, Some(router), false).await
    }

    async fn deploy_with(
        &self,
        spec: StageSpec,
        code: Arc<dyn Code>,
        router: Option<Arc<dyn Router>>,
        is_shared: bool,
    ) -> Result<Deployed, DeployError> {
        if self.shared.is_stopping() {
            return Err(DeployError::Stopping);
        }
        let _deploying = self.deploying.lock().await;
        let address = spec.address.clone();
        let info = code.info().clone();
        let running = self.shared.stage(&address);
        let number = self.shared.next_version(&address);
        let replaced = running.is_some();
        let plan = Plan {
            number,
            spec,
            code,
            router,
            is_shared,
        };
        let outcome = self.deploy_over(running, plan).await;
        let event = match (&outcome, replaced) {
            (Ok(()), false) => HistoryEvent::Deployed,
            (Ok(()), true) => HistoryEvent::Replaced,
            (Err(_), _) => HistoryEvent::Refused,
        };
        let detail = match &outcome {
            Ok(()) => format!("{} {}", info.name, info.version),
            Err(error) => error.to_string(),
        };
        self.shared
            .note_event(&address, event, number, &info.digest, &detail);
        outcome.map(|()| Deployed {
            version: number,
            replaced,
        })
    }

    async fn deploy_over(
        &self,
        running: Option<Arc<Stage>>,
        plan: Plan,
    ) -> Result<(), DeployError> {
        let is_same = |stage: &Stage| {
            stage.fits(&plan.spec) && plan.router.is_none() && stage.is_shared() == plan.is_shared
        };
        match running {
            Some(stage) if is_same(&stage) => {
                let replaced = stage.replace(plan.number, plan.spec, plan.code).await;
                self.shared.rewired();
                replaced
            }
            Some(stage) => self.rebuild(&stage, plan).await,
            None => {
                let address = plan.spec.address.clone();
                let is_memory = plan.spec.delivery == Delivery::Memory;
                let stage = Stage::start(self.shared.clone(), plan).await?;
                if is_memory {
                    self.shared.outputs.begin_anew(&address);
                }
                self.shared.add_stage(address, stage);
                Ok(())
            }
        }
    }

    /// A stage of another kind takes the place of one. Messages wait in the queue meanwhile.
    async fn rebuild(&self, stage: &Arc<Stage>, plan: Plan) -> Result<(), DeployError> {
        let address = stage.address.clone();
        let version = stage.version();
        if stage.is_shared() && !stage.fits(&plan.spec) {
            let reason = format!(
                "several nodes share {address}, so its kind and delivery cannot change while it runs: stop it first, or deploy under another name"
            );
            return Err(DeployError::Spec { reason });
        }
        let held = stage.held();
        let old = Plan {
            number: version.number,
            spec: version.spec.clone(),
            code: version.code.clone(),
            router: Some(stage.router()),
            is_shared: stage.is_shared(),
        };
        stage.is_followed.store(true, Ordering::Relaxed);
        let left = stage.stop(false).await;
        let shared = self.shared.clone();
        let before = stage;
        let (stage, outcome) = match Stage::start(shared.clone(), plan).await {
            Ok(stage) => (Ok(stage), Ok(())),
            Err(error) => (Stage::start(shared, old).await, Err(error)),
        };
        match stage {
            Ok(stage) => {
                stage.go_on_counting(before);
                let left = match stage.is_shared() {
                    true => left,
                    false => stage.take_over(left),
                };
                self.shared.add_stage(address, stage.clone());
                self.retake(&stage, held).await;
                let refused = stage.dispatch_all(left).await;
                stage.book.turned_down(refused.len() as u64);
                stage.bury(refused).await;
            }
            Err(error) => {
                tracing::error!(stage = %address, %error, "the old version did not come back");
                self.shared.remove_stage(&address);
            }
        }
        outcome
    }

    /// What a stage had before it was built anew belongs to it again.
    async fn retake(&self, stage: &Arc<Stage>, held: Vec<Part>) {
        let timeout = Duration::from_millis(self.shared.settings.commit_timeout_ms);
        for part in held {
            if let Err(error) = stage.take(part, timeout).await {
                tracing::warn!(stage = %stage.address, ?part, %error, "a part was lost on the way to a new version; it is taken again");
                self.shared.note_lost(&stage.address, part);
            }
        }
    }

    /// All parts of a stage, in an order that never changes. A stage in memory has none: nobody else can have any of it.
    pub fn parts(&self, stage: &StageAddress) -> Vec<Part> {
        let stage = self.shared.stage(stage);
        stage.map_or_else(Vec::new, |stage| stage.parts())
    }

    /// The places in the list of [parts](Runtime::parts) that belong to a worker.
    pub fn parts_of(&self, stage: &StageAddress, worker: u32) -> Vec<u32> {
        let stage = self.shared.stage(stage);
        stage.map_or_else(Vec::new, |stage| stage.parts_of(worker))
    }

    /// Lets a stage have so many workers, without stopping it.
    pub async fn scale(&self, stage: &StageAddress, workers: u32) -> Result<(), ScaleError> {
        let found = self.shared.stage(stage);
        let unknown = || ScaleError::Unknown {
            stage: stage.clone(),
        };
        found.ok_or_else(unknown)?.scale(workers).await
    }

    /// Gives a bucket of a keyed stage to another worker, without stopping either.
    pub async fn move_bucket(
        &self,
        stage: &StageAddress,
        bucket: u32,
        worker: u32,
    ) -> Result<(), ScaleError> {
        let found = self.shared.stage(stage);
        let unknown = || ScaleError::Unknown {
            stage: stage.clone(),
        };
        let stage = found.ok_or_else(unknown)?;
        stage.move_bucket(bucket, worker).await
    }

    /// What a stage decided about its size, the oldest first. None if there is no such stage.
    pub fn decisions(&self, stage: &StageAddress) -> Option<Vec<ScaleDecision>> {
        Some(self.shared.stage(stage)?.decisions())
    }

    /// Pulls no more messages for any stage. What was pulled before is worked off; all else waits
    /// in its queue.
    pub async fn pause(&self) {
        self.shared.set_paused(true);
        for stage in self.shared.stages() {
            stage.pause().await;
        }
    }

    /// Pulls again after a pause.
    pub async fn resume(&self) {
        self.shared.set_paused(false);
        for stage in self.shared.stages() {
            stage.go_on().await;
        }
    }

    /// From now on a stage takes nothing, or takes everything again. What comes meanwhile waits, and so do those who have no
    /// room for it. A stage that is not there is so as soon as it is deployed, until it is stopped.
    pub async fn pause_stage(&self, stage: &StageAddress, paused: bool) {
        self.shared.set_stage_paused(stage, paused);
        if let Some(stage) = self.shared.stage(stage) {
            stage.set_paused(paused).await;
        }
    }

    /// From now on so many messages of one queue may be on their way through workers.
    pub fn set_prefetch(&self, messages_max: u32) {
        if self.shared.prefetch_max() != messages_max {
            self.shared.set_prefetch_max(messages_max);
            for stage in self.shared.stages() {
                stage.resubscribe();
            }
        }
    }

    /// Takes a part of a shared stage and gives its epoch: from now on nobody else can commit in it.
    pub async fn take(&self, stage: &StageAddress, part: Part) -> Result<u64, ShareError> {
        let timeout = Duration::from_millis(self.shared.settings.commit_timeout_ms);
        self.shared_stage(stage)?.take(part, timeout).await
    }

    /// Lets go of a part of a shared stage, once everything in hand is committed.
    pub async fn release(&self, stage: &StageAddress, part: Part) -> Result<(), ShareError> {
        self.shared_stage(stage)?.release(part).await
    }

    fn shared_stage(&self, stage: &StageAddress) -> Result<Arc<Stage>, ShareError> {
        let found = self.shared.stage(stage);
        found.ok_or_else(|| ShareError::Unknown {
            stage: stage.clone(),
        })
    }

    /// The stage itself, for tests that look inside.
    #[cfg(test)]
    pub(crate) fn stage_itself(&self, stage: &StageAddress) -> Option<Arc<Stage>> {
        self.shared.stage(stage)
    }

    /// Waits until another node has taken a part that this one had.
    pub async fn next_lost(&self) -> (StageAddress, Part) {
        self.shared.next_lost().await
    }

    /// Sends a message. It returns once the message is in a mailbox or, if it goes over the bus,
    /// once the bus has given its promise.
    pub async fn send(&self, to: &Address, message: Message) -> Result<(), SendError> {
        self.shared.send(to, message).await
    }

    /// A shorter way to send to one stage many times.
    pub fn sender(&self, to: &StageAddress) -> Sender {
        Sender {
            to: to.clone(),
            shared: self.shared.clone(),
            stage: self.shared.stage(to),
        }
    }

    /// Asks and waits for the answer.
    pub async fn ask(
        &self,
        to: &Address,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, AskError> {
        self.shared.ask(to, message, timeout).await
    }

    /// All flows with their stages and the first of their workers.
    pub fn flows(&self) -> Vec<FlowView> {
        let mut flows: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let mut stages = self.shared.stages();
        stages.sort_by(|a, b| a.address.cmp(&b.address));
        for stage in stages {
            let flow = stage.address.flow().to_string();
            flows.entry(flow).or_default().push(stage.view());
        }
        let view = |(flow, stages)| FlowView { flow, stages };
        flows.into_iter().map(view).collect()
    }

    /// The addresses of all stages, in no particular order.
    pub fn addresses(&self) -> Vec<StageAddress> {
        let stages = self.shared.stages();
        stages.iter().map(|stage| stage.address.clone()).collect()
    }

    /// One stage with the first of its workers.
    pub fn stage(&self, stage: &StageAddress) -> Option<StageView> {
        Some(self.shared.stage(stage)?.view())
    }

    /// How a stage is.
    pub fn state(&self, stage: &StageAddress) -> Option<StageState> {
        Some(self.shared.stage(stage)?.state())
    }

    /// How busy each stage is, in any order.
    pub fn loads(&self) -> Vec<StageLoad> {
        let stages = self.shared.stages();
        stages.iter().map(|stage| stage.load()).collect()
    }

    /// How all stages are at this moment, or those of one flow, with what came to them and what they sent. What an edge
    /// has sent has come to its target in the same look.
    pub fn look(&self, flow: Option<&str>) -> Vec<StageLook> {
        let mut stages = self.shared.stages();
        stages.retain(|stage| flow.is_none_or(|flow| stage.address.flow().as_str() == flow));
        // First what was sent, then what came.
        let edges: Vec<_> = stages.iter().map(|stage| stage.edges()).collect();
        let both = stages.iter().zip(edges);
        both.map(|(stage, edges)| stage.look(edges)).collect()
    }

    /// What an output of a stage emitted of late, at most `count` messages. The first look begins the sample; none if there
    /// is no such output.
    pub fn sample(&self, stage: &StageAddress, output: &str, count: usize) -> Option<SampleView> {
        let version = self.shared.stage(stage)?.version();
        let output = version.outputs.get(output)?;
        Some(output.sampler.look(Instant::now(), count))
    }

    /// Workers of a stage, from the one with the number `from`.
    pub fn workers(&self, stage: &StageAddress, from: u32, max: usize) -> Option<Vec<WorkerView>> {
        let stage = self.shared.stage(stage)?;
        let cells = stage.cells();
        let page = cells.iter().skip(from as usize).take(max);
        Some(page.map(|cell| cell.view()).collect())
    }

    /// What happened, the oldest first.
    pub fn history(&self, stage: Option<&StageAddress>) -> Vec<HistoryEntry> {
        self.shared.history.list(stage)
    }

    /// From now on what workers write also goes there. Only the first tap gets anything.
    pub fn tap_logs(&self, tap: Arc<dyn LogTap>) {
        let _ = self.shared.log_tap.set(tap);
    }

    /// The log of a stage.
    pub fn logs(&self, stage: &StageAddress) -> Option<LogReader> {
        Some(self.shared.stage(stage)?.log.reader())
    }

    /// Stops something: its workers finish their batch and run their `stop`. What waits stays in
    /// the queue, and the state stays too.
    pub async fn stop(&self, target: &StopTarget) -> Result<(), StopError> {
        let _deploying = self.deploying.lock().await;
        let stages: Vec<Arc<Stage>> = match target {
            StopTarget::Flow(flow) => {
                let stages = self.shared.stages();
                let of_flow = |stage: &Arc<Stage>| stage.address.flow() == flow;
                stages.into_iter().filter(of_flow).collect()
            }
            StopTarget::Stage(stage) => self.shared.stage(stage).into_iter().collect(),
            StopTarget::Worker(worker) => return self.stop_worker(worker).await,
        };
        if stages.is_empty() {
            let what = match target {
                StopTarget::Flow(flow) => format!("flow {flow}"),
                StopTarget::Stage(stage) => format!("stage {stage}"),
                StopTarget::Worker(worker) => format!("worker {worker}"),
            };
            return Err(StopError::Unknown { what });
        }
        for stage in stages {
            let left = stage.stop(true).await;
            stage.bury(left).await;
            self.shared.remove_stage(&stage.address);
            self.shared.outputs.forget(&stage.address);
            self.shared.set_stage_paused(&stage.address, false);
            let version = stage.version();
            self.shared.note(
                &stage,
                HistoryEvent::Stopped,
                &version,
                "somebody stopped it",
            );
        }
        Ok(())
    }

    async fn stop_worker(&self, worker: &WorkerAddress) -> Result<(), StopError> {
        let cell = self.shared.stage(worker.stage());
        let cell = cell.and_then(|stage| stage.cell_at(worker));
        let Some(cell) = cell else {
            let what = format!("worker {worker}");
            return Err(StopError::Unknown { what });
        };
        let stopped = cell.ask(|done| Control::Stop {
            for_good: true,
            done,
        });
        // Whatever its own `stop` came to, it has stopped.
        let _ = stopped.await;
        Ok(())
    }

    /// Begins anew with all workers of a stage, or one, from the committed state or, with `reset`,
    /// without any.
    pub async fn restart(
        &self,
        stage: &StageAddress,
        worker: Option<u32>,
        reset: bool,
    ) -> Result<(), StopError> {
        let unknown = |what| StopError::Unknown { what };
        let running = self.shared.stage(stage);
        let running = running.ok_or_else(|| unknown(format!("stage {stage}")))?;
        let cells = match worker {
            None => running.cells(),
            Some(number) => match running.cell_at(&stage.worker(number)) {
                Some(cell) => vec![cell],
                None => return Err(unknown(format!("worker {stage}/{number}"))),
            },
        };
        running.mark_running();
        for cell in cells {
            let restarted = cell.ask(|done| Control::Restart {
                reset,
                done: Some(done),
            });
            if let Ok(Err(failure)) = restarted.await {
                return Err(StopError::Restart {
                    worker: cell.address(),
                    reason: failure.reason,
                });
            }
        }
        let detail = match (worker, reset) {
            (None, false) => "all workers".to_owned(),
            (None, true) => "all workers, without their state".to_owned(),
            (Some(number), false) => format!("worker {number}"),
            (Some(number), true) => format!("worker {number}, without its state"),
        };
        let version = running.version();
        self.shared
            .note(&running, HistoryEvent::Restarted, &version, &detail);
        Ok(())
    }

    /// Stops all stages and saves what their workers keep. After `patience` what still runs is
    /// left to itself.
    pub async fn shutdown(&self, patience: Duration) {
        self.shared.begin_stopping();
        let stages = self.shared.stages();
        let stop = async {
            let stops = stages.iter().map(|stage| {
                let stage = stage.clone();
                tokio::spawn(async move { (stage.address.clone(), stage.stop(false).await.len()) })
            });
            for stopped in stops.collect::<Vec<_>>() {
                match stopped.await {
                    Ok((_, 0)) => {}
                    Ok((stage, lost)) => {
                        tracing::warn!(%stage, lost, "messages in memory end with the process");
                    }
                    Err(error) => tracing::error!(%error, "stopping a stage broke off"),
                }
            }
        };
        if tokio::time::timeout(patience, stop).await.is_err() {
            tracing::warn!(
                "workers were still busy after {patience:?}; their last turns are not committed and come again"
            );
        }
        for stage in stages {
            self.shared.remove_stage(&stage.address);
        }
    }

    /// How many threads run turns now.
    pub fn turn_threads(&self) -> usize {
        self.shared.threads.count()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Providers would go on for ever.
        self.shared.begin_stopping();
        for task in &self.housekeeping {
            task.abort();
        }
    }
}

/// Sends to one stage, without looking it up each time.
#[derive(Clone)]
pub struct Sender {
    to: StageAddress,
    shared: Arc<Shared>,
    stage: Option<Arc<Stage>>,
}

impl Sender {
    /// Sends a message; see [`Runtime::send`].
    pub async fn send(&self, message: Message) -> Result<(), SendError> {
        let Some(stage) = self.usable() else {
            let to = self.to.clone().into();
            return Box::pin(self.shared.send(&to, message)).await;
        };
        match stage.try_dispatch(Incoming::new(message)) {
            Ok(()) => Ok(()),
            // Almost always there is room; this would make every send larger.
            Err(refused) => {
                let sent = Box::pin(stage.dispatch_refused(refused)).await;
                sent.map_err(|NoRoom { reason, .. }| SendError::NoRoom(reason))
            }
        }
    }

    /// Asks and waits for the answer; see [`Runtime::ask`].
    pub async fn ask(&self, message: Message, timeout: Duration) -> Result<Message, AskError> {
        if let Some(stage) = self.usable() {
            return self.shared.ask_stage(stage, message, timeout).await;
        }
        let to = self.to.clone().into();
        Box::pin(self.shared.ask(&to, message, timeout)).await
    }

    /// The stage, if messages go straight to it and it has not been replaced by another.
    fn usable(&self) -> Option<&Arc<Stage>> {
        self.stage
            .as_ref()
            .filter(|s| s.is_memory() && !s.is_stopping())
    }
}
