//! Commits on their way to disk. The worker goes on meanwhile; what they send within this process
//! leaves, in order, once they are permanent.

use std::collections::VecDeque;
use std::sync::Arc;

use bus::Submitted;
use parking_lot::Mutex;

use super::Cell;
use crate::control::Control;
use crate::outgoing::Locals;

/// How many commits of one worker may be on their way.
const COMMITS_MAX: usize = 32;

/// Commits of one worker that are not permanent yet.
#[derive(Default)]
pub(crate) struct Completions {
    queue: Mutex<Queue>,
    changed: event_listener::Event,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Submitted, Locals)>,
    /// A task waits for the first of them.
    running: bool,
}

impl Completions {
    pub fn is_empty(&self) -> bool {
        !self.queue.lock().running
    }

    /// Adds a commit; waits if there are too many already.
    pub async fn push(self: &Arc<Self>, cell: &Arc<Cell>, submitted: Submitted, local: Locals) {
        self.wait_until(|queue| queue.waiting.len() < COMMITS_MAX)
            .await;
        let mut queue = self.queue.lock();
        queue.waiting.push_back((submitted, local));
        if std::mem::replace(&mut queue.running, true) {
            return;
        }
        drop(queue);
        let (completions, cell) = (self.clone(), cell.clone());
        tokio::spawn(async move { completions.run(&cell).await });
    }

    /// Waits until all are permanent.
    pub async fn flush(&self) {
        self.wait_until(|queue| !queue.running).await;
    }

    async fn wait_until(&self, is_true: impl Fn(&Queue) -> bool) {
        loop {
            let changed = self.changed.listen();
            if is_true(&self.queue.lock()) {
                return;
            }
            changed.await;
        }
    }

    async fn run(&self, cell: &Arc<Cell>) {
        while let Some((submitted, local)) = self.next() {
            self.changed.notify(usize::MAX);
            match submitted.permanent().await {
                Ok(_) => {
                    local.deliver(&cell.stage.runtime).await;
                }
                Err(error) => {
                    tracing::error!(worker = %cell.address(), %error, "a commit did not become permanent; its worker begins anew from what did");
                    cell.control(Control::Reload);
                }
            }
        }
        self.changed.notify(usize::MAX);
    }

    fn next(&self) -> Option<(Submitted, Locals)> {
        let mut queue = self.queue.lock();
        let next = queue.waiting.pop_front();
        queue.running = next.is_some();
        next
    }
}
