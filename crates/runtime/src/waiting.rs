//! Those who wait in this process for an answer.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use kernel::worker::Answer;
use kernel::{Message, Name};
use parking_lot::Mutex;

/// Waiters that have an address, by their number.
#[derive(Default)]
pub(crate) struct Waiters {
    by_number: Mutex<HashMap<u64, Weak<Waiter>>>,
    next: AtomicU64,
}

/// The first part of the name of every queue that stands for a waiter in this process.
pub(crate) const WAITING: &str = "hivewire.waiting.";

/// How long an asker looks for the answer before it sleeps; waking it would take as long.
const LOOK_FOR: Duration = Duration::from_micros(20);
/// So many looks are about a microsecond.
const LOOKS_AT_ONCE: u32 = 32;
/// After an answer that took longer, so many askers sleep at once.
const SLEEPERS: u32 = 64;

/// What is known about the answers of a stage: whether they come so fast that it is better to look
/// for them than to sleep.
#[derive(Default)]
pub(crate) struct Answers {
    /// So many askers do not look.
    sleepers: AtomicU32,
}

impl Answers {
    /// Looks for an answer for a moment, if that is worth it. Whether it was found.
    pub fn look_for(&self, is_there: impl Fn() -> bool) -> bool {
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        if sleepers > 0 {
            self.sleepers.store(sleepers - 1, Ordering::Relaxed);
            return false;
        }
        let until = Instant::now() + LOOK_FOR;
        while Instant::now() < until {
            for _ in 0..LOOKS_AT_ONCE {
                if is_there() {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        self.sleepers.store(SLEEPERS, Ordering::Relaxed);
        false
    }
}

/// Somebody who waits for one answer.
pub(crate) struct Waiter {
    slot: Mutex<Slot>,
    /// Whether the slot has the answer, readable without its lock.
    is_answered: AtomicBool,
    waiters: Arc<Waiters>,
    /// The process, so that an address never means a waiter of another one.
    process: u64,
    /// Given when somebody wants the address.
    number: AtomicU64,
}

#[derive(Default)]
struct Slot {
    answer: Option<Message>,
    waker: Option<Waker>,
}

impl Waiter {
    pub fn new(waiters: &Arc<Waiters>, process: u64) -> Arc<Self> {
        Arc::new(Self {
            slot: Mutex::default(),
            is_answered: AtomicBool::new(false),
            waiters: waiters.clone(),
            process,
            number: AtomicU64::new(0),
        })
    }

    /// Whether the answer is there.
    pub fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Acquire)
    }

    /// The answer, if it is there.
    pub fn take(&self) -> Option<Message> {
        match self.is_answered() {
            true => self.slot.lock().answer.take(),
            false => None,
        }
    }

    /// Waits for the answer.
    pub async fn answered(&self) -> Message {
        poll_fn(|context| {
            let mut slot = self.slot.lock();
            if let Some(answer) = slot.answer.take() {
                return Poll::Ready(answer);
            }
            slot.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Answer for Waiter {
    /// The first answer counts. One that comes when nobody waits any more came too late, which its
    /// asker knows.
    fn answer(&self, message: Message) {
        let mut slot = self.slot.lock();
        if self.is_answered.swap(true, Ordering::AcqRel) {
            return;
        }
        slot.answer = Some(message);
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
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
