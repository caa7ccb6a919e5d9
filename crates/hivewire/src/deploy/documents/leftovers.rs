//! What waits in queues that nobody reads any more, after a stage became one of another kind.

use std::time::Duration;

use bus::BusError;
use kernel::{Destination, Name, StageAddress};
use runtime::{StageKind, StageSpec};

use crate::deploy::Deployments;

const TIMEOUT: Duration = Duration::from_secs(30);
/// How long it is looked for more.
const LOOK: Duration = Duration::from_millis(200);
const BATCH_MESSAGES: u32 = 500;

impl Deployments {
    /// Sends what waits in queues of parts that a stage no longer has to the stage itself. A crash in the middle may
    /// send some of it twice.
    pub(super) async fn bring_leftovers(&self, spec: &StageSpec) -> Result<u64, BusError> {
        let Some(broker) = self.broker.get() else {
            return Ok(0);
        };
        let prefix = format!("{}.", spec.address.queue());
        let mut brought = 0;
        for name in broker.queue_names(None, Some(&prefix)) {
            let part = name.as_str().strip_prefix(&prefix).unwrap_or_default();
            let is_waiting = || {
                broker
                    .find_queue(name.as_str())
                    .is_some_and(|queue| queue.stats().waiting > 0)
            };
            if is_left(part, spec) && is_waiting() {
                brought += self.bring(&name, &spec.address).await?;
            }
        }
        Ok(brought)
    }

    async fn bring(&self, from: &Name, to: &StageAddress) -> Result<u64, BusError> {
        let (from, to) = (
            Destination::Queue(from.clone()),
            Destination::Queue(to.queue()),
        );
        let subscription = self.bus.subscribe(&from, BATCH_MESSAGES, TIMEOUT).await?;
        let mut brought = 0;
        loop {
            let deliveries = subscription
                .next_batch(BATCH_MESSAGES as usize, LOOK)
                .await?;
            if deliveries.is_empty() {
                return Ok(brought);
            }
            brought += deliveries.len() as u64;
            let mut messages = deliveries
                .iter()
                .map(|delivery| delivery.message.clone())
                .collect();
            self.bus.publish(&to, &mut messages, TIMEOUT).await?;
            let receipts: Vec<_> = deliveries.iter().map(|delivery| delivery.receipt).collect();
            subscription.acknowledge(&receipts, TIMEOUT).await?;
        }
    }
}

/// Whether a stage that is so reads no queue of this part: `b7` is a bucket, `3` a worker.
fn is_left(part: &str, spec: &StageSpec) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match part.strip_prefix('b') {
        Some(bucket) => is_number(bucket) && !matches!(spec.kind, StageKind::Keyed(_)),
        None => {
            is_number(part)
                && part
                    .parse::<u32>()
                    .is_ok_and(|worker| worker >= spec.workers)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_workers_that_are_no_more_leave_something() {
        let pool = StageSpec::new("a/b".parse().unwrap()).workers(2);
        for (part, expected) in [
            ("b7", true),
            ("2", true),
            ("1", false),
            ("1.child", false),
            ("bx", false),
            ("", false),
        ] {
            assert_eq!(is_left(part, &pool), expected, "{part}");
        }
        let keyed = pool.kind(StageKind::Keyed("body".parse().unwrap()));
        assert!(!is_left("b7", &keyed));
    }
}
