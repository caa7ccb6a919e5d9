//! Sees to a node's part in all shared stages: listens to the others, speaks for itself, takes and
//! lets go.
//!
//! It does I/O, and what is to be done say the state machines. Whatever it
//! starts reports back as an [`Event`], so nothing waits for anything else.

mod acting;
mod beating;
mod defining;
mod state;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use async_trait::async_trait;
use bus::{Bus, BusError, Document};
use kernel::{Clock, Destination, Name, StageAddress, Timestamp};
use parking_lot::Mutex;
use runtime::{Part, Runtime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::heartbeat::NodeState;
use crate::members::{Member, Members, Rules};
use crate::order::Order;
use crate::ownership::{Event, Ownership, Share};

/// The topic of the heartbeats. Only nodes may write to it.
pub const HEARTBEATS: &str = "hivewire.nodes";

/// How the names of documents begin that define stages.
pub const DEFINITIONS: &str = "hivewire.stage.";

/// How the names of documents begin that say what nodes are told to be.
const ORDERS: &str = "hivewire.node.";

const CALL: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
/// How often a node that leaves looks whether it has given everything away.
const LEAVE_LOOK: Duration = Duration::from_millis(20);

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
    /// It has given everything away, and pulls nothing.
    rests: bool,
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
                rests: false,
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
