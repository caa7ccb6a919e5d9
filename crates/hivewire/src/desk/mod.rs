//! What a node is asked for by name: past lines of its log, its configuration, a profile, its alerts, what it has of a crawl. People ask any
//! node; if another is meant, that one is asked over the bus.

mod asking;
mod request;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bus::Bus;
use control::{CommandError, CommandHandler, Commands};
use kernel::{Clock, Name};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::asking::Answered;
pub(crate) use self::request::{LogPage, Refusal, RefusalKind, Request};
use crate::alerts::AlertService;
use crate::cluster::machine_name;
use crate::config::live::SharedConfig;
use crate::deploy::Deployments;
use crate::logs::{Filter, LogSharing, LogStore, Wanted};
use crate::profile;

/// What the asked node answers to as well as to its name.
pub(crate) const LOCALHOST: &str = "localhost";
/// How long another node may take over something that takes no time.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long another node may take to say what is wrong: somebody is looking, and the others' alerts wait for it.
const ALERTS_TIMEOUT: Duration = Duration::from_secs(3);
/// How long it may take, after a profile, to find out what the functions are called.
const PROFILE_SLACK: Duration = Duration::from_secs(45);
/// How long it may take to look something up in the store of a crawl.
const CRAWL_TIMEOUT: Duration = Duration::from_secs(60);

/// Answers for this node, and asks others.
pub(crate) struct Desk {
    name: String,
    clock: Arc<dyn Clock>,
    config: SharedConfig,
    logs: Arc<LogStore>,
    sharing: Arc<LogSharing>,
    deployments: Arc<Deployments>,
    alerts: Arc<AlertService>,
    commands: OnceLock<Commands>,
}

impl Desk {
    /// The desk of this node. If it is one among several, they can ask it from now on.
    pub fn new(
        bus: &Arc<dyn Bus>,
        clock: Arc<dyn Clock>,
        config: SharedConfig,
        logs: Arc<LogStore>,
        deployments: Arc<Deployments>,
        alerts: Arc<AlertService>,
    ) -> Arc<Self> {
        let (name, shared_bus) = match deployments.agent() {
            Some(agent) => (agent.name().to_string(), Some(bus.clone())),
            None => (machine_name().unwrap_or_else(|| LOCALHOST.to_owned()), None),
        };
        let desk = Arc::new(Self {
            sharing: LogSharing::start(&name, shared_bus, logs.clone()),
            name,
            clock,
            config,
            logs,
            deployments,
            alerts,
            commands: OnceLock::new(),
        });
        if let Some(agent) = desk.deployments.agent() {
            let served = Arc::new(Served(Arc::downgrade(&desk)));
            let (name, start) = (agent.name().clone(), agent.start_number());
            let commands = Commands::start(bus.clone(), name, start, served);
            if desk.commands.set(commands).is_err() {
                unreachable!("it was just made");
            }
        }
        desk
    }

    /// Follows the logs of all nodes.
    pub fn logs(&self) -> &Arc<LogSharing> {
        &self.sharing
    }

    /// Other nodes hear nothing from here any more.
    pub fn close(&self) {
        self.sharing.stop();
    }

