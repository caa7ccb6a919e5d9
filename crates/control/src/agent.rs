//! Sees to a node's part in all shared stages: listens to the others, speaks for itself, takes and
//! lets go.
//!
//! It does I/O, and what is to be done say the state machines. Whatever it
//! starts reports back as an [`Event`], so nothing waits for anything else.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bus::{Bus, BusError, Document, Put};
use kernel::{Clock, Destination, Message, Name, StageAddress, Timestamp};
use parking_lot::Mutex;
use runtime::{Part, Runtime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::heartbeat::{Defined, Heartbeat, NodeState, StageBeat};
use crate::members::{Heard, Member, Members, Rules};
use crate::order::Order;
use crate::ownership::{Action, Event, Ownership, Share};

/// The topic of the heartbeats. Only nodes may write to it.
pub const HEARTBEATS: &str = "hivewire.nodes";

/// How the names of documents begin that define stages.
pub const DEFINITIONS: &str = "hivewire.stage.";

/// How the names of documents begin that say what nodes are told to be.
const ORDERS: &str = "hivewire.node.";

const CALL: Duration = Duration::from_secs(5);
/// How long one look for heartbeats waits.
const LOOK: Duration = Duration::from_secs(1);
/// How many heartbeats are on their way at most.
const CREDIT: u32 = 1_024;
/// So many are acknowledged together: each for itself would double what the bus has to do.
const ACKNOWLEDGE_AT: usize = 256;
/// How many definitions are read at a time.
const DEFINITIONS_MAX: usize = 1_000;
/// Definitions are looked for so many heartbeats apart, unless somebody goes by a newer one; and less
/// often the more there are.
const LOOK_EVERY_BEATS: u32 = 5;
/// If more than so many definitions have changed, all are read.
const STALE_MAX: usize = 100;
/// How many definitions are deployed at a time.
const DEPLOYS_AT_ONCE: usize = 16;
/// How many stages are looked at while nobody else can.
const LOOKS_AT_ONCE: usize = 256;
/// A heartbeat names all stages if they are no more.
const STAGES_NAMED_MAX: usize = 200;
/// What has changed is named for so long.
const NEWS_FOR: Duration = Duration::from_secs(10);
/// How often a change is tried while others make theirs.
const CHANGES_MAX: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);
/// How often a node that leaves looks whether it has given everything away.
const LEAVE_LOOK: Duration = Duration::from_millis(20);
/// How often a node that starts looks whether it has listened long enough.
const LISTEN_LOOK: Duration = Duration::from_millis(20);

/// Turns a definition into a stage of this node.
#[async_trait]
pub trait Deployer: Send + Sync {
    /// Deploys what this revision of the document says, over what ran before; gives how its shares
    /// are given to nodes. The revision in there is filled in by the caller.
    async fn deploy(
        &self,
        stage: &StageAddress,
        revision: u64,
        definition: &[u8],
    ) -> Result<Share, String>;

    /// The stage is no more: everything of it has been let go.
    async fn remove(&self, stage: &StageAddress);

    /// Whether this node can do its work. While it cannot it sends no heartbeats.
    fn is_healthy(&self) -> bool {
        true
    }

    /// How busy this node is: the share of its cores in use, in hundredths.
    fn load(&self) -> u32 {
        0
    }
}

/// What a node is.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// Its name. No two that live have the same.
    pub name: Name,
    /// What distinguishes it, for those who choose places by it.
    pub labels: BTreeMap<String, String>,
    /// Where it answers over HTTP, if it does.
    pub address: Option<SocketAddr>,
    /// How long things take.
    pub rules: Rules,
}

/// How a node is, as far as this one has heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name.
    pub name: String,
    /// Numbers the starts of a node of this name.
    pub start: u64,
    /// What it is ready for.
    pub state: NodeState,
    /// Whether it lives.
    pub lives: bool,
}

