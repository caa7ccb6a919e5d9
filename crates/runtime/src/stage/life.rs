//! A stage's beginning and end.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use kernel::Timestamp;
use kernel::worker::{Code, Failure, Incoming, Kind};
use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

use super::start::start_all;
use super::{
    Book, Counters, Current, Entrance, Intakes, Latency, Plan, Rate, Shares, Stage, Standing,
    Version, Woken,
};
use crate::alarm_clock::What;
use crate::cell::{Cell, Place};
use crate::control::{Control, Done};
use crate::error::DeployError;
use crate::key::BUCKETS;
use crate::logs::{LogLimits, StageLog};
use crate::mailbox::Envelope;
use crate::moves::{Event, Moves};
use crate::routed::{RoutedLimits, RouterWorker};
use crate::router::{Router, RouterKind, Workers};
use crate::runtime::Shared;
use crate::scaling::Pauses;
use crate::scope::{Scope, keys};
use crate::spec::{Delivery, StageKind, StageSpec, WORKERS_MAX};
use crate::store::Store;
use crate::supervision::Supervisor;
use crate::table::Table;
use crate::views::StageState;
use crate::waiting::Answers;

/// How many pending asks, timers or children are read at once.
const RESTORE_PAIRS: usize = 1_000;

/// How long a stage that stops waits for a change that is under way.
const MOVES_END_MAX: Duration = Duration::from_secs(5);

impl Stage {
    /// A stage with all its workers, of which the first ones have instances already.
    pub async fn start(runtime: Arc<Shared>, plan: Plan) -> Result<Arc<Self>, DeployError> {
        let Plan {
            number, spec, code, ..
        } = plan;
        let router = check(&spec, &*code, plan.router)?;
        let shares = plan.is_shared.then(Shares::default);
        let stage = Arc::new_cyclic(|stage| {
            let workers = StageWorkers(stage.clone());
            let version = new_version(&runtime, number, spec, code, &router, workers);
            Self::empty(runtime, Arc::new(version), router, shares)
        });
        stage.fill();
        if stage.is_shared() {
            let declared = stage.declare_queues().await;
            declared.map_err(DeployError::Bus)?;
        }
        if stage.is_shared() && !stage.is_keyed() {
            // Their parts are taken one by one.
            stage.put_aside();
            return Ok(stage);
        }
        let started = stage.start_workers().await;
        if let Err(error) = started {
            stage.end_workers(false).await;
            stage.clear();
            return Err(error);
        }
        stage.start_intakes();
        stage.scale_by_itself();
        Ok(stage)
    }

    fn empty(
        runtime: Arc<Shared>,
        version: Arc<Version>,
        router: Arc<dyn Router>,
        shares: Option<Shares>,
    ) -> Self {
        let spec = &version.spec;
        let is_paused = runtime.is_stage_paused(&spec.address);
        let store = match spec.delivery {
            Delivery::Durable => Store::Bus(runtime.bus.clone(), spec.address.clone()),
            Delivery::Memory => Store::memory(),
        };
        let table = match spec.kind {
            StageKind::Keyed(_) => Table::new(first_size(spec)),
            _ => Table::new(1),
        };
        Self {
            id: runtime.next_stage_id(),
            address: spec.address.clone(),
            kind: spec.kind.clone(),
            delivery: spec.delivery,
            store,
            log: StageLog::new(LogLimits::default(), runtime.log_tap.clone()),
            counters: Counters::default(),
            book: Book::default(),
            supervisor: Mutex::new(Supervisor::new(spec.supervision.clone())),
            room: event_listener::Event::new(),
            answers: Answers::default(),
            last_failures: Mutex::default(),
            children: Mutex::default(),
            cells: RwLock::default(),
            owner: Mutex::default(),
            router,
            moves: RwLock::new(Moves::new(table, first_size(spec))),
            current: Current::new(version),
            intakes: Intakes::default(),
            entrance: Entrance::default(),
            latency: Latency::default(),
            cycle: AtomicU64::new(0),
            woken: Woken::default(),
            shares,
            state: AtomicU8::new(StageState::Running as u8),
            is_paused: AtomicBool::new(is_paused),
            is_followed: AtomicBool::new(false),
            pauses: Pauses::default(),
            standing: Standing::default(),
            scaler: Mutex::default(),
            bucket_counts: OnceLock::new(),
            changing: tokio::sync::Mutex::default(),
            rate: Mutex::new(Rate::default()),
            runtime,
        }
    }

    /// Makes the places of all workers.
    fn fill(self: &Arc<Self>) {
        let version = self.version();
        let cell = |place| Cell::new(self.clone(), place, version.clone());
        let cells = (0..first_size(&version.spec)).map(|number| cell(Place::Worker(number)));
        *self.cells.write() = cells.collect();
        if self.is_routed() {
            *self.owner.lock() = Some(cell(Place::Owner));
        }
    }

