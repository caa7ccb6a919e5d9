//! Deployments: from a component somewhere to workers that run, over changes of the component and
//! restarts of the node.

mod built_in;
mod change;
mod code;
mod components;
mod control;
mod documents;
mod error;
mod expected;
mod fetch;
mod history;
mod http;
mod notices;
mod plugins;
mod request;
mod settings;
mod shared;
mod sharing;
mod slot;
mod source;
mod store;
mod views;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use broker::Broker;
use bus::Bus;
use flows::plugins::Environment;
use kernel::worker::InstanceLimits;
use kernel::{Clock, Name, StageAddress};
use parking_lot::Mutex;
use runtime::{Delivery, HistoryEntry, HistoryEvent, Runtime, ScaleDecision, WorkerView};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};

use self::code::Loader;
pub use self::components::ComponentsError;
use self::documents::FlowStore;
pub use self::documents::{AppliedFlow, ApplyError, FlowRecord, FlowVersion, tag_of};
pub use self::error::{ControlError, DeployError, UnknownStage};
pub use self::expected::Expected;
use self::fetch::Fetcher;
use self::history::{GONE_KEPT_FOR, Histories, added};
use self::http::NodeHttp;
use self::notices::Notices;
use self::plugins::Plugins;
pub use self::plugins::{
    ArgsError, FoundPlugin, Location, OWN, Plugin, PluginError, PluginNotes, PluginPage,
    PluginQuery, PluginRef, PluginSettings, PluginSummary, PluginVersions, PushedPlugin,
    RepositorySettings, Trouble, version_of,
};
pub use self::request::{DeployRequest, Given, Replica, RouterRequest};
pub use self::settings::DeploySettings;
pub use self::shared::MoveTarget;
pub use self::sharing::Places;
use self::sharing::Sharing;
use self::slot::{Numbers, Slot};
pub use self::source::{Source, SourceError, digest_of};
pub use self::store::StoreError;
use self::store::{Found, Record, Store};
pub(crate) use self::views::flows as flows_of;
pub use self::views::{
    DefinitionShown, DeploymentShown, FlowShown, StageQuery, StageShown, VersionShown, VersionState,
};

use crate::events::{Event, Events};
use crate::flow_metrics::FlowMetrics;

/// The folder in the data folder in which built-in plug-ins read and write files.
pub(crate) const FILES_FOLDER: &str = "files";
/// How often the runtime's history is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often unused components are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(600);

/// What is deployed on a node.
pub struct Deployments {
    me: Weak<Self>,
    runtime: Arc<Runtime>,
    bus: Arc<dyn Bus>,
    /// What it shares with other nodes, if it does.
    sharing: Option<Sharing>,
    loader: Loader,
    flow_metrics: Arc<FlowMetrics>,
    store: Store,
    fetcher: Fetcher,
    plugins: Plugins,
    flow_store: FlowStore,
    /// One document after another is applied.
    flow_order: tokio::sync::Mutex<()>,
    /// The broker in this process, if there is one.
    broker: OnceLock<Arc<Broker>>,
    notices: Arc<Notices>,
    clock: Arc<dyn Clock>,
    /// For stages that say nothing about it.
    instance_limits: InstanceLimits,
    slots: Mutex<BTreeMap<StageAddress, Arc<Slot>>>,
    /// How the versions of each stage are numbered while this process runs.
    numbers: Mutex<HashMap<StageAddress, Numbers>>,
    histories: Mutex<Histories>,
    /// The runtime's history when it was looked at last.
    runtime_history: tokio::sync::Mutex<Vec<HistoryEntry>>,
    looking: Mutex<Option<JoinHandle<()>>>,
    /// Whoever listens.
    events: OnceLock<Arc<Events>>,
}

/// What a deployment led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedStage {
    /// The number of the version, counted over restarts of the node.
    pub version: u32,
    /// Whether there was one before.
    pub replaced: bool,
    /// Whether anything is other than before.
    pub changed: bool,
    /// The digest of the component.
    pub digest: String,
}

