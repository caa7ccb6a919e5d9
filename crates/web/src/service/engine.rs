//! Where handlers run: on the event loops, or on an I/O thread if they are short.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::access::{Claim, Held};
use crate::extract::Problem;
use crate::locks::Parked;
use crate::loops::{Job, Loops, LoopsConfig};

use super::settings::Settings;

/// How often a call tries again to run on an I/O thread before it goes to the event loops.
const INLINE_TRIES: u32 = 64;

/// What runs the handlers of a service.
pub(crate) struct Engine {
    pub settings: Settings,
    pub loops: Arc<Loops>,
    inline_now: AtomicUsize,
    inline_max: OnceLock<usize>,
    overloaded: AtomicU64,
}

impl Engine {
    pub fn start(settings: Settings) -> Arc<Self> {
        let loops = Loops::start(LoopsConfig {
            loops: settings.loops.max(1),
            queued_max: settings.queued_max,
            long_after_ms: settings.long_after_ms,
            long_max: settings.long_max,
            name: "web".to_owned(),
        });
        Arc::new(Self {
            settings,
            loops,
            inline_now: AtomicUsize::new(0),
            inline_max: OnceLock::new(),
            overloaded: AtomicU64::new(0),
        })
    }

    /// Lets one call run on this I/O thread, unless so many do that none would be left for I/O.
    #[inline]
    pub fn inline(&self) -> Option<Inline<'_>> {
        let max = *self.inline_max.get_or_init(|| self.find_inline_max());
        for _ in 0..INLINE_TRIES {
            if self.inline_now.fetch_add(1, Ordering::Relaxed) < max {
                return Some(Inline { engine: self });
            }
            self.inline_now.fetch_sub(1, Ordering::Relaxed);
            // Such calls are short, so waiting for one costs less than going to another thread.
            std::hint::spin_loop();
        }
        None
    }

    fn find_inline_max(&self) -> usize {
        let io_threads = || Handle::try_current().map_or(1, |io| io.metrics().num_workers());
        let max = self.settings.inline_max;
        max.unwrap_or_else(|| io_threads().saturating_sub(1).max(1))
    }

    /// Runs this on an event loop, unless whoever awaits it gives up before.
    pub async fn run<T: Send + 'static>(
        &self,
        expected_ns: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let (sender, receiver) = oneshot::channel();
        let io = Handle::try_current().ok();
        let job: Job = Box::new(move || {
            if !sender.is_closed() {
                // Handlers may begin what needs the I/O threads, such as answers that go on.
                let _io = io.as_ref().map(Handle::enter);
                let _ = sender.send(work());
            }
        });
        let submitted = self.loops.submit(expected_ns, job);
        submitted.map_err(|_| self.refuse(LOOPS_FULL))?;
        receiver.await.map_err(|_| self.refuse(LOOPS_FULL))
    }

    /// Runs this on an event loop as soon as the claim is granted, unless whoever awaits it gives up before.
    pub async fn run_locked<T: Send + 'static>(
        &self,
        claim: &Claim,
        expected_ns: u64,
        work: impl FnOnce(Held) -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let (sender, mut receiver) = oneshot::channel();
        let loops = Arc::clone(&self.loops);
        let io = Handle::try_current().ok();
        let parked = claim.take_or_park(move |granted| {
            let job: Job = Box::new(move || {
                if !sender.is_closed() {
                    let _io = io.as_ref().map(Handle::enter);
                    let _ = sender.send(work(Held::of(granted)));
                }
            });
            if let Err((_, job)) = loops.submit(expected_ns, job) {
                drop_in_turn(job);
            }
        });
        let parked = parked.map_err(|_| self.refuse("too many requests wait for state"))?;
        let waiting = Waiting(parked);
        let park_timeout = Duration::from_millis(self.settings.park_timeout_ms);
        let ended = match tokio::time::timeout(park_timeout, &mut receiver).await {
            Ok(ended) => ended,
            Err(_) if waiting.0.cancel() => {
                return Err(self.refuse("the state was in use for too long"));
            }
            Err(_) => receiver.await,
        };
        ended.map_err(|_| self.refuse(LOOPS_FULL))
    }

    /// How many requests were answered with 503, since too many waited or for too long.
    pub fn overloaded(&self) -> u64 {
        self.overloaded.load(Ordering::Relaxed)
    }

    pub fn refuse(&self, why: &str) -> Problem {
        self.overloaded.fetch_add(1, Ordering::Relaxed);
        Problem::overloaded(why)
    }
}

/// The loops end with the last route that could use them.
impl Drop for Engine {
    fn drop(&mut self) {
        self.loops.stop(Duration::ZERO);
    }
}

const LOOPS_FULL: &str = "too many requests wait for an event loop";

/// A call runs on an I/O thread until this is dropped.
pub(crate) struct Inline<'e> {
    engine: &'e Engine,
}

impl Drop for Inline<'_> {
    fn drop(&mut self) {
        self.engine.inline_now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A request that waits, until whoever awaits it gives up.
struct Waiting(Parked);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Drops a job that holds locks. That may grant them to the next one whose job finds no room either; those are dropped one
/// after another and not one within another, which would need a stack as deep as the queue is long.
fn drop_in_turn(job: Job) {
    thread_local! {
        static DROPPED: RefCell<Option<VecDeque<Job>>> = const { RefCell::new(None) };
    }
    let later = DROPPED.with_borrow_mut(|dropped| match dropped {
        Some(dropped) => {
            dropped.push_back(job);
            None
        }
        None => {
            *dropped = Some(VecDeque::new());
            Some(job)
        }
    });
    let mut next = later;
    while let Some(job) = next {
        drop(job);
        next = DROPPED.with_borrow_mut(|dropped| {
            let next = dropped.as_mut().and_then(VecDeque::pop_front);
            if next.is_none() {
                *dropped = None;
            }
            next
        });
    }
}
