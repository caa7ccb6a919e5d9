//! Notices what nobody tells: nodes that are gone, and how busy everything is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use control::NodeState;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::Events;
use super::event::{Event, kind};
use super::metrics::Numbers;
use crate::http;
use crate::rest::Running;

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Numbers are told every so many looks.
const LOOKS_PER_METRICS: u32 = 4;

/// What is known of a node.
struct Seen {
    lives: bool,
    start: u64,
    state: NodeState,
}

impl Events {
    /// Looks at regular intervals, until the node stops.
    pub async fn watch(self: Arc<Self>, running: Arc<Running>, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seen = HashMap::new();
        let mut numbers = Numbers::default();
        let mut looks = 0_u32;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = http::stopped(&mut stopped) => return,
            }
            self.look_at_nodes(&running, &mut seen);
            looks += 1;
            let is_new = self.metrics_anew.load(Ordering::SeqCst);
            if self.metrics_wanted.load(Ordering::SeqCst) == 0
                || (looks < LOOKS_PER_METRICS && !is_new)
            {
                continue;
            }
            looks = 0;
            self.metrics_anew.store(false, Ordering::SeqCst);
            let running = running.clone();
            let counting = tokio::task::spawn_blocking(move || {
                let changed = numbers.changed(&running, is_new);
                (numbers, changed)
            });
            match counting.await {
                Ok((kept, changed)) => {
                    numbers = kept;
                    changed.into_iter().for_each(|event| self.tell_here(event));
                }
                Err(error) => {
                    tracing::error!(%error, "counting broke off");
                    numbers = Numbers::default();
                }
            }
        }
    }

    /// Each node says of itself that it comes, changes and leaves; that it is gone has to be noticed.
    fn look_at_nodes(&self, running: &Running, seen: &mut HashMap<String, Seen>) {
        let Some(agent) = running.deployments.agent() else {
            return;
        };
        let mut before = std::mem::take(seen);
        for node in agent.states() {
            let now = Seen {
                lives: node.lives,
                start: node.start,
                state: node.state,
            };
            if let Some(was) = before.remove(&node.name) {
                let is_this = node.name == agent.name().as_str();
                self.compare(&node.name, is_this, &was, &now);
            }
            seen.insert(node.name, now);
        }
        self.left.lock().retain(|node| seen.contains_key(node));
    }

    fn compare(&self, node: &str, is_this: bool, was: &Seen, now: &Seen) {
        if is_this {
            if was.state != now.state {
                let changed = Event::new(kind::NODE, "changed");
                let state = serde_json::to_value(now.state).unwrap_or_default();
                self.tell(changed.with("state", state));
            }
            return;
        }
        let event = match (was.lives, now.lives) {
            (true, false) if !self.left.lock().contains(node) => "gone",
            // One that was started again says so itself.
            (false, true) if was.start == now.start => "returned",
            _ => return,
        };
        let event = Event::new(kind::NODE, event).with("seen_by", self.node());
        self.tell_of(event, node);
    }

    /// Tells only those who listen to this node, of another one.
    fn tell_of(&self, event: Event, node: &str) {
        let event = self.signed(event).with("node", node);
        self.ring.push(&event);
    }
}