impl Deployments {
    /// Takes over what was deployed before, and starts it. What cannot be loaded is shown as failed
    /// and stops nothing else. A node with a name is one among several: it gets what they share once
    /// it has [joined](Self::join) them.
    pub async fn start(
        runtime: Arc<Runtime>,
        host: Arc<wasm::Host>,
        bus: Arc<dyn Bus>,
        data: &Path,
        settings: DeploySettings,
        clock: Arc<dyn Clock>,
        node: Option<Name>,
    ) -> Result<Arc<Self>, StoreError> {
        let store = Store::open(bus.clone(), data, node.as_ref()).await?;
        let fetcher = Fetcher::new(settings.clone());
        let plugins = Plugins::new(&settings.plugins, bus.clone(), &fetcher);
        let found = store.read().await?;
        let flow_metrics = FlowMetrics::of(&runtime);
        flows::plugins::add(crawl::PLUGINS);
        let environment = Environment {
            node: node.as_ref().map(Name::to_string).unwrap_or_default(),
            bus: Some(bus.clone()),
            folder: Some(data.join(FILES_FOLDER)),
            http: Some(Arc::new(NodeHttp::new(fetcher.clone()))),
            metrics: Some(flow_metrics.clone()),
            ..Environment::default()
        };
        let deployments = Arc::new_cyclic(|me| Self {
            me: me.clone(),
            runtime,
            sharing: node.map(|node| Sharing::new(bus.clone(), node)),
            flow_store: FlowStore::new(bus.clone()),
            flow_order: tokio::sync::Mutex::default(),
            broker: OnceLock::new(),
            loader: Loader::new(host, environment),
            flow_metrics,
            bus,
            store,
            instance_limits: settings.instance_limits,
            fetcher,
            plugins,
            notices: Arc::default(),
            clock,
            slots: Mutex::default(),
            numbers: Mutex::default(),
            histories: Mutex::default(),
            runtime_history: tokio::sync::Mutex::default(),
            looking: Mutex::default(),
            events: OnceLock::new(),
        });
        deployments.restore(found).await?;
        let looking = tokio::spawn(keep_looking(Arc::downgrade(&deployments)));
        *deployments.looking.lock() = Some(looking);
        Ok(deployments)
    }

    async fn restore(self: &Arc<Self>, found: Found) -> Result<(), StoreError> {
        let old_ms = GONE_KEPT_FOR.as_millis() as u64;
        let now_ms = self.clock.now().as_millis();
        {
            let mut histories = self.histories.lock();
            for (stage, entries) in found.histories {
                histories.restore(stage, entries);
            }
        }
        // What is on disk goes on as soon as its stage is there, so stages in memory that it leads to come first: to one that is not
        // there it would send over the bus, where events lose what only this process knows of them.
        let is_memory = |record: &&Record| record.spec.delivery == Delivery::Memory;
        let (memory, durable): (Vec<_>, Vec<_>) = found.records.iter().partition(is_memory);
        for records in [memory, durable] {
            let mut starting = JoinSet::new();
            for record in records {
                let (this, record) = (self.clone(), record.clone());
                starting.spawn(async move { this.restore_stage(record).await });
            }
            while let Some(started) = starting.join_next().await {
                started?;
            }
        }
        // That they were deployed again is no news.
        *self.runtime_history.lock().await = self.runtime.history(None);
        let gone: Vec<StageAddress> = {
            let histories = self.histories.lock();
            let is_gone = |stage: &StageAddress| !self.slots.lock().contains_key(stage);
            let old = histories
                .last_times()
                .filter(|(_, at)| at + old_ms < now_ms);
            let gone = old.map(|(stage, _)| stage).filter(|stage| is_gone(stage));
            gone.cloned().collect()
        };
        for stage in gone {
            self.histories.lock().remove(&stage);
            self.store.remove_history(&stage).await?;
        }
        self.sweep().await;
        Ok(())
    }

    /// Starts what was deployed before the restart of the node.
    async fn restore_stage(&self, record: Record) {
        let stage = record.spec.address.clone();
        let slot = self.slot(&stage);
        let _order = slot.order.lock().await;
        if let Err(error) = self.load_again(&slot, record).await {
            let reason = format!("it could not be loaded at the start of the node: {error}");
            tracing::error!(%stage, reason, "a stage does not run");
            let (version, digest) = {
                let mut state = slot.state.lock();
                state.failure = Some(reason.clone());
                let record = state.record.as_ref();
                record.map_or((0, String::new()), |r| {
                    (r.version, r.component.digest.clone())
                })
            };
            self.note(&stage, HistoryEvent::Failed, version, digest, reason)
                .await;
        }
        self.start_watching(&stage, &slot);
    }

