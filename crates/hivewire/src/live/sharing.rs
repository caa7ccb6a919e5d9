//! Live numbers on their way between nodes.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError};
use kernel::{Destination, Message, Name};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::numbers::Changes;

/// The topic of the numbers. Only nodes may write to it or read it.
const LIVE: &str = "hivewire.live";
/// The topic where nodes say that somebody watches there.
const WANTED: &str = "hivewire.live.wanted";

const CALL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);
const CREDIT: u32 = 256;
/// How many things one message names at most.
pub(super) const ENTRIES_MAX: usize = 200;

/// Somebody watches at a node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub node: String,
    pub period_ms: u64,
}

/// What a node tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    pub node: String,
    /// What belongs together: all, and what has changed since.
    pub run: u64,
    /// What was told before counts no more.
    pub complete: bool,
    pub changes: Changes,
}

/// The bus that nodes share.
pub(super) struct Sharing(Arc<dyn Bus>);

fn topic(name: &str) -> Destination {
    Destination::Topic(Name::new(name).expect("it is a name"))
}

impl Sharing {
    pub fn over(bus: Arc<dyn Bus>) -> Self {
        Self(bus)
    }

    pub async fn tell(&self, told: &Told) -> Result<(), BusError> {
        self.publish(LIVE, told).await
    }

    pub async fn want(&self, wanted: &Wanted) -> Result<(), BusError> {
        self.publish(WANTED, wanted).await
    }

    /// Hears who watches, for ever.
    pub async fn hear_wanted(&self, heard: impl FnMut(Wanted)) {
        self.listen(WANTED, heard).await;
    }

    /// Hears what nodes tell, for ever.
    pub async fn hear_told(&self, heard: impl FnMut(Told)) {
        self.listen(LIVE, heard).await;
    }

    async fn publish<T: Serialize>(&self, to: &str, what: &T) -> Result<(), BusError> {
        let body = serde_json::to_vec(what).map_err(|error| BusError::Refused {
            reason: format!("it cannot be written: {error}"),
        })?;
        let mut batch = vec![Message::new(body)];
        self.0.publish(&topic(to), &mut batch, CALL).await?;
        Ok(())
    }

    async fn listen<T: DeserializeOwned>(&self, to: &str, mut heard: impl FnMut(T)) {
        loop {
            if let Err(error) = self.listen_once(to, &mut heard).await {
                tracing::debug!(%error, topic = to, "nothing can be heard; trying again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn listen_once<T: DeserializeOwned>(
        &self,
        to: &str,
        heard: &mut impl FnMut(T),
    ) -> Result<(), BusError> {
        let subscription = self.0.subscribe(&topic(to), CREDIT, CALL).await?;
        loop {
            let deliveries = subscription.next_batch(CREDIT as usize, LOOK).await?;
            if deliveries.is_empty() {
                continue;
            }
            let receipts: Vec<_> = deliveries.iter().map(|one| one.receipt).collect();
            for delivery in &deliveries {
                match serde_json::from_slice(&delivery.message.body) {
                    Ok(one) => heard(one),
                    Err(error) => tracing::debug!(%error, topic = to, "this cannot be read"),
                }
            }
            subscription.acknowledge(&receipts, CALL).await?;
        }
    }
}
