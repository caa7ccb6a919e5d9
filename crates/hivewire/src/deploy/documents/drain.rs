//! When nothing waits for a stage any more.

use std::time::Duration;

use kernel::StageAddress;
use tokio::time::{Instant, sleep};

use super::error::StepError;
use crate::deploy::Deployments;

/// How long stages may take until nothing waits for them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So often in a row nothing must wait and nothing be done, as what is on its way between two stages is nowhere to be
/// seen for a moment.
const QUIET_LOOKS: u32 = 5;

/// What a stage has to do and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    waiting: u64,
    turns: u64,
}

impl Deployments {
    /// Waits until nothing waits for any of these stages.
    pub(super) async fn drained(&self, stages: &[StageAddress]) -> Result<(), StepError> {
        let end = Instant::now() + DRAIN_TIMEOUT;
        let mut before = self.seen(stages);
        let mut quiet = 0;
        loop {
            sleep(LOOK_EVERY).await;
            let now = self.seen(stages);
            quiet = match now.waiting == 0 && now == before {
                true => quiet + 1,
                false => 0,
            };
            if quiet >= QUIET_LOOKS {
                return Ok(());
            }
            if Instant::now() > end {
                let stages: Vec<String> = stages.iter().map(StageAddress::to_string).collect();
                return Err(StepError::NotDrained {
                    stages: stages.join(" and "),
                    messages: now.waiting,
                });
            }
            before = now;
        }
    }

    fn seen(&self, stages: &[StageAddress]) -> Seen {
        let mut seen = Seen::default();
        for stage in stages {
            if let Some(view) = self.runtime.stage(stage) {
                seen.waiting += view.waiting;
                seen.turns += view.turns;
            }
            seen.waiting += self.waiting_in_queues(stage);
        }
        seen
    }

    /// What waits in the queues of a stage and of its parts, if the broker is in this process. Elsewhere nobody can
    /// tell; what waits there stays there.
    pub(crate) fn waiting_in_queues(&self, stage: &StageAddress) -> u64 {
        let Some(broker) = self.broker.get() else {
            return 0;
        };
        let queue = stage.queue();
        let parts = format!("{queue}.");
        let names = broker.queue_names(None, Some(queue.as_str())).into_iter();
        let own = names.filter(|name| *name == queue || name.as_str().starts_with(&parts));
        let queues = own.filter_map(|name| broker.find_queue(name.as_str()));
        let waiting = queues.map(|queue| {
            let stats = queue.stats();
            stats.waiting + stats.unacknowledged
        });
        waiting.sum::<usize>() as u64
    }
}