    /// The slot of a stage, made if there is none.
    fn slot(&self, stage: &StageAddress) -> Arc<Slot> {
        self.slots.lock().entry(stage.clone()).or_default().clone()
    }

    fn find_slot(&self, stage: &StageAddress) -> Option<Arc<Slot>> {
        self.slots.lock().get(stage).cloned()
    }

    /// Ends the watching of sources: nothing is deployed by itself from now on.
    pub fn stop_watching(&self) {
        if let Some(looking) = self.looking.lock().take() {
            looking.abort();
        }
        for slot in self.slots.lock().values() {
            slot.state.lock().watches.renew();
        }
    }

    /// From now on sources are watched and fetched so.
    pub(crate) fn change_settings(&self, settings: &DeploySettings) {
        self.fetcher.change(settings);
    }

    /// The broker of this node is in this process: what waits in its queues can be seen.
    pub(crate) fn see_broker(&self, broker: Arc<Broker>) {
        // A node has one.
        let _ = self.broker.set(broker);
    }

    /// The runtime underneath.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// What built-in plug-ins find here.
    pub(crate) fn environment(&self) -> &Environment {
        self.loader.environment()
    }

    /// What stages of flows have measured.
    pub(crate) fn flow_metrics(&self) -> &Arc<FlowMetrics> {
        &self.flow_metrics
    }

    /// All flows, also those whose stages could not be loaded.
    pub fn flows(&self) -> Vec<FlowShown> {
        let (stages, _) = self.stages(&StageQuery::default());
        views::flows(stages)
    }

    /// Stages in the order of their addresses, also those that could not be loaded, and after which one to go
    /// on. Nothing is looked at that is not shown.
    pub fn stages(&self, query: &StageQuery) -> (Vec<StageShown>, Option<StageAddress>) {
        let mut shown = Vec::new();
        let mut next = None;
        for address in self.addresses() {
            if !query.wants_address(&address) {
                continue;
            }
            if query
                .node
                .as_ref()
                .is_some_and(|node| !self.has_part(node, &address))
            {
                continue;
            }
            if let Some(stage) = self.shown(&address)
                && query.wants(&stage)
            {
                if shown.len() == query.limit {
                    next = shown.last().map(|last: &StageShown| last.address().clone());
                    break;
                }
                shown.push(stage);
            }
        }
        self.add_nodes(&mut shown);
        (shown, next)
    }

    /// One stage, without what other nodes have of it.
    fn shown(&self, address: &StageAddress) -> Option<StageShown> {
        let running = self.runtime.stage(address);
        let numbers = self.numbers(address);
        let slot = self.find_slot(address);
        let state = slot.as_ref().map(|slot| slot.state.lock());
        match running {
            Some(stage) => Some(StageShown::running(stage, state.as_deref(), numbers)),
            None => StageShown::not_running(&*state?, self.sharing.as_ref()),
        }
    }

    /// Whether a stage that was deployed is in memory.
    fn is_in_memory(&self, stage: &StageAddress) -> bool {
        let is_memory = |slot: Arc<Slot>| {
            let state = slot.state.lock();
            state.record.as_ref().is_some_and(Record::is_memory)
        };
        self.find_slot(stage).is_some_and(is_memory)
    }

    /// Whether a node that lives has a part of a stage. Where nodes have no names, none has.
    fn has_part(&self, node: &str, stage: &StageAddress) -> bool {
        let parts = self.agent().map(|agent| agent.parts_of(stage));
        parts.is_some_and(|parts| parts.get(node).is_some_and(|count| *count > 0))
    }

    /// Adds how many parts of stages each node has.
    fn add_nodes(&self, stages: &mut [StageShown]) {
        let Some(agent) = self.agent() else {
            return;
        };
        for shown in stages.iter_mut().filter(|shown| shown.deployment.is_some()) {
            let address = &shown.stage.spec.address;
            shown.nodes = Some(agent.parts_of(address));
            shown.parts = Some(match shown.stage.spec.delivery {
                Delivery::Durable => self.runtime.parts(address).len() as u32,
                // Each node that has it has all of it.
                Delivery::Memory => 1,
            });
        }
    }

