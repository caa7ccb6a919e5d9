//! What all stages of a process share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bus::Bus;
use kernel::worker::{Failure, Ticket};
use kernel::{Address, Clock, Name, StageAddress};
use parking_lot::{Mutex, RwLock};
use tokio::task::JoinHandle;

use super::asks::Replies;
use crate::alarm_clock::AlarmClock;
use crate::cycles::cycles;
use crate::history::History;
use crate::logs::Tapped;
use crate::outputs::KnownOutputs;
use crate::settings::Settings;
use crate::stage::{Part, Stage, Version};
use crate::supervision::{Decision, SupervisionRule, Supervisor};
use crate::turn_threads::TurnThreads;
use crate::views::{HistoryEntry, HistoryEvent};
use crate::waiting::Waiters;

const MEASURE_EVERY: Duration = Duration::from_secs(1);

/// What all stages of a process share.
pub(crate) struct Shared {
    pub bus: Arc<dyn Bus>,
    pub settings: Settings,
    pub clock: Arc<dyn Clock>,
    pub threads: TurnThreads,
    pub tokio: tokio::runtime::Handle,
    pub alarms: Arc<AlarmClock>,
    pub waiters: Arc<Waiters>,
    pub replies: Replies,
    pub history: History,
    pub log_tap: Tapped,
    pub outputs: KnownOutputs,
    /// Names this process in addresses that only it can resolve.
    pub process: u64,
    /// Parts that other nodes have taken from this one, until somebody looks.
    lost: Mutex<BTreeSet<(StageAddress, Part)>>,
    has_lost: event_listener::Event,
    stages: RwLock<HashMap<StageAddress, Arc<Stage>>>,
    versions: Mutex<HashMap<StageAddress, u32>>,
    flows: Mutex<HashMap<Name, Supervisor>>,
    tickets: AtomicU64,
    stage_ids: AtomicU64,
    stopping: AtomicBool,
    paused: AtomicBool,
    /// Stages that somebody has paused, whether they run here or not.
    paused_stages: Mutex<HashSet<StageAddress>>,
    prefetch_max: AtomicU32,
    started: Instant,
}

impl Shared {
    pub fn new(bus: Arc<dyn Bus>, settings: Settings, clock: Arc<dyn Clock>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match settings.turn_threads {
            0 => cores,
            threads => threads,
        };
        Self {
            threads: TurnThreads::start(threads, settings.turn_threads_max),
            tokio: tokio::runtime::Handle::current(),
            alarms: Arc::new(AlarmClock::new(clock.clone())),
            waiters: Arc::default(),
            replies: Replies::default(),
            history: History::default(),
            log_tap: Tapped::default(),
            outputs: KnownOutputs::default(),
            process: fastrand::u64(1..),
            lost: Mutex::default(),
            has_lost: event_listener::Event::new(),
            stages: RwLock::default(),
            versions: Mutex::default(),
            flows: Mutex::default(),
            // Later than every ticket of an earlier process, unless that gave out a million a
            // second all its life.
            tickets: AtomicU64::new(clock.now().as_micros()),
            stage_ids: AtomicU64::new(1),
            stopping: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            paused_stages: Mutex::default(),
            prefetch_max: AtomicU32::new(settings.prefetch_max.max(1)),
            started: Instant::now(),
            bus,
            settings,
            clock,
        }
    }

    /// What goes on in the background until the runtime is dropped.
    pub fn keep_house(shared: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let alarms = shared.alarms.clone();
        let watched = Arc::downgrade(shared);
        let measure = async move {
            let mut ticks = tokio::time::interval(MEASURE_EVERY);
            let mut last = Instant::now();
            loop {
                ticks.tick().await;
                let Some(shared) = watched.upgrade() else {
                    return;
                };
                let seconds = last.elapsed().as_secs_f64().max(0.001);
                last = Instant::now();
                for stage in shared.stages() {
                    stage.measure(seconds);
                    stage.measure_latency();
                    stage.passivate();
                }
            }
        };
        vec![
            shared.tokio.spawn(async move { alarms.run().await }),
            shared.tokio.spawn(measure),
        ]
    }

    pub fn stage(&self, address: &StageAddress) -> Option<Arc<Stage>> {
        self.stages.read().get(address).cloned()
    }

    pub fn stages(&self) -> Vec<Arc<Stage>> {
        self.stages.read().values().cloned().collect()
    }

    pub fn add_stage(&self, address: StageAddress, stage: Arc<Stage>) {
        let leads_on = !stage.version().spec.outputs.is_empty();
        let mut stages = self.stages.write();
        stages.insert(address, stage);
        if leads_on {
            find_cycles(&stages);
        }
    }