/// A node's part in all shared stages. Dropping it ends its task, as if the node had died.
pub struct Agent {
    shared: Arc<Shared>,
    ended: watch::Receiver<Option<Ended>>,
    tasks: Vec<JoinHandle<()>>,
}

/// Why an agent stopped by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop, and has given everything away.
    Stopped,
    /// A node of the same name started later.
    NameTaken,
}

struct Shared {
    bus: Arc<dyn Bus>,
    runtime: Arc<Runtime>,
    deployer: Arc<dyn Deployer>,
    clock: Arc<dyn Clock>,
    settings: NodeSettings,
    state: Mutex<State>,
    /// Something is to be said at once.
    announce: Notify,
    /// Definitions are to be read at once.
    redefine: Notify,
    events: mpsc::UnboundedSender<Happened>,
    /// All stages are to be looked at, and that is on its way.
    looks: AtomicBool,
}

/// What is to be looked into.
enum Happened {
    /// Something happened to a stage.
    To(StageAddress, Event),
    /// Something that may matter to all of them.
    All,
}

struct State {
    members: Members,
    stages: HashMap<StageAddress, Stage>,
    order: Order,
    /// The process is about to end.
    leaves: bool,
    /// The revision of the document that says so.
    order_revision: Option<u64>,
    /// Definitions that cannot be deployed here, by their revisions.
    lacks: BTreeMap<StageAddress, u64>,
    /// Stages whose definitions have changed, as far as was heard.
    stale: BTreeSet<StageAddress>,
    /// Somebody goes by other definitions than this node, and does not say which.
    differs: bool,
    /// What changed here last, with the time.
    changed: VecDeque<(Timestamp, StageAddress)>,
    start: u64,
    number: u64,
}

impl State {
    /// What the node is ready for.
    fn ready_for(&self) -> NodeState {
        match self.leaves {
            true => NodeState::Draining,
            false => self.order.state,
        }
    }
}

impl State {
    /// What the heartbeat says of stages: everything while they are few. Otherwise what others have to
    /// know by name, and something by which they can tell whether they go by the same.
    fn named_stages(&mut self, now: Timestamp) -> (BTreeMap<String, StageBeat>, Option<Defined>) {
        let named =
            |address: &StageAddress, stage: &Stage| (address.to_string(), stage.ownership.beat());
        if self.stages.len() <= STAGES_NAMED_MAX {
            let all = self.stages.iter();
            return (
                all.map(|(address, stage)| named(address, stage)).collect(),
                None,
            );
        }
        while let Some((at, _)) = self.changed.front()
            && now.since(*at) > NEWS_FOR
        {
            self.changed.pop_front();
        }
        let held = self.stages.iter();
        let held = held.filter(|(_, stage)| stage.ownership.holds_any());
        let news = self.changed.iter().filter_map(|(_, address)| {
            let stage = self.stages.get(address)?;
            Some((address, stage))
        });
        let stages = held.chain(news);
        let stages = stages
            .map(|(address, stage)| named(address, stage))
            .collect();
        let lacks = self.lacks.keys().map(StageAddress::to_string);
        let defined = Defined {
            digest: self.members.definitions().digest(),
            lacks: lacks.take(STAGES_NAMED_MAX).collect(),
        };
        // Who lacks that much knows nothing that others could rely on.
        let is_whole = self.lacks.len() <= STAGES_NAMED_MAX;
        (stages, is_whole.then_some(defined))
    }

    /// This node goes by another revision of a stage, or cannot. Gives the number of the change.
    fn goes_by(&mut self, address: &StageAddress, revision: u64, now: Timestamp) -> u64 {
        let known = self.stages.get(address).map(|stage| stage.revision);
        let was = self.lacks.remove(address).or(known);
        if self.changed.len() == STAGES_NAMED_MAX {
            self.changed.pop_front();
        }
        self.changed.push_back((now, address.clone()));
        let definitions = self.members.definitions();
        definitions.change(&address.to_string(), was, Some(revision))
    }