    /// No worker does anything before its part is taken.
    fn put_aside(&self) {
        let owner = self.owner.lock().clone();
        for cell in self.cells().iter().chain(&owner) {
            cell.put_aside();
        }
    }

    /// Gives the first workers their instances and brings back what was pending.
    async fn start_workers(self: &Arc<Self>) -> Result<(), DeployError> {
        self.restore().await?;
        let eager_max = self.runtime.settings.eager_workers_max as usize;
        let owner = self.owner.lock().clone();
        let cells = self.cells();
        let eager = cells.iter().take(eager_max).chain(&owner);
        let started = start_all(eager.cloned().collect()).await;
        started.map_err(|failure| DeployError::Start {
            stage: self.address.clone(),
            reason: failure_text(&failure),
        })?;
        // The others were woken when they got their instances.
        for cell in cells.iter().skip(eager_max) {
            self.wake_timed(cell);
        }
        Ok(())
    }

    /// Brings back timers, pending asks and children from the state.
    async fn restore(self: &Arc<Self>) -> Result<(), DeployError> {
        if self.is_memory() || self.is_shared() {
            return Ok(());
        }
        let mut scopes: Vec<Scope> = (0..self.workers_count()).map(Scope::Worker).collect();
        if self.is_keyed() {
            scopes.extend((0..BUCKETS).map(Scope::Bucket));
        }
        if self.is_routed() {
            scopes.push(Scope::Owner);
        }
        for scope in scopes {
            self.restore_scope(&scope).await?;
            if let Scope::Worker(number) = scope {
                self.restore_children(number).await?;
            }
        }
        Ok(())
    }

    /// Brings back what the state says of a scope whose worker lives: timers, pending asks, and children that it does not have.
    pub async fn restore_again(self: &Arc<Self>, scope: &Scope) -> Result<(), DeployError> {
        self.restore_scope(scope).await?;
        let Scope::Worker(number) = *scope else {
            return Ok(());
        };
        for (key, args) in self.pending(scope, keys::CHILD).await? {
            if let Ok(name) = str::from_utf8(&key[1..])
                && let Some(child) = self.child_scope(number, name)
                && self.cell_of(&child).is_none()
            {
                self.restore_child(number, name, args).await?;
            }
        }
        Ok(())
    }

    /// Brings back timers and pending asks of one scope.
    pub(super) async fn restore_scope(self: &Arc<Self>, scope: &Scope) -> Result<(), DeployError> {
        for (key, value) in self.pending(scope, keys::ASK).await? {
            if let (Ok(ticket), Some((at, _))) = (key[1..].try_into(), alarm(&value)) {
                let what = What::Ask(u64::from_be_bytes(ticket));
                self.runtime.alarms.set(self, scope, what, at, Bytes::new());
            }
        }
        for (key, value) in self.pending(scope, keys::TIMER).await? {
            if let (Ok(name), Some((at, body))) = (str::from_utf8(&key[1..]), alarm(&value)) {
                let what = What::Timer(name.into());
                self.runtime.alarms.set(self, scope, what, at, body);
            }
        }
        Ok(())
    }

    pub(super) async fn restore_children(self: &Arc<Self>, number: u32) -> Result<(), DeployError> {
        for (key, args) in self.pending(&Scope::Worker(number), keys::CHILD).await? {
            if let Ok(name) = str::from_utf8(&key[1..]) {
                self.restore_child(number, name, args).await?;
            }
        }
        Ok(())
    }

    async fn restore_child(
        self: &Arc<Self>,
        number: u32,
        name: &str,
        args: Bytes,
    ) -> Result<(), DeployError> {
        self.add_child(number, name, args);
        if let Some(scope) = self.child_scope(number, name) {
            self.restore_scope(&scope).await?;
            self.wake_if_timed(&scope);
        }
        Ok(())
    }