    /// One stage.
    pub fn stage(&self, stage: &StageAddress) -> Result<StageShown, UnknownStage> {
        let shown = self.shown(stage).ok_or_else(|| self.unknown(stage))?;
        let mut shown = [shown];
        self.add_nodes(&mut shown);
        let [shown] = shown;
        Ok(shown)
    }

    /// What a stage decided about its number of workers, the oldest first.
    pub fn decisions(&self, stage: &StageAddress) -> Result<Vec<ScaleDecision>, UnknownStage> {
        match self.runtime.decisions(stage) {
            Some(decisions) => Ok(decisions),
            // One that could not be loaded decides nothing.
            None => self.stage(stage).map(|_| Vec::new()),
        }
    }

    /// What a stage is to be, as it is stored now.
    pub async fn definition(&self, stage: &StageAddress) -> Result<DefinitionShown, ControlError> {
        let stored = match &self.sharing {
            Some(sharing) => sharing.definition(stage).await?.1,
            None => self
                .find_slot(stage)
                .and_then(|slot| slot.state.lock().record.clone()),
        };
        match stored {
            Some(record) => Ok(DefinitionShown::of(&record)),
            None if self.is_running(stage) => Err(ControlError::LinkedIn {
                stage: stage.clone(),
            }),
            None => Err(self.unknown(stage).into()),
        }
    }

    /// The versions that a stage had, the newest first.
    pub async fn versions(&self, stage: &StageAddress) -> Result<Vec<VersionShown>, UnknownStage> {
        let history = self.history(Some(stage)).await;
        let current = match self.shown(stage) {
            Some(shown) => Some(shown.stage.version),
            None if history.is_empty() => return Err(self.unknown(stage)),
            None => None,
        };
        Ok(views::versions(&history, current))
    }

    /// Whether there is such a stage, running or not.
    pub fn exists(&self, stage: &StageAddress) -> bool {
        let is_deployed = |slot: Arc<Slot>| slot.state.lock().record.is_some();
        self.is_running(stage) || self.find_slot(stage).is_some_and(is_deployed)
    }

    fn is_running(&self, stage: &StageAddress) -> bool {
        // The cheapest thing that every stage has.
        self.runtime.logs(stage).is_some()
    }

    /// Workers of a stage, from the one with the number `from`.
    pub fn workers(
        &self,
        stage: &StageAddress,
        from: u32,
        max: usize,
    ) -> Result<Vec<WorkerView>, UnknownStage> {
        let Some(mut workers) = self.runtime.workers(stage, from, max) else {
            // One that could not be loaded has none.
            return self.stage(stage).map(|_| Vec::new());
        };
        let numbers = self.numbers(stage);
        for worker in &mut workers {
            worker.version = numbers.shown(worker.version);
        }
        Ok(workers)
    }

    /// How the versions of a stage are numbered. If that was not decided yet, they go on after the
    /// last one that is known.
    fn numbers(&self, stage: &StageAddress) -> Numbers {
        let mut numbers = self.numbers.lock();
        let after_last = || Numbers::after(self.histories.lock().last_version(stage));
        *numbers.entry(stage.clone()).or_insert_with(after_last)
    }

    /// How large a component may be.
    pub fn component_bytes_max(&self) -> u64 {
        self.fetcher.settings().component_bytes_max
    }

    /// The stages that could not be loaded, or not as they are defined now, and why.
    pub fn failures(&self) -> BTreeMap<StageAddress, String> {
        let slots = self.slots.lock().clone();
        let failures = slots.values().filter_map(|slot| {
            let state = slot.state.lock();
            let record = state.record.as_ref()?;
            Some((record.spec.address.clone(), state.failure.clone()?))
        });
        failures.collect()
    }

