//! Those who wait in this process for an answer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use kernel::worker::Answer;
use kernel::{Message, Name};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Waiters that have an address, by their number.
#[derive(Default)]
pub(crate) struct Waiters {
    by_number: Mutex<HashMap<u64, Weak<Waiter>>>,
    next: AtomicU64,
}

/// The first part of the name of every queue that stands for a waiter in this process.
pub(crate) const WAITING: &str = "hivewire.waiting.";

/// Somebody who waits for one answer.
pub(crate) struct Waiter {
    sender: Mutex<Option<oneshot::Sender<Message>>>,
    waiters: Arc<Waiters>,
    /// The process, so that an address never means a waiter of another one.
    process: u64,
    /// Given when somebody wants the address.
    number: AtomicU64,
}

impl Waiter {
    pub fn new(waiters: &Arc<Waiters>, process: u64) -> (Arc<Self>, oneshot::Receiver<Message>) {
        let (sender, receiver) = oneshot::channel();
        let waiter = Self {
            sender: Mutex::new(Some(sender)),
            waiters: waiters.clone(),
            process,
            number: AtomicU64::new(0),
        };
        (Arc::new(waiter), receiver)
    }
}

impl Answer for Waiter {
    fn answer(&self, message: Message) {
        if let Some(sender) = self.sender.lock().take() {
            // If nobody waits any more the answer came too late, which its asker knows.
            let _ = sender.send(message);
        }
    }

    fn address(self: Arc<Self>) -> String {
        let number = self.waiters.register(&self);
        format!("queue:{WAITING}{}.{number}", self.process)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let number = *self.number.get_mut();
        if number != 0 {
            self.waiters.by_number.lock().remove(&number);
        }
    }
}

impl Waiters {
    fn register(&self, waiter: &Arc<Waiter>) -> u64 {
        let mut by_number = self.by_number.lock();
        let known = waiter.number.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        waiter.number.store(number, Ordering::Relaxed);
        by_number.insert(number, Arc::downgrade(waiter));
        number
    }

    /// Whether a queue stands for a waiter of this process and, if so, who it is. One who no longer
    /// waits gives `Some(None)`.
    pub fn find(&self, process: u64, queue: &Name) -> Option<Option<Arc<Waiter>>> {
        let rest = queue.as_str().strip_prefix(WAITING)?;
        let (of, number) = rest.split_once('.')?;
        if of.parse() != Ok(process) {
            return None;
        }
        let number: u64 = number.parse().ok()?;
        Some(self.by_number.lock().get(&number).and_then(Weak::upgrade))
    }
}