    /// All pairs of a scope under one prefix.
    async fn pending(&self, scope: &Scope, prefix: u8) -> Result<Vec<(Bytes, Bytes)>, DeployError> {
        let mut all: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let after = all.last().map(|(key, _)| key.clone());
            let more = self
                .store
                .scan(scope, &[prefix], after.as_deref(), RESTORE_PAIRS)
                .await
                .map_err(DeployError::Bus)?;
            let is_last = more.len() < RESTORE_PAIRS;
            all.extend(more);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Stops pulling, lets every worker finish its batch, and lets go of everything. What was
    /// pulled and not begun goes back to its queue; what came straight into mailboxes is given to
    /// the caller.
    pub async fn stop(self: &Arc<Self>, for_good: bool) -> Vec<Incoming> {
        self.set_state(StageState::Stopping);
        // Whoever waits for room waits in vain.
        self.room.notify(usize::MAX);
        // Workers are asked to give before they are asked to stop; so when they have stopped, nobody gives any more.
        self.bucket_event(Event::Stopping);
        // A bucket that is on its way arrives first.
        let moved = tokio::time::timeout(MOVES_END_MAX, self.changing.lock()).await;
        self.stop_intakes().await;
        self.end_workers(for_good).await;
        drop(moved);
        self.clear()
    }

    /// Puts messages that nobody handled any more among the dead letters.
    pub async fn bury(&self, left: Vec<Incoming>) {
        let queue = self.address.queue();
        for incoming in left {
            let reason = "its stage was stopped before it was handled";
            let (message, tries) = (incoming.message, incoming.tries);
            self.runtime.bury(&queue, message, reason, tries).await;
        }
    }

    async fn end_workers(&self, for_good: bool) {
        let children: Vec<_> = self.children.lock().values().cloned().collect();
        let owner = self.owner.lock().clone();
        let ended: Vec<_> = self
            .cells()
            .iter()
            .chain(&children)
            .chain(&owner)
            .map(|cell| cell.ask(|done| Control::Stop { for_good, done }))
            .collect();
        for done in ended {
            if let Err(failure) = wait(done).await {
                tracing::warn!(stage = %self.address, reason = %failure, "a worker could not save its state");
            }
        }
    }

    /// Lets go of the workers; their messages that were not begun go back, or to the caller.
    fn clear(&self) -> Vec<Incoming> {
        self.runtime.alarms.cancel_stage(self);
        let ended = self.bucket_event(Event::Ended);
        self.book.went(ended.dismissed.iter());
        let children = std::mem::take(&mut *self.children.lock());
        let owner = self.owner.lock().take();
        let all = ended.dismissed.iter().chain(children.values());
        let waiting = all.chain(&owner).flat_map(|cell| cell.retire());
        // What was held came after what waits.
        let left = local_messages(waiting.chain(ended.let_go));
        self.room.notify(usize::MAX);
        left
    }

    /// Lets idle workers of components do without their instances.
    pub fn passivate(&self) {
        let version = self.version();
        let after_ms = version.spec.intake.passivate_after_ms;
        if version.code.info().native || after_ms == 0 {
            return;
        }
        let after_s = after_ms.div_ceil(1_000) as u32;
        let Some(since) = self.runtime.seconds().checked_sub(after_s) else {
            return;
        };
        for cell in self.idle_since(since) {
            cell.control(Control::Passivate);
        }
    }

    pub(super) fn new_version(
        self: &Arc<Self>,
        number: u32,
        spec: StageSpec,
        code: Arc<dyn Code>,
    ) -> Arc<Version> {
        let workers = StageWorkers(Arc::downgrade(self));
        let runtime = &self.runtime;
        Arc::new(new_version(
            runtime,
            number,
            spec,
            code,
            &self.router,
            workers,
        ))
    }

    pub(super) fn count_turns_of(&self, cell: &Cell) {
        let turns = cell.turns();
        self.counters
            .turns_before
            .fetch_add(turns, Ordering::Relaxed);
    }
}

impl Cell {
    /// Asks something of the worker that it answers.
    pub fn ask<T>(
        self: &Arc<Self>,
        control: impl FnOnce(Done<T>) -> Control,
    ) -> oneshot::Receiver<Result<T, Failure>> {
        let (done, receiver) = oneshot::channel();
        self.control(control(done));
        receiver
    }
}

/// The answer of a worker. One that is gone has failed.
pub(super) async fn wait<T>(answer: oneshot::Receiver<Result<T, Failure>>) -> Result<T, Failure> {
    match answer.await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::new("the worker is gone")),
    }
}

/// The messages of this process that nobody handles any more; the others go back to where they came from.
pub(super) fn local_messages(envelopes: impl Iterator<Item = Envelope>) -> Vec<Incoming> {
    let (pulled, local): (Vec<_>, Vec<_>) = envelopes.partition(|e| e.source.is_some());
    release(pulled);
    // Timers and timeouts come back with the state.
    let local = local.into_iter().map(|envelope| envelope.incoming);
    local.filter(|i| i.kind == Kind::Message).collect()
}

/// Gives messages back that were not looked at.
pub(crate) fn release(envelopes: impl IntoIterator<Item = Envelope>) {
    for source in envelopes.into_iter().filter_map(|e| e.source) {
        source.subscription.release(&[source.receipt()]);
    }
}