    /// The addresses of all stages, in order.
    pub fn addresses(&self) -> Vec<StageAddress> {
        let slots = self.slots.lock().clone();
        let is_deployed = |slot: &Slot| slot.state.lock().record.is_some();
        let deployed = slots.iter().filter(|(_, slot)| is_deployed(slot));
        let deployed = deployed.map(|(address, _)| address.clone());
        let mut all: Vec<_> = deployed.chain(self.runtime.addresses()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// That there is no such stage, and which one may have been meant.
    pub fn unknown(&self, stage: &StageAddress) -> UnknownStage {
        UnknownStage::stage(stage, &self.addresses())
    }

    /// That there is no such flow, and which one may have been meant.
    pub fn unknown_flow(&self, flow: &Name) -> UnknownStage {
        UnknownStage::flow(flow.as_str(), &self.addresses())
    }

    /// What happened, to all stages or to one, the oldest first.
    pub async fn history(&self, stage: Option<&StageAddress>) -> Vec<HistoryEntry> {
        self.look_at_history().await;
        self.histories.lock().list(stage)
    }

    /// Takes over what the runtime noted since the last time.
    async fn look_at_history(&self) {
        let mut last = self.runtime_history.lock().await;
        let now = self.runtime.history(None);
        for entry in added(&last, &now) {
            self.take_over(entry.clone()).await;
        }
        *last = now;
    }

    async fn take_over(&self, mut entry: HistoryEntry) {
        entry.version = self.numbers(&entry.stage).shown(entry.version);
        if entry.event == HistoryEvent::RolledBack
            && let Some(slot) = self.find_slot(&entry.stage)
        {
            self.go_back(&entry.stage, &slot, entry.version).await;
        }
        self.keep(entry).await;
    }

    /// Notes something that the runtime does not know.
    async fn note(
        &self,
        stage: &StageAddress,
        event: HistoryEvent,
        version: u32,
        digest: String,
        detail: String,
    ) {
        let entry = HistoryEntry {
            at_ms: self.clock.now().as_millis(),
            stage: stage.clone(),
            event,
            version,
            digest,
            detail,
        };
        self.keep(entry).await;
    }

    async fn keep(&self, entry: HistoryEntry) {
        let stage = entry.stage.clone();
        if self.tells_of(entry.event) {
            self.tell(Event::history(&entry));
        }
        let entries = self.histories.lock().push(entry);
        if let Err(error) = self.store.put_history(&stage, &entries).await {
            tracing::warn!(%stage, %error, "the history of a stage could not be stored");
        }
    }

    /// From now on whoever listens is told what happens.
    pub(crate) fn tell_to(&self, events: Arc<Events>) {
        // A node has one.
        let _ = self.events.set(events);
    }

    fn tell(&self, event: Event) {
        if let Some(events) = self.events.get() {
            events.tell(event);
        }
    }

    /// What happens to a shared stage because somebody said so happens on all nodes; the one that was
    /// asked tells it.
    fn tells_of(&self, event: HistoryEvent) -> bool {
        let is_said = match event {
            HistoryEvent::Deployed
            | HistoryEvent::Replaced
            | HistoryEvent::Restarted
            | HistoryEvent::Stopped => true,
            HistoryEvent::Refused | HistoryEvent::RolledBack | HistoryEvent::Failed => false,
        };
        self.sharing.is_none() || !is_said
    }

    /// What is deployed here.
    fn records(&self) -> Vec<Record> {
        let slots = self.slots.lock().clone();
        let records = slots.values();
        records
            .filter_map(|slot| slot.state.lock().record.clone())
            .collect()
    }

    /// The digests of all components that must not go.
    async fn used_digests(&self) -> Result<HashSet<String>, StoreError> {
        let records = self.records();
        let mut used: HashSet<String> = records.iter().flat_map(Record::digests).cloned().collect();
        if self.sharing.is_none() {
            // Otherwise they lie on the bus, too, and come from there when they are needed.
            used.extend(self.plugins.index.digests().await?);
        }
        Ok(used)
    }

    async fn sweep(&self) {
        let swept = match self.used_digests().await {
            Ok(used) => self.store.sweep(used).await,
            Err(error) => Err(error),
        };
        match swept {
            Ok(0) => {}
            Ok(removed) => tracing::debug!(removed, "components that nobody uses are removed"),
            Err(error) => tracing::warn!(%error, "unused components cannot be removed"),
        }
    }
}

/// Follows the runtime's history and tidies up, until the deployments are gone.
async fn keep_looking(deployments: Weak<Deployments>) {
    let mut ticks = interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let looks_per_sweep = SWEEP_EVERY.as_millis() / LOOK_EVERY.as_millis();
    let mut looks = 0;
    loop {
        ticks.tick().await;
        let Some(deployments) = deployments.upgrade() else {
            return;
        };
        deployments.look_at_history().await;
        looks += 1;
        if looks % looks_per_sweep == 0 {
            deployments.sweep().await;
        }
    }
}
