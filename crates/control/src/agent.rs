//! Sees to a node's part in all shared stages: listens to the others, speaks for itself, takes and
//! lets go.
//!
//! It does I/O, and what is to be done say the state machines. Whatever it
//! starts reports back as an [`Event`], so nothing waits for anything else.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bus::{Bus, BusError, Document, Put};
use kernel::{Clock, Destination, Message, Name, StageAddress};
use parking_lot::Mutex;
use runtime::{Part, Runtime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::heartbeat::{Heartbeat, NodeState};
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
/// Definitions are looked for so many heartbeats apart, unless somebody goes by a newer one.
const LOOK_EVERY_BEATS: u32 = 5;
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
    events: mpsc::UnboundedSender<(StageAddress, Event)>,
}

struct State {
    members: Members,
    stages: HashMap<StageAddress, Stage>,
    order: Order,
    /// The process is about to end.
    leaves: bool,
    /// The revision of the document that says so.
    order_revision: Option<u64>,
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

struct Stage {
    ownership: Ownership,
    parts: Vec<Part>,
    revision: u64,
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
                start,
                number: 0,
            }),
            announce: Notify::new(),
            redefine: Notify::new(),
            events,
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

    /// Definitions have changed: they are read at once instead of a little later.
    pub fn definitions_changed(&self) {
        self.shared.redefine.notify_one();
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
        let is_newer = beat.stages.iter().any(|(stage, theirs)| {
            let known = stage
                .parse()
                .ok()
                .and_then(|stage| state.stages.get(&stage));
            known.is_none_or(|known: &Stage| known.revision < theirs.revision)
        });
        if is_newer {
            self.redefine.notify_one();
        }
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
        let has_listened = state.members.has_listened(self.clock.now());
        let stages = state.stages.iter();
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
            stages: stages
                .map(|(address, stage)| (address.to_string(), stage.ownership.beat()))
                .collect(),
        }
    }

    fn is_drained(&self) -> bool {
        let state = self.state.lock();
        let holds_nothing = |stage: &Stage| stage.ownership.beat().holds.count() == 0;
        state.ready_for() == NodeState::Draining && state.stages.values().all(holds_nothing)
    }

    /// Reads what this node is told to be with every heartbeat, and definitions now and then and
    /// when somebody goes by a newer one.
    async fn define(self: Arc<Self>) {
        let every = self.settings.rules.heartbeat_every;
        let mut beats = 0_u32;
        loop {
            let read = async {
                self.obey().await?;
                match beats % LOOK_EVERY_BEATS {
                    0 => self.define_once().await,
                    _ => Ok(()),
                }
            };
            if let Err(error) = read.await {
                tracing::warn!(%error, "the definitions of the stages cannot be read; trying again");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            let is_asked = tokio::time::timeout(every, self.redefine.notified()).await;
            beats = match is_asked {
                Ok(()) => 0,
                Err(_) => beats.wrapping_add(1),
            };
        }
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

    async fn define_once(&self) -> Result<(), BusError> {
        let mut after: Option<Name> = None;
        loop {
            let after_now = after.take();
            let documents = self
                .bus
                .documents(DEFINITIONS, after_now.as_ref(), DEFINITIONS_MAX, CALL)
                .await?;
            let is_last = documents.len() < DEFINITIONS_MAX;
            after = documents.last().map(|(name, _)| name.clone());
            for (name, document) in documents {
                let address = name.as_str().strip_prefix(DEFINITIONS);
                match address.and_then(|address| address.parse().ok()) {
                    Some(address) => self.defined(address, document).await,
                    None => tracing::warn!(%name, "a definition has a name that is no stage's"),
                }
            }
            if is_last {
                return Ok(());
            }
        }
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
                    return;
                }
            },
            None if known.is_none() => return,
            None => Share::default(),
        };
        let rule = Share {
            revision: document.revision,
            ..rule
        };
        let parts = self.runtime.parts(&address);
        let mut state = self.state.lock();
        let is_new = !state.stages.contains_key(&address);
        let stage = state
            .stages
            .entry(address.clone())
            .or_insert_with(|| Stage {
                ownership: Ownership::new(&address.to_string(), rule.clone()),
                parts: Vec::new(),
                revision: 0,
                is_gone: false,
            });
        stage.revision = document.revision;
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
        let addresses: Vec<StageAddress> = {
            let mut state = self.state.lock();
            state.members.forget(self.clock.now());
            state.stages.keys().cloned().collect()
        };
        for address in addresses {
            self.happened(&address, Event::Look);
        }
    }

    fn happened(&self, stage: &StageAddress, event: Event) {
        // The receiver lives as long as the agent.
        let _ = self.events.send((stage.clone(), event));
    }

    /// Does what is to be done after each event.
    async fn act(self: Arc<Self>, mut happened: mpsc::UnboundedReceiver<(StageAddress, Event)>) {
        while let Some((address, event)) = happened.recv().await {
            let (actions, parts, is_over) = {
                let mut state = self.state.lock();
                let State {
                    members, stages, ..
                } = &mut *state;
                let Some(stage) = stages.get_mut(&address) else {
                    continue;
                };
                let actions = stage.ownership.step(event, members, self.clock.now());
                let is_over = stage.is_gone && stage.ownership.is_free();
                (actions, stage.parts.clone(), is_over)
            };
            if is_over {
                self.state.lock().stages.remove(&address);
                self.deployer.remove(&address).await;
            }
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
