//! What this node is told to be, and which stages there are.

use std::sync::Arc;

use bus::{BusError, Document, Put};
use kernel::{Name, StageAddress};
use tokio::task::JoinSet;

use super::{CALL, DEFINITIONS, PAUSE, Shared, Stage, definition_name, order_name, parsed_order};
use crate::heartbeat::NodeState;
use crate::order::Order;
use crate::ownership::{Event, Ownership, Share};

/// How many definitions are read at a time.
const DEFINITIONS_MAX: usize = 1_000;
/// Definitions are looked for so many heartbeats apart, unless somebody goes by a newer one; and less
/// often the more there are.
const LOOK_EVERY_BEATS: u32 = 5;
/// If more than so many definitions have changed, all are read.
const STALE_MAX: usize = 100;
/// How many definitions are deployed at a time.
const DEPLOYS_AT_ONCE: usize = 16;
/// How often a change is tried while others make theirs.
const CHANGES_MAX: usize = 10;

impl Shared {
    /// Reads what this node is told to be with every heartbeat; single definitions when they have
    /// changed; and all of them now and then, or if somebody goes by others.
    pub(super) async fn define(self: Arc<Self>) {
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
    pub(super) fn beats_between(&self) -> u32 {
        let stages = self.state.lock().stages.len();
        LOOK_EVERY_BEATS * (1 + stages / DEFINITIONS_MAX) as u32
    }

    /// Reads what this node is told to be, and is that.
    pub(super) async fn obey(&self) -> Result<(), BusError> {
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
        let was_paused = {
            let mut state = self.state.lock();
            state.order_revision = Some(document.revision);
            let was = std::mem::replace(&mut state.order, order.clone());
            // If it is still to rest it does so again.
            std::mem::take(&mut state.rests) || was.state == NodeState::Paused
        };
        match (was_paused, order.state == NodeState::Paused) {
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

    pub(super) async fn change_order(
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
    pub(super) async fn define_all(self: Arc<Self>) -> Result<(), BusError> {
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
    pub(super) async fn define_stale(self: Arc<Self>) -> Result<(), BusError> {
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
    pub(super) async fn all_defined(self: Arc<Self>, defined: Vec<(StageAddress, Document)>) {
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

    pub(super) fn is_news(&self, address: &StageAddress, revision: u64) -> bool {
        let state = self.state.lock();
        let known = state.stages.get(address);
        known.is_none_or(|known| known.revision < revision)
    }

    pub(super) async fn defined(&self, address: StageAddress, document: Document) {
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
        // Whoever made the definition waits until all say that they go by it.
        self.announce.notify_one();
    }
}