    /// Outputs lead elsewhere.
    pub fn rewired(&self) {
        find_cycles(&self.stages.read());
    }

    pub fn remove_stage(&self, address: &StageAddress) {
        let mut stages = self.stages.write();
        if stages
            .remove(address)
            .is_some_and(|stage| stage.is_in_cycle())
        {
            find_cycles(&stages);
        }
    }

    /// Another node has taken a part of this one.
    pub fn note_lost(&self, stage: &StageAddress, part: Part) {
        self.lost.lock().insert((stage.clone(), part));
        self.has_lost.notify(usize::MAX);
    }

    pub async fn next_lost(&self) -> (StageAddress, Part) {
        loop {
            let has_lost = self.has_lost.listen();
            if let Some(lost) = self.lost.lock().pop_first() {
                return lost;
            }
            has_lost.await;
        }
    }

    pub fn next_version(&self, address: &StageAddress) -> u32 {
        let mut versions = self.versions.lock();
        let version = versions.entry(address.clone()).or_default();
        *version += 1;
        *version
    }

    pub fn next_ticket(&self) -> Ticket {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    pub fn next_stage_id(&self) -> u64 {
        self.stage_ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Whole seconds since the start.
    pub fn seconds(&self) -> u32 {
        self.seconds_at(Instant::now())
    }

    pub fn seconds_at(&self, now: Instant) -> u32 {
        now.duration_since(self.started).as_secs() as u32
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub fn begin_stopping(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::SeqCst)
    }

    pub fn set_paused(&self, paused: bool) {
        self.paused.store(paused, Ordering::SeqCst);
    }

    pub fn is_stage_paused(&self, stage: &StageAddress) -> bool {
        self.paused_stages.lock().contains(stage)
    }

    pub fn set_stage_paused(&self, stage: &StageAddress, paused: bool) {
        let mut stages = self.paused_stages.lock();
        match paused {
            true => stages.insert(stage.clone()),
            false => stages.remove(stage),
        };
    }

    pub fn prefetch_max(&self) -> u32 {
        self.prefetch_max.load(Ordering::Relaxed)
    }

    pub fn set_prefetch_max(&self, messages: u32) {
        self.prefetch_max.store(messages.max(1), Ordering::Relaxed);
    }

    /// A stage could not help itself. After how long it may try again; none if it may not.
    pub fn flow_decides(&self, stage: &StageAddress, reason: &str) -> Option<Duration> {
        let mut flows = self.flows.lock();
        let supervisor = flows
            .entry(stage.flow().clone())
            .or_insert_with(|| Supervisor::new(flow_rule()));
        let failure = Failure::new(reason);
        match supervisor.failed(0, 1, &failure, self.clock.now()) {
            Decision::Restart { after, .. } => Some(after),
            _ => None,
        }
    }

    /// What failed before in a flow is forgotten.
    pub fn forgive(&self, flow: &Name) {
        self.flows.lock().remove(flow);
    }

    pub fn note(&self, stage: &Stage, event: HistoryEvent, version: &Version, detail: &str) {
        let digest = &version.code.info().digest;
        self.note_event(&stage.address, event, version.number, digest, detail);
    }

    pub fn note_event(
        &self,
        stage: &StageAddress,
        event: HistoryEvent,
        version: u32,
        digest: &str,
        detail: &str,
    ) {
        self.history.push(HistoryEntry {
            at_ms: self.clock.now().as_millis(),
            stage: stage.clone(),
            event,
            version,
            digest: digest.to_owned(),
            detail: detail.to_owned(),
        });
    }
}

/// Tells each stage which cycle of stages in memory it lies on. What goes to a durable stage waits in its queue, so nobody waits for
/// a mailbox there.
fn find_cycles(stages: &HashMap<StageAddress, Arc<Stage>>) {
    let edges = stages.values().map(|stage| {
        let version = stage.version();
        let addresses = version.spec.outputs.values().flatten();
        let to = addresses.filter_map(|address| match address {
            Address::Stage(to) => stages.get(to).filter(|to| to.is_memory()).map(|to| to.id),
            _ => None,
        });
        (stage.id, to.collect())
    });
    let found = cycles(&edges.collect());
    for stage in stages.values() {
        stage.set_cycle(found.get(&stage.id).copied().unwrap_or(0));
    }
}

/// How often a stage that gave up is started again by its flow before it stays down.
fn flow_rule() -> SupervisionRule {
    SupervisionRule {
        restarts_max: 5,
        within_ms: 60_000,
        backoff_ms_min: 200,
        backoff_ms_max: 10_000,
        ..SupervisionRule::default()
    }
}