    /// The time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.clock.now().as_millis()
    }

    /// What a node that somebody named is called, if there is one.
    pub fn known(&self, node: &str) -> Result<String, Refusal> {
        if self.is_me(node) {
            return Ok(self.name.clone());
        }
        match self.nodes().iter().any(|name| name == node) {
            true => Ok(node.to_owned()),
            false => Err(self.no_node(node)),
        }
    }

    /// Somebody follows the logs of a node, or of all.
    pub fn wanted(&self, node: Option<String>, filter: Filter) -> Wanted {
        Wanted {
            follower: format!("{:016x}", fastrand::u64(..)),
            at: self.name.clone(),
            node,
            filter,
        }
    }

    fn no_node(&self, node: &str) -> Refusal {
        Refusal::unknown(match self.deployments.agent() {
            Some(_) => format!("there is no node {node:?} that lives: see `hivewire nodes`"),
            None => format!(
                "there is no node {node:?}: this one stands alone and is called {:?}",
                self.name
            ),
        })
    }

    /// What this node is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All nodes that can be asked, this one first.
    pub fn nodes(&self) -> Vec<String> {
        let mut nodes = vec![self.name.clone()];
        if let Some(agent) = self.deployments.agent() {
            let others = agent.nodes().into_iter().map(|member| member.last.node);
            nodes.extend(others.filter(|node| *node != self.name));
        }
        nodes
    }

    /// Asks a node, or without a name this one.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        node: Option<&str>,
        request: Request,
    ) -> Result<T, Refusal> {
        let answer = match node {
            Some(node) if !self.is_me(node) => self.ask_other(node, request).await?,
            _ => self.answer(request).await?,
        };
        serde_json::from_value(answer)
            .map_err(|error| Refusal::failed(format!("the answer cannot be understood: {error}")))
    }

    fn is_me(&self, node: &str) -> bool {
        let is_another = || self.nodes().iter().any(|name| name == node);
        node == self.name || node == LOCALHOST && !is_another()
    }

    async fn ask_other(&self, node: &str, request: Request) -> Result<Value, Refusal> {
        let agent = self.deployments.agent();
        let agent = agent.ok_or_else(|| self.no_node(node))?;
        let commands = self.commands.get();
        let commands = commands.ok_or_else(|| Refusal::busy("the node is still starting"))?;
        let mut known = agent.known().into_iter();
        let found = known.find(|(member, _)| member.last.node == node);
        let (member, lives) = found.ok_or_else(|| self.no_node(node))?;
        if !lives {
            return Err(Refusal::conflict(format!(
                "the node {node:?} is not there: it sends no heartbeats"
            )));
        }
        let name = Name::new(node).map_err(|error| Refusal::bad(error.to_string()))?;
        let timeout = request.timeout();
        let command = serde_json::to_value(request)
            .map_err(|error| Refusal::failed(format!("it cannot be asked: {error}")))?;
        let asked = commands.ask(&name, member.last.start, command, timeout);
        asked.await.map_err(|error| match error {
            CommandError::Refused(value) => serde_json::from_value(value)
                .unwrap_or_else(|_| Refusal::failed(format!("{node} refuses without a reason"))),
            CommandError::NoAnswer { .. } => Refusal::late(error.to_string()),
            CommandError::Restarted { .. } | CommandError::Busy { .. } => {
                Refusal::busy(error.to_string())
            }
            CommandError::Strange { .. } | CommandError::Bus(_) => {
                Refusal::failed(error.to_string())
            }
        })
    }

    /// Does what this node is asked for.
    async fn answer(&self, request: Request) -> Result<Value, Refusal> {
        let answer = match request {
            Request::Logs {
                filter,
                before,
                limit,
                wanted,
            } => {
                // Before the past is read, so that nothing is missed in between.
                if let Some(wanted) = wanted {
                    self.sharing.wanted(*wanted);
                }
                let limit = limit.min(request::LOG_LINES_MAX);
                let before = before.unwrap_or(u64::MAX);
                let lines = self.logs.page(before, limit, filter).await;
                let lines = lines.map_err(|error| Refusal::busy(error.to_string()))?;
                serde_json::to_value(LogPage { lines })
            }
            Request::Config => serde_json::to_value(self.config.list()),
            Request::ConfigKey { key } => serde_json::to_value(self.config.show(&key)?),
            Request::ConfigChange { key, value, by } => {
                let changed = self.config.change(&key, value, by, self.now_ms());
                serde_json::to_value(changed.await?)
            }
            Request::ConfigHistory { before, limit } => {
                serde_json::to_value(self.config.history(before, limit))
            }
            Request::Profile { seconds } => {
                let taking = tokio::task::spawn_blocking(move || profile::take(seconds));
                let taken = taking
                    .await
                    .map_err(|error| Refusal::failed(error.to_string()))?;
                serde_json::to_value(taken?)
            }
            Request::Alerts => serde_json::to_value(self.alerts.seen()),
            Request::Crawl(question) => {
                return crate::crawls::answer(&self.deployments, question).await;
            }
        };
        answer.map_err(|error| Refusal::failed(format!("it cannot be told: {error}")))
    }
}

/// What other nodes ask this one. It must not keep the desk alive.
struct Served(std::sync::Weak<Desk>);

#[async_trait]
impl CommandHandler for Served {
    async fn handle(&self, from: &str, command: Value) -> Result<Value, Value> {
        let answered = async {
            let desk = self.0.upgrade();
            let desk = desk.ok_or_else(|| Refusal::busy("the node is about to end"))?;
            let request: Request = serde_json::from_value(command).map_err(|_| {
                Refusal::bad("this is not understood: do all nodes have the same version?")
            })?;
            tracing::debug!(from, "asked by another node");
            desk.answer(request).await
        };
        let told = answered.await;
        told.map_err(|refusal| serde_json::to_value(refusal).unwrap_or_default())
    }
}
