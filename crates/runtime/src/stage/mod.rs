//! A stage: one input queue, identical workers, named outputs.

mod book;
mod children;
mod current;
mod dispatch;
mod entrance;
mod intake;
mod latency;
mod life;
mod measure;
mod moves;
#[cfg(test)]
mod moves_tests;
mod resize;
mod rollout;
mod shares;
mod standing;
mod start;
mod supervise;
mod waking;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bus::BusError;
use kernel::descriptor::PluginKind;
use kernel::worker::{Code, Incoming};
use kernel::{Address, Message, Name, StageAddress, WorkerAddress};
use parking_lot::{Mutex, RwLock};

use crate::cell::Cell;
use crate::key::bucket_of;
use crate::logs::StageLog;
use crate::mailbox::Envelope;
use crate::moves::Moves;
use crate::outputs::Outputs;
use crate::router::Router;
use crate::runtime::Shared;
use crate::scaling::{Pauses, Scaler, ScalingView};
use crate::scope::Scope;
use crate::spec::{Delivery, StageKind, StageSpec};
use crate::store::Store;
use crate::supervision::Supervisor;
use crate::views::{
    EdgeView, LatencyView, StageLoad, StageLook, StageState, StageView, WorkerState,
};
use crate::waiting::Answers;

use self::book::Book;
use self::current::Current;
use self::entrance::Entrance;
pub(crate) use self::intake::Intakes;
use self::latency::Latency;
pub(crate) use self::life::release;
use self::measure::BucketCounts;
pub use self::shares::Part;
use self::shares::Shares;
use self::standing::Standing;
use self::waking::Woken;

/// How many workers a view of a stage shows.
const WORKERS_SHOWN: usize = 64;
/// For how many workers the last failure is kept.
const LAST_FAILURES_MAX: usize = 1_000;

/// A version of a stage: what it is to be, and the code that it runs.
pub(crate) struct Version {
    pub number: u32,
    pub spec: StageSpec,
    pub code: Arc<dyn Code>,
    /// The code of the owner, if the stage is routed.
    pub owner: Option<Arc<dyn Code>>,
    /// Where its outputs lead, and how much was sent there.
    pub outputs: Outputs,
}

/// What a stage is made of.
pub(crate) struct Plan {
    pub number: u32,
    pub spec: StageSpec,
    pub code: Arc<dyn Code>,
    /// A router of one's own.
    pub router: Option<Arc<dyn Router>>,
    /// Other nodes have parts of it.
    pub is_shared: bool,
}

/// A running stage.
pub(crate) struct Stage {
    /// Never used twice, so that alarms of a stage that was removed find nobody.
    pub id: u64,
    pub runtime: Arc<Shared>,
    pub address: StageAddress,
    kind: StageKind,
    delivery: Delivery,
    pub store: Store,
    pub log: StageLog,
    pub counters: Counters,
    pub book: Book,
    pub supervisor: Mutex<Supervisor>,
    /// There is room in a mailbox again.
    pub room: event_listener::Event,
    /// How fast its answers come.
    pub answers: Answers,
    /// Why workers failed last, by their number.
    pub last_failures: Mutex<HashMap<u32, String>>,
    /// Children by their parent's number and their name.
    pub children: Mutex<HashMap<(u32, Name), Arc<Cell>>>,
    cells: RwLock<Vec<Arc<Cell>>>,
    /// The owner of a routed stage.
    owner: Mutex<Option<Arc<Cell>>>,
    router: Arc<dyn Router>,
    /// Who has which bucket, and what comes for buckets that are on their way.
    moves: RwLock<Moves<Envelope>>,
    current: Current,
    intakes: Intakes,
    entrance: Entrance,
    latency: Latency,
    /// The cycle of stages that it lies on; zero if it lies on none.
    cycle: AtomicU64,
    /// For whom a message waits that wakes them.
    pub woken: Woken,
    /// What this node has of the stage; none if it has all of it.
    shares: Option<Shares>,
    state: AtomicU8,
    /// It takes nothing until somebody lets it go on.
    is_paused: AtomicBool,
    /// It stops, and another one takes its place: senders wait for that.
    pub is_followed: AtomicBool,
    /// How long buckets paused that moved.
    pauses: Pauses,
    /// Whether it stands still.
    pub standing: Standing,
    /// What finds its number of workers, if it has a rule for that.
    scaler: Mutex<Option<Arc<Scaler>>>,
    /// What its buckets do, if somebody wants to know.
    bucket_counts: OnceLock<BucketCounts>,
    /// One hand-over at a time.
    changing: tokio::sync::Mutex<()>,
    rate: Mutex<Rate>,
}

/// What happened in a stage since its start.
#[derive(Default)]
pub(crate) struct Counters {
    pub failures: AtomicU64,
    pub restarts: AtomicU64,
    pub dead: AtomicU64,
    pub unconnected: AtomicU64,
    pub late_replies: AtomicU64,
    /// Turns of children and of workers that are gone.
    pub turns_before: AtomicU64,
}