pub(crate) fn failure_text(failure: &Failure) -> String {
    match &failure.backtrace {
        Some(backtrace) => format!("{}\n{backtrace}", failure.reason),
        None => failure.reason.clone(),
    }
}

/// How many workers a stage begins with.
fn first_size(spec: &StageSpec) -> u32 {
    let rule = spec.scale.as_ref();
    rule.map_or(spec.workers, |rule| spec.workers.clamp(rule.min, rule.max))
}

fn alarm(value: &Bytes) -> Option<(Timestamp, Bytes)> {
    let at = value.get(..8)?.try_into().ok()?;
    let at = Timestamp::from_micros(u64::from_be_bytes(at));
    Some((at, value.slice(8..)))
}

fn new_version(
    runtime: &Shared,
    number: u32,
    spec: StageSpec,
    code: Arc<dyn Code>,
    router: &Arc<dyn Router>,
    workers: StageWorkers,
) -> Version {
    let owner = match spec.kind {
        StageKind::Routed(kind) => {
            let (stage, router) = (spec.address.clone(), router.clone());
            let workers: Arc<dyn Workers + Send + Sync> = Arc::new(workers);
            let make = move |_: &kernel::worker::Start| {
                let limits = RoutedLimits::default();
                RouterWorker::new(stage.clone(), kind, router.clone(), workers.clone(), limits)
            };
            Some(kernel::worker::native("router", "1", make))
        }
        _ => None,
    };
    let outputs = runtime.outputs.of(&spec.address, &spec.outputs);
    Version {
        outputs,
        number,
        spec,
        code,
        owner,
    }
}

/// Checks what can be checked before anything runs, and finds the router.
fn check(
    spec: &StageSpec,
    code: &dyn Code,
    own_router: Option<Arc<dyn Router>>,
) -> Result<Arc<dyn Router>, DeployError> {
    check_spec(spec, code)?;
    let kind = match spec.kind {
        StageKind::Pool(kind) | StageKind::Routed(kind) => kind,
        StageKind::Keyed(_) => RouterKind::RoundRobin,
    };
    own_router
        .or_else(|| kind.router())
        .ok_or_else(|| DeployError::Spec {
            reason: "a router of one's own has to be given with the deployment".into(),
        })
}

pub(super) fn check_spec(spec: &StageSpec, code: &dyn Code) -> Result<(), DeployError> {
    let refuse = |reason: String| Err(DeployError::Spec { reason });
    if spec.workers == 0 || spec.workers > WORKERS_MAX {
        return refuse(format!(
            "a stage has 1 to {WORKERS_MAX} workers, not {}",
            spec.workers
        ));
    }
    if let Some(scale) = &spec.scale
        && let Err(error) = scale.check()
    {
        return refuse(error.to_string());
    }
    let most = spec.scale.as_ref().map_or(0, |rule| rule.max);
    match spec.kind {
        StageKind::Keyed(_) if spec.workers.max(most) > BUCKETS => {
            return refuse(format!(
                "a keyed stage has {BUCKETS} buckets and so at most as many workers, not {}",
                spec.workers.max(most)
            ));
        }
        StageKind::Pool(kind) if kind.is_routed() => {
            return refuse(format!("{kind} needs a routed stage, not a pool"));
        }
        StageKind::Routed(kind) if !kind.is_routed() => {
            return refuse(format!("{kind} chooses within a pool; deploy it as one"));
        }
        _ => {}
    }
    check_grants(spec, code)
}

/// What the code asks for must be granted; what it was not granted is named.
fn check_grants(spec: &StageSpec, code: &dyn Code) -> Result<(), DeployError> {
    let granted = |wanted: &String| spec.grants.iter().any(|grant| grant.to_string() == *wanted);
    let capabilities = &code.info().capabilities;
    let missing: Vec<&String> = capabilities.iter().filter(|c| !granted(c)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing.iter().map(|c| format!("--grant {c}")).collect();
    Err(DeployError::NotGranted {
        name: code.info().name.clone(),
        missing: missing.into_iter().cloned().collect(),
        remedy: list.join(" "),
    })
}

/// The workers of a stage, for the owner that routes to them.
struct StageWorkers(std::sync::Weak<Stage>);

impl Workers for StageWorkers {
    fn count(&self) -> u32 {
        self.0.upgrade().map_or(0, |stage| stage.workers_count())
    }

    fn waiting(&self, worker: u32) -> u32 {
        let cell = |stage: Arc<Stage>| stage.cells.read().get(worker as usize).cloned();
        let cell = self.0.upgrade().and_then(cell);
        cell.map_or(0, |cell| cell.waiting())
    }

    fn has_room(&self, _worker: u32) -> bool {
        // Every worker of a routed stage has a queue, which holds what waits.
        true
    }
}