    /// A stage is no more.
    fn forget(&mut self, address: &StageAddress) {
        let known = self.stages.remove(address).map(|stage| stage.revision);
        let was = self.lacks.remove(address).or(known);
        let definitions = self.members.definitions();
        definitions.change(&address.to_string(), was, None);
    }
}

struct Stage {
    ownership: Ownership,
    parts: Vec<Part>,
    revision: u64,
    /// The change with which that came.
    change: u64,
    /// Its definition is gone; what is held of it is let go.
    is_gone: bool,
}

impl Agent {
    /// Starts the part of this node.
    pub async fn start(
        bus: Arc<dyn Bus>,
        runtime: Arc<Runtime>,
        deployer: Arc<dyn Deployer>,
        clock: Arc<dyn Clock>,
        settings: NodeSettings,
    ) -> Result<Self, BusError> {
        // The store numbers the starts of a name: clocks may be set back.
        let start = bus.raise_epoch(&order_name(&settings.name)?, CALL).await?;
        let now = clock.now();
        let members = Members::new(settings.name.as_str(), start, settings.rules.clone(), now);
        let (events, happened) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            bus,
            runtime,
            deployer,
            clock,
            settings,
            state: Mutex::new(State {
                members,
                stages: HashMap::new(),
                order: Order::default(),
                leaves: false,
                order_revision: None,
                lacks: BTreeMap::new(),
                stale: BTreeSet::new(),
                differs: false,
                changed: VecDeque::new(),
                start,
                number: 0,
            }),
            announce: Notify::new(),
            redefine: Notify::new(),
            events,
            looks: AtomicBool::new(false),
        });
        let (end, ended) = watch::channel(None);
        let end = Arc::new(end);
        let tasks = vec![
            tokio::spawn(shared.clone().listen(end.clone())),
            tokio::spawn(shared.clone().speak(end)),
            tokio::spawn(shared.clone().define()),
            tokio::spawn(shared.clone().listen_first()),
            tokio::spawn(shared.clone().act(happened)),
            tokio::spawn(shared.clone().notice_losses()),
        ];
        Ok(Self {
            shared,
            ended,
            tasks,
        })
    }

    /// The name of this node.
    pub fn name(&self) -> &Name {
        &self.shared.settings.name
    }

    /// The number of this start of the node.
    pub fn start_number(&self) -> u64 {
        self.shared.state.lock().start
    }

    /// All nodes that live, as far as this one has heard.
    pub fn nodes(&self) -> Vec<Member> {
        let state = self.shared.state.lock();
        let now = self.shared.clock.now();
        state.members.alive(now).cloned().collect()
    }

    /// All nodes that were heard of, and whether they live.
    pub fn known(&self) -> Vec<(Member, bool)> {
        let state = self.shared.state.lock();
        let known = state.members.known(self.shared.clock.now());
        known
            .map(|(member, lives)| (member.clone(), lives))
            .collect()
    }

    /// Looks at all nodes that were heard of, without copying what they say. Nothing else of this node goes
    /// on meanwhile, so it must not take long.
    pub fn look<T>(&self, look: impl FnOnce(&Members, Timestamp) -> T) -> T {
        let state = self.shared.state.lock();
        look(&state.members, self.shared.clock.now())
    }

    /// How all nodes are that were heard of.
    pub fn states(&self) -> Vec<NodeSeen> {
        let state = self.shared.state.lock();
        let known = state.members.known(self.shared.clock.now());
        let seen = known.map(|(member, lives)| NodeSeen {
            name: member.last.node.clone(),
            start: member.last.start,
            state: member.last.state,
            lives,
        });
        seen.collect()
    }

    /// Whether this node no longer hears itself, so that nobody else does either.
    pub fn is_cut_off(&self) -> bool {
        let state = self.shared.state.lock();
        state.members.is_cut_off(self.shared.clock.now())
    }

    /// Tells a node, perhaps this one, what to be from now on: it hears so within a heartbeat.
    pub async fn order(
        &self,
        node: &Name,
        change: impl Fn(&mut Order) + Send,
    ) -> Result<Order, BusError> {
        let order = self.shared.change_order(node, change).await?;
        self.shared.redefine.notify_one();
        Ok(order)
    }

    /// Gives everything away before the process ends, as far as others are there to take it and
    /// `patience` allows.
    pub async fn leave(&self, patience: Duration) {
        let has_others = {
            let mut state = self.shared.state.lock();
            state.leaves = true;
            let now = self.shared.clock.now();
            let others = state.members.able(now);
            let me = self.shared.settings.name.as_str();
            others.filter(|member| member.last.node != me).count() > 0
        };
        if !has_others {
            // Whoever listens without taking parts learns all the same that this node goes in good order.
            return self.shared.say().await;
        }
        self.shared.announce.notify_one();
        let left = async {
            while !self.shared.is_drained() {
                tokio::time::sleep(LEAVE_LOOK).await;
            }
        };
        if tokio::time::timeout(patience, left).await.is_err() {
            tracing::warn!(
                "not everything was handed over; the others take it when they miss this node"
            );
        }
        // The others learn that nothing is left here.
        self.shared.say().await;
    }

    /// A definition has changed: it is read at once instead of a little later.
    pub fn definition_changed(&self, stage: &StageAddress) {
        self.shared.state.lock().stale.insert(stage.clone());
        self.shared.redefine.notify_one();
    }

    /// Whether all nodes that live go by this revision of a stage at least.
    pub fn all_know(&self, stage: &StageAddress, revision: u64) -> bool {
        let state = self.shared.state.lock();
        let known = state.stages.get(stage);
        let change = known.map_or(u64::MAX, |known| known.change);
        let stage = stage.to_string();
        let mut alive = state.members.alive(self.shared.clock.now());
        alive.all(|member| member.knows(&stage, revision, change))
    }

    /// How many parts of a stage every node has that lives, as they say.
    pub fn parts_of(&self, stage: &StageAddress) -> BTreeMap<String, u32> {
        let state = self.shared.state.lock();
        let stage = stage.to_string();
        let speakers = state.members.speakers(&stage, self.shared.clock.now());
        let parts = speakers.filter_map(|member| {
            let beat = member.last.stages.get(&stage)?;
            Some((member.last.node.clone(), beat.holds.count()))
        });
        parts.collect()
    }

    /// Waits until the agent stops by itself.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let reached = ended.wait_for(Option::is_some).await;
        match reached {
            Ok(ended) => ended.clone().unwrap_or(Ended::Stopped),
            // The tasks ended with the runtime.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

fn heartbeats() -> Destination {
    Destination::Topic(Name::new(HEARTBEATS).expect("it is a name"))
}

impl Shared {
    /// Listens to heartbeats, its own among them.
    async fn listen(self: Arc<Self>, end: Arc<watch::Sender<Option<Ended>>>) {
        loop {
            if let Err(error) = self.listen_once(&end).await {
                tracing::warn!(%error, "no heartbeats can be heard; trying again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn listen_once(&self, end: &watch::Sender<Option<Ended>>) -> Result<(), BusError> {
        let subscription = self.bus.subscribe(&heartbeats(), CREDIT, CALL).await?;
        let mut heard = Vec::new();
        let mut acknowledged_at = Instant::now();
        loop {
            let deliveries = subscription.next_batch(CREDIT as usize, LOOK).await?;
            heard.extend(deliveries.iter().map(|one| one.receipt));
            let mut news = false;
            for delivery in &deliveries {
                match serde_json::from_slice(&delivery.message.body) {
                    Ok(beat) => match self.heard(beat) {
                        Heard::NameTaken => {
                            end.send_replace(Some(Ended::NameTaken));
                        }
                        heard => news |= heard != Heard::Same && heard != Heard::Old,
                    },
                    Err(error) => tracing::warn!(%error, "a heartbeat cannot be read"),
                }
            }
            if heard.len() >= ACKNOWLEDGE_AT || acknowledged_at.elapsed() >= LOOK {
                subscription.acknowledge(&heard, CALL).await?;
                heard.clear();
                acknowledged_at = Instant::now();
            }
            if news {
                self.look();
            }
        }
    }

    fn heard(&self, beat: Heartbeat) -> Heard {
        let mut state = self.state.lock();
        let stale = beat.stages.iter().filter_map(|(stage, theirs)| {
            let stage: StageAddress = stage.parse().ok()?;
            let known = state.stages.get(&stage);
            let is_newer = known.is_none_or(|known| known.revision < theirs.revision);
            is_newer.then_some(stage)
        });
        let stale: Vec<StageAddress> = stale.collect();
        if !stale.is_empty() {
            state.stale.extend(stale);
            self.redefine.notify_one();
        }
        let definitions = state.members.definitions();
        let differs = beat
            .defined
            .as_ref()
            .is_some_and(|theirs| definitions.agrees(theirs.digest).is_none());
        state.differs |= differs;
        state.members.heard(beat, self.clock.now())
    }

    /// Says when it knows enough to take its share.
    async fn listen_first(self: Arc<Self>) {
        while !self.has_listened() {
            tokio::time::sleep(LISTEN_LOOK).await;
        }
        self.announce.notify_one();
    }

    fn has_listened(&self) -> bool {
        let state = self.state.lock();
        state.members.has_listened(self.clock.now())
    }

    /// Sends heartbeats: regularly, and when there is something to say.
    async fn speak(self: Arc<Self>, end: Arc<watch::Sender<Option<Ended>>>) {
        let mut ticks = tokio::time::interval(self.settings.rules.heartbeat_every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.announce.notified() => {}
            }
            if self.deployer.is_healthy() {
                self.say().await;
            } else {
                tracing::warn!("this node is not well, so it sends no heartbeat");
            }
            self.look();
            if self.state.lock().order.stop && self.is_drained() {
                end.send_replace(Some(Ended::Stopped));
            }
        }
    }

    async fn say(&self) {
        let beat = self.beat();
        let body = match serde_json::to_vec(&beat) {
            Ok(body) => body,
            Err(error) => return tracing::error!(%error, "a heartbeat cannot be written"),
        };
        let mut batch = vec![Message::new(body)];
        let every = self.settings.rules.heartbeat_every;
        // One that is late is followed by the next.
        if let Err(error) = self.bus.publish(&heartbeats(), &mut batch, every).await {
            tracing::warn!(%error, "a heartbeat could not be sent");
        }
    }

    fn beat(&self) -> Heartbeat {
        let mut state = self.state.lock();
        state.number += 1;
        let now = self.clock.now();
        let has_listened = state.members.has_listened(now);
        let (stages, defined) = state.named_stages(now);
        Heartbeat {
            node: self.settings.name.to_string(),
            start: state.start,
            number: state.number,
            state: state.ready_for(),
            listens: !has_listened,
            labels: match &state.order.labels {
                Some(labels) => labels.clone(),
                None => self.settings.labels.clone(),
            },
            address: self.settings.address,
            load: self.deployer.load(),
            stages,
            defined,
        }
    }

    fn is_drained(&self) -> bool {
        let state = self.state.lock();
        let holds_nothing = |stage: &Stage| stage.ownership.beat().holds.count() == 0;
        state.ready_for() == NodeState::Draining && state.stages.values().all(holds_nothing)
    }

    /// Reads what this node is told to be with every heartbeat; single definitions when they have
    /// changed; and all of them now and then, or if somebody goes by others.
    async fn define(self: Arc<Self>) {
        let every = self.settings.rules.heartbeat_every;
        let mut beats_to_go = 0_u32;
        loop {
            let read = async {
                self.obey().await?;
                match beats_to_go {
                    0 => self.clone().define_all().await,
                    _ => self.clone().define_stale().await,
                }
            };
            if let Err(error) = read.await {
                tracing::warn!(%error, "the definitions of the stages cannot be read; trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            if beats_to_go == 0 {
                beats_to_go = self.beats_between();
            }
            let is_asked = tokio::time::timeout(every, self.redefine.notified()).await;
            if is_asked.is_err() {
                let differs = std::mem::take(&mut self.state.lock().differs);
                let most = if differs {
                    LOOK_EVERY_BEATS
                } else {
                    beats_to_go
                };
                beats_to_go = beats_to_go.min(most).saturating_sub(1);
            }
        }
    }

    /// How many heartbeats may pass until all definitions are read again: the more there are, the
    /// more work it is for the bus.
    fn beats_between(&self) -> u32 {
        let stages = self.state.lock().stages.len();
        LOOK_EVERY_BEATS * (1 + stages / DEFINITIONS_MAX) as u32
    }

    /// Reads what this node is told to be, and is that.
    async fn obey(&self) -> Result<(), BusError> {
        let name = order_name(&self.settings.name)?;
        let document = self.bus.document(&name, CALL).await?;
        let known = self.state.lock().order_revision;
        if known == Some(document.revision) {
            return Ok(());
        }
        let mut order = parsed_order(&document);
        if known.is_none() && order.stop {
            // It was told to stop before this start.
            let start = |order: &mut Order| {
                order.stop = false;
                order.state = NodeState::Running;
            };
            order = self.change_order(&self.settings.name, start).await?;
        }
        let was = {
            let mut state = self.state.lock();
            state.order_revision = Some(document.revision);
            std::mem::replace(&mut state.order, order.clone())
        };
        match (
            was.state == NodeState::Paused,
            order.state == NodeState::Paused,
        ) {
            (false, true) => self.runtime.pause().await,
            (true, false) => self.runtime.resume().await,
            _ => {}
        }
        if let Some(prefetch) = order.prefetch {
            self.runtime.set_prefetch(prefetch);
        }
        self.announce.notify_one();
        Ok(())
    }

    async fn change_order(
        &self,
        node: &Name,
        change: impl Fn(&mut Order) + Send,
    ) -> Result<Order, BusError> {
        let name = order_name(node)?;
        for _ in 0..CHANGES_MAX {
            let document = self.bus.document(&name, CALL).await?;
            let mut order = parsed_order(&document);
            change(&mut order);
            let body = serde_json::to_vec(&order).map_err(|error| BusError::Refused {
                reason: format!("an order cannot be written: {error}"),
            })?;
            let put = self
                .bus
                .put_document(&name, document.revision, Some(&body), CALL);
            if let Put::Stored(_) = put.await? {
                return Ok(order);
            }
        }
        Err(BusError::Refused {
            reason: format!("others change what {node} is told to be all the time: try again"),
        })
    }

    /// Reads all definitions.
    async fn define_all(self: Arc<Self>) -> Result<(), BusError> {
        self.state.lock().stale.clear();
        let mut after: Option<Name> = None;
        loop {
            let after_now = after.take();
            let documents = self
                .bus
                .documents(DEFINITIONS, after_now.as_ref(), DEFINITIONS_MAX, CALL)
                .await?;
            let is_last = documents.len() < DEFINITIONS_MAX;
            after = documents.last().map(|(name, _)| name.clone());
            let mut defined = Vec::new();
            for (name, document) in documents {
                let address = name.as_str().strip_prefix(DEFINITIONS);
                match address.and_then(|address| address.parse().ok()) {
                    Some(address) => defined.push((address, document)),
                    None => tracing::warn!(%name, "a definition has a name that is no stage's"),
                }
            }
            self.clone().all_defined(defined).await;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Reads what has changed, as far as was heard.
    async fn define_stale(self: Arc<Self>) -> Result<(), BusError> {
        let stale = std::mem::take(&mut self.state.lock().stale);
        if stale.len() > STALE_MAX {
            return self.define_all().await;
        }
        let mut defined = Vec::new();
        for address in stale {
            let name = definition_name(&address).map_err(|error| BusError::Refused {
                reason: error.to_string(),
            })?;
            let document = self.bus.document(&name, CALL).await?;
            if document.revision > 0 {
                defined.push((address, document));
            }
        }
        self.all_defined(defined).await;
        Ok(())
    }

    /// Deploys what is new, several at a time.
    async fn all_defined(self: Arc<Self>, defined: Vec<(StageAddress, Document)>) {
        let mut deploying = JoinSet::new();
        for (address, document) in defined {
            if !self.is_news(&address, document.revision) {
                continue;
            }
            if deploying.len() == DEPLOYS_AT_ONCE {
                deploying.join_next().await;
            }
            let this = self.clone();
            deploying.spawn(async move { this.defined(address, document).await });
        }
        while deploying.join_next().await.is_some() {}
    }

    fn is_news(&self, address: &StageAddress, revision: u64) -> bool {
        let state = self.state.lock();
        let known = state.stages.get(address);
        known.is_none_or(|known| known.revision < revision)
    }

    async fn defined(&self, address: StageAddress, document: Document) {
        let known = {
            let state = self.state.lock();
            state.stages.get(&address).map(|stage| stage.revision)
        };
        if known.is_some_and(|known| known >= document.revision) {
            return;
        }
        let rule = match &document.body {
            Some(body) => match self
                .deployer
                .deploy(&address, document.revision, body)
                .await
            {
                Ok(rule) => rule,
                Err(error) => {
                    tracing::warn!(stage = %address, error, "a definition could not be deployed here; trying again");
                    let mut state = self.state.lock();
                    if state.lacks.get(&address) != Some(&document.revision) {
                        state.goes_by(&address, document.revision, self.clock.now());
                        state.lacks.insert(address, document.revision);
                    }
                    return;
                }
            },
            None if known.is_none() => {
                let mut state = self.state.lock();
                if state.lacks.contains_key(&address) {
                    state.forget(&address);
                }
                return;
            }
            None => Share::default(),
        };
        let parts = self.runtime.parts(&address);
        let mut state = self.state.lock();
        let change = state.goes_by(&address, document.revision, self.clock.now());
        let rule = Share {
            revision: document.revision,
            change,
            ..rule
        };
        let is_new = !state.stages.contains_key(&address);
        let stage = state
            .stages
            .entry(address.clone())
            .or_insert_with(|| Stage {
                ownership: Ownership::new(&address.to_string(), rule.clone()),
                parts: Vec::new(),
                revision: 0,
                change: 0,
                is_gone: false,
            });
        stage.revision = document.revision;
        stage.change = change;
        stage.is_gone = document.body.is_none();
        if document.body.is_some() {
            stage.parts = parts;
        }
        drop(state);
        let event = if is_new {
            Event::Look
        } else {
            Event::Define(rule)
        };
        self.happened(&address, event);
    }

    /// Looks at every stage again.
    fn look(&self) {
        // Once is enough for all who ask before it begins.
        if !self.looks.swap(true, Ordering::SeqCst) {
            let _ = self.events.send(Happened::All);
        }
    }

    fn happened(&self, stage: &StageAddress, event: Event) {
        // The receiver lives as long as the agent.
        let _ = self.events.send(Happened::To(stage.clone(), event));
    }

    /// Does what is to be done after each event.
    async fn act(self: Arc<Self>, mut happened: mpsc::UnboundedReceiver<Happened>) {
        while let Some(happened) = happened.recv().await {
            match happened {
                Happened::To(address, event) => self.step([(address, event)]).await,
                Happened::All => {
                    self.looks.store(false, Ordering::SeqCst);
                    let addresses: Vec<StageAddress> = {
                        let mut state = self.state.lock();
                        state.members.forget(self.clock.now());
                        state.stages.keys().cloned().collect()
                    };
                    for some in addresses.chunks(LOOKS_AT_ONCE) {
                        let some = some.iter();
                        self.step(some.map(|address| (address.clone(), Event::Look)))
                            .await;
                        // Others have something to do, too.
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    /// Does what is to be done after these events, which are about different stages.
    async fn step(self: &Arc<Self>, events: impl IntoIterator<Item = (StageAddress, Event)>) {
        let mut over = Vec::new();
        let mut todo = Vec::new();
        {
            let mut state = self.state.lock();
            let now = self.clock.now();
            let State {
                members, stages, ..
            } = &mut *state;
            members.prepare(now);
            for (address, event) in events {
                let Some(stage) = stages.get_mut(&address) else {
                    continue;
                };
                let actions = stage.ownership.step(event, members, now);
                if stage.is_gone && stage.ownership.is_free() {
                    over.push(address.clone());
                }
                if !actions.is_empty() {
                    todo.push((address, actions, stage.parts.clone()));
                }
            }
            for address in &over {
                state.forget(address);
            }
        }
        for address in over {
            self.deployer.remove(&address).await;
        }
        for (address, actions, parts) in todo {
            for action in actions {
                self.start_action(&address, action, &parts);
            }
        }
    }

    fn start_action(self: &Arc<Self>, address: &StageAddress, action: Action, parts: &[Part]) {
        let (share, takes) = match action {
            Action::Announce => return self.announce.notify_one(),
            Action::Take(share) => (share, true),
            Action::Release(share) => (share, false),
        };
        let Some(part) = parts.get(share as usize).copied() else {
            let event = match takes {
                true => Event::NotTaken { share },
                false => Event::Released { share },
            };
            return self.happened(address, event);
        };
        let (shared, address) = (self.clone(), address.clone());
        tokio::spawn(async move {
            let event = match takes {
                true => shared.take(&address, share, part).await,
                false => shared.release(&address, share, part).await,
            };
            shared.happened(&address, event);
        });
    }

    async fn take(&self, address: &StageAddress, share: u32, part: Part) -> Event {
        match self.runtime.take(address, part).await {
            Ok(epoch) => Event::Taken { share, epoch },
            Err(error) => {
                tracing::warn!(stage = %address, ?part, %error, "a part could not be taken; trying again");
                Event::NotTaken { share }
            }
        }
    }

    async fn release(&self, address: &StageAddress, share: u32, part: Part) -> Event {
        // Either way nothing of it is under way here any more.
        if let Err(error) = self.runtime.release(address, part).await {
            tracing::warn!(stage = %address, ?part, %error, "a part was left before it was done; it goes on elsewhere");
        }
        Event::Released { share }
    }

    /// Learns what other nodes have taken from this one.
    async fn notice_losses(self: Arc<Self>) {
        loop {
            let (address, part) = self.runtime.next_lost().await;
            let share = {
                let state = self.state.lock();
                let parts = state.stages.get(&address).map(|stage| &stage.parts);
                parts.and_then(|parts| parts.iter().position(|other| *other == part))
            };
            if let Some(share) = share {
                let share = share as u32;
                self.happened(&address, Event::Fenced { share });
            }
        }
    }
}

fn order_name(node: &Name) -> Result<Name, BusError> {
    Name::new(&format!("{ORDERS}{node}")).map_err(|error| BusError::Refused {
        reason: error.to_string(),
    })
}

fn parsed_order(document: &Document) -> Order {
    let Some(body) = &document.body else {
        return Order::default();
    };
    serde_json::from_slice(body).unwrap_or_else(|error| {
        tracing::warn!(%error, "what a node is told to be cannot be read, so it does as usual");
        Order::default()
    })
}

/// The name of the document that defines a stage.
pub fn definition_name(stage: &StageAddress) -> Result<Name, kernel::NameError> {
    Name::new(&format!("{DEFINITIONS}{stage}"))
}