#[derive(Default)]
struct Rate {
    turns: u64,
    per_second: f64,
}

/// A message for which there was no room, or no place.
pub(crate) struct NoRoom {
    pub incoming: Incoming,
    pub reason: String,
}

impl Stage {
    pub fn is_keyed(&self) -> bool {
        matches!(self.kind, StageKind::Keyed(_))
    }

    pub fn is_routed(&self) -> bool {
        matches!(self.kind, StageKind::Routed(_))
    }

    pub fn is_memory(&self) -> bool {
        self.delivery == Delivery::Memory
    }

    /// Whether its code is linked into this program, which is then trusted.
    pub fn is_native(&self) -> bool {
        self.current.is_native()
    }

    pub fn version(&self) -> Arc<Version> {
        self.current.get()
    }

    pub fn router(&self) -> Arc<dyn Router> {
        self.router.clone()
    }

    /// How many messages may wait for one worker. On a cycle a tenth of the room is kept for messages from inside it.
    pub fn mailbox_messages_max(&self) -> u32 {
        let max = self.current.messages_max();
        if !self.is_in_cycle() {
            return max;
        }
        let spill_max = self.spill_messages_max();
        max.min(spill_max - spill_max.div_ceil(10)).max(1)
    }

    /// How many messages from inside its cycle may wait for one worker.
    pub fn spill_messages_max(&self) -> u32 {
        self.current.spill_messages_max()
    }

    /// Whether both lie on the same cycle of stages.
    pub fn is_in_cycle_with(&self, other: &Self) -> bool {
        let cycle = self.cycle.load(Ordering::Relaxed);
        cycle != 0 && cycle == other.cycle.load(Ordering::Relaxed)
    }

    pub fn is_in_cycle(&self) -> bool {
        self.cycle.load(Ordering::Relaxed) != 0
    }

    pub fn set_cycle(&self, cycle: u64) {
        self.cycle.store(cycle, Ordering::Relaxed);
    }

    pub fn workers_count(&self) -> u32 {
        self.cells.read().len() as u32
    }

    /// The queue that a message for this stage goes to: if it is keyed, that of its bucket. A
    /// message without a key goes to the stage's own queue, where it is turned down.
    pub fn queue_for(&self, message: &Message) -> Name {
        if let StageKind::Keyed(rule) = &self.kind
            && let Ok(key) = rule.key(message)
        {
            return self.address.bucket(bucket_of(&key));
        }
        self.address.queue()
    }

    /// The worker, or the child of one, at an address.
    pub fn cell_at(&self, address: &WorkerAddress) -> Option<Arc<Cell>> {
        match address.child() {
            Some(child) => {
                let key = (address.worker(), child.clone());
                self.children.lock().get(&key).cloned()
            }
            None => self.cells.read().get(address.worker() as usize).cloned(),
        }
    }

    /// Who works on a scope now.
    pub fn cell_of(&self, scope: &Scope) -> Option<Arc<Cell>> {
        match scope {
            Scope::Worker(number) => self.cells.read().get(*number as usize).cloned(),
            Scope::Child(number, name) => {
                let key = (*number, name.clone());
                self.children.lock().get(&key).cloned()
            }
            Scope::Bucket(bucket) => {
                let owner = self.moves.read().table().owner(*bucket);
                self.cells.read().get(owner as usize).cloned()
            }
            Scope::Owner => self.owner.lock().clone(),
        }
    }

    /// All scopes that a worker works on.
    pub fn scopes_of(&self, cell: &Cell) -> Vec<Scope> {
        let own = match &cell.place {
            crate::cell::Place::Worker(number) => Scope::Worker(*number),
            _ => cell.scope(0),
        };
        let mut scopes = vec![own];
        if self.is_keyed() {
            let moves = self.moves.read();
            let buckets = moves.table().buckets_of(cell.number());
            scopes.extend(buckets.map(Scope::Bucket));
        }
        scopes
    }

    pub fn cells(&self) -> Vec<Arc<Cell>> {
        self.cells.read().clone()
    }

    pub fn state(&self) -> StageState {
        match self.state.load(Ordering::Relaxed) {
            0 => StageState::Running,
            1 => StageState::Handover,
            2 => StageState::Stopping,
            _ => StageState::Failed,
        }
    }

