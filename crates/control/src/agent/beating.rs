//! Listening to heartbeats, and sending them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::BusError;
use kernel::{Message, StageAddress};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::{CALL, Ended, PAUSE, Shared, Stage, heartbeats};
use crate::heartbeat::{Heartbeat, NodeState};
use crate::members::Heard;

/// How long one look for heartbeats waits.
const LOOK: Duration = Duration::from_secs(1);
/// How many heartbeats are on their way at most.
const CREDIT: u32 = 1_024;
/// So many are acknowledged together: each for itself would double what the bus has to do.
const ACKNOWLEDGE_AT: usize = 256;
/// How often a node that starts looks whether it has listened long enough.
const LISTEN_LOOK: Duration = Duration::from_millis(20);

impl Shared {
    /// Listens to heartbeats, its own among them.
    pub(super) async fn listen(self: Arc<Self>, end: Arc<watch::Sender<Option<Ended>>>) {
        loop {
            if let Err(error) = self.listen_once(&end).await {
                tracing::warn!(%error, "no heartbeats can be heard; trying again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    pub(super) async fn listen_once(
        &self,
        end: &watch::Sender<Option<Ended>>,
    ) -> Result<(), BusError> {
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

    pub(super) fn heard(&self, beat: Heartbeat) -> Heard {
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
    pub(super) async fn listen_first(self: Arc<Self>) {
        while !self.has_listened() {
            tokio::time::sleep(LISTEN_LOOK).await;
        }
        self.announce.notify_one();
    }

    pub(super) fn has_listened(&self) -> bool {
        let state = self.state.lock();
        state.members.has_listened(self.clock.now())
    }

    /// Sends heartbeats: regularly, and when there is something to say.
    pub(super) async fn speak(self: Arc<Self>, end: Arc<watch::Sender<Option<Ended>>>) {
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
            if self.is_drained() {
                self.rest().await;
                if self.state.lock().order.stop {
                    end.send_replace(Some(Ended::Stopped));
                }
            }
        }
    }

    pub(super) async fn say(&self) {
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

    pub(super) fn beat(&self) -> Heartbeat {
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

    pub(super) fn is_drained(&self) -> bool {
        let state = self.state.lock();
        let has_to_give = |stage: &Stage| stage.ownership.has_to_give();
        state.ready_for() == NodeState::Draining && !state.stages.values().any(has_to_give)
    }

    /// Everything was given away. What this node has for itself gets nothing more, either.
    async fn rest(&self) {
        if !std::mem::replace(&mut self.state.lock().rests, true) {
            self.runtime.pause().await;
        }
    }
}