    fn set_state(&self, state: StageState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub fn is_stopping(&self) -> bool {
        self.state() == StageState::Stopping
    }

    /// Whether it takes nothing because somebody wants that.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Whether its workers leave alone what waits in their mailboxes. What is on the bus waits there.
    pub fn leaves_waiting(&self) -> bool {
        self.is_paused() && self.is_memory()
    }

    /// Whether it takes messages, now or soon.
    pub fn is_serving(&self) -> bool {
        matches!(self.state(), StageState::Running | StageState::Handover)
    }

    pub fn note_failure(&self, worker: u32, reason: &str) {
        let mut failures = self.last_failures.lock();
        if failures.len() < LAST_FAILURES_MAX || failures.contains_key(&worker) {
            failures.insert(worker, reason.to_owned());
        }
    }

    /// The engine takes nothing at present.
    pub fn note_blocked(&self, error: &BusError) {
        tracing::warn!(stage = %self.address, %error, "the stage waits until the engine takes its commit");
    }

    fn turns(&self) -> u64 {
        let before = self.counters.turns_before.load(Ordering::Relaxed);
        let cells = self.cells.read();
        before + cells.iter().map(|cell| cell.turns()).sum::<u64>()
    }

    /// Called once a second.
    pub fn measure(&self, seconds: f64) {
        let turns = self.turns();
        let mut rate = self.rate.lock();
        rate.per_second = turns.saturating_sub(rate.turns) as f64 / seconds;
        rate.turns = turns;
    }

    pub fn view(&self) -> StageView {
        let version = self.version();
        let cells = self.cells();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StageView {
            spec: version.spec.clone(),
            code: version.code.info().clone(),
            version: version.number,
            state: self.state(),
            paused: self.is_paused(),
            turns: self.turns(),
            turns_per_second: self.rate.lock().per_second,
            failures: count(&self.counters.failures),
            restarts: count(&self.counters.restarts),
            dead: count(&self.counters.dead),
            unconnected: count(&self.counters.unconnected),
            late_replies: count(&self.counters.late_replies),
            waiting: cells.iter().map(|cell| u64::from(cell.waiting())).sum(),
            workers_count: cells.len() as u32,
            workers: cells.iter().take(WORKERS_SHOWN).map(|c| c.view()).collect(),
            moves: self.pauses.view(),
            stands: self.standing.why(),
            latency: self.latency_ms(),
            scaling: self.scaling(),
        }
    }

    /// How busy it is.
    pub fn load(&self) -> StageLoad {
        let cells = self.cells.read();
        StageLoad {
            stage: self.address.clone(),
            state: self.state(),
            restarts: self.counters.restarts.load(Ordering::Relaxed),
            dead: self.counters.dead.load(Ordering::Relaxed),
            turns_per_second: self.rate.lock().per_second,
            waiting: cells.iter().map(|cell| u64::from(cell.waiting())).sum(),
            workers_count: cells.len() as u32,
            stands: self.standing.why(),
            latency: self.latency_ms(),
            scaling: self.scaling(),
        }
    }

    /// How many of its workers are here. Where several nodes share them, each knows all.
    fn workers_here(&self, known: usize) -> u32 {
        match self.is_shared() && !self.is_keyed() {
            true => {
                let held = self.held().into_iter();
                held.filter(|part| matches!(part, Part::Worker(_))).count() as u32
            }
            false => known as u32,
        }
    }

    /// What was sent over its edges so far.
    pub fn edges(&self) -> Vec<EdgeView> {
        let version = self.version();
        let edge = |(output, to, sent): (&str, &Address, u64)| EdgeView {
            output: output.to_owned(),
            to: to.clone(),
            sent,
        };
        version.outputs.edges().map(edge).collect()
    }

    /// How it is at this moment. What its edges have sent has to be looked at before.
    pub fn look(&self, edges: Vec<EdgeView>) -> StageLook {
        let version = self.version();
        let is_provider = version.code.info().kind == PluginKind::Provider;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let input = if is_provider { None } else { self.input() };
        let cells = self.cells.read();
        let is_busy = |cell: &&Arc<Cell>| cell.state() == WorkerState::Busy;
        StageLook {
            stage: self.address.clone(),
            state: self.state(),
            paused: self.is_paused(),
            stands: self.standing.why(),
            latency: self.latency_ms(),
            workers: self.workers_here(cells.len()),
            workers_busy: cells.iter().filter(is_busy).count() as u32,
            turns: count(&self.counters.turns_before)
                + cells.iter().map(|cell| cell.turns()).sum::<u64>(),
            failures: count(&self.counters.failures),
            dead: count(&self.counters.dead),
            restarts: count(&self.counters.restarts),
            input,
            edges,
        }
    }

    fn latency_ms(&self) -> Option<LatencyView> {
        let (p50_ms, p99_ms) = match self.scaling() {
            Some(scaling) => (scaling.probe_ms_p50, scaling.probe_ms_p99),
            None => self.latency.percentiles_ms()?,
        };
        Some(LatencyView { p50_ms, p99_ms })
    }

    fn scaling(&self) -> Option<ScalingView> {
        let scaler = self.scaler.lock().clone();
        scaler.map(|scaler| scaler.view())
    }

    /// The workers that have been idle since before that second.
    pub fn idle_since(&self, second: u32) -> Vec<Arc<Cell>> {
        let cells = self.cells.read();
        let idle = cells.iter().filter(|cell| cell.is_idle_since(second));
        idle.cloned().collect()
    }
}
