//! A request that waits, and how it is told that it has all its locks.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::locks::Locks;
use super::numbers::{Clock, Counts, Since};
use super::plan::Plan;
use super::sync::{AtomicUsize, Mutex, thread_local};
use super::taken::Taken;

/// What is called when all is taken.
pub(super) type OnTaken = Box<dyn FnOnce(Taken) + Send>;

/// In place of what it still waits for: it went away.
const WITHDRAWN: usize = usize::MAX;

/// A request that waits. It is in the lines of all that it does not have yet.
pub(super) struct Request {
    /// Its place among all requests that wait: smaller ones came before.
    pub ticket: u64,
    pub plan: Plan,
    parked_ns: u64,
    /// How much it still waits for. One more until all its places are taken, so that it is not told too early.
    missing: AtomicUsize,
    on_taken: Mutex<Option<OnTaken>>,
}

impl Request {
    pub fn new(ticket: u64, plan: Plan, parked_ns: u64, on_taken: OnTaken) -> Arc<Self> {
        let missing = plan.steps_count() + 1;
        Arc::new(Self {
            ticket,
            plan,
            parked_ns,
            missing: AtomicUsize::new(missing),
            on_taken: Mutex::new(Some(on_taken)),
        })
    }

    /// One thing less to wait for. Says whether that was the last.
    ///
    /// Each grant was made by whoever had acquired what earlier holders of that lock released; `AcqRel` hands all of that on
    /// to the one that makes the last grant, and so to the handler.
    fn has_one_more(&self) -> bool {
        self.missing.fetch_sub(1, AcqRel) == 1
    }

    /// Whether it has all, so that it is told or was told.
    pub fn has_all(&self) -> bool {
        self.missing.load(Acquire) == 0
    }

    pub fn is_withdrawn(&self) -> bool {
        self.missing.load(Acquire) == WITHDRAWN
    }

    /// Ends the waiting. Only under the mutexes of all its lines, so that nothing is granted meanwhile.
    pub fn withdraw(&self) {
        self.missing.store(WITHDRAWN, Relaxed);
    }

    /// Takes out what was to be called. It may own anything, so it is called or dropped only while no mutex is held.
    pub fn take_on_taken(&self) -> Option<OnTaken> {
        self.on_taken.lock().take()
    }
}

/// What comes of handing locks over: requests that have all they want. They are told when no mutex is held any more.
pub(super) struct HandedOver<'locks> {
    clock: &'locks Clock,
    now_ns: Option<u64>,
    complete: Vec<Arc<Request>>,
}

impl<'locks> HandedOver<'locks> {
    #[inline]
    pub fn new(clock: &'locks Clock) -> Self {
        Self {
            clock,
            now_ns: None,
            complete: Vec::new(),
        }
    }

    /// A request got one more of its locks.
    pub fn granted(&mut self, request: Arc<Request>) {
        if request.has_one_more() {
            self.complete.push(request);
        }
    }

    /// A request got one more of its locks after it had stood in a line.
    pub fn had_turn(&mut self, request: Arc<Request>, counts: &Counts) {
        let now_ns = *self.now_ns.get_or_insert_with(|| self.clock.now_ns());
        counts.had_turn(now_ns.saturating_sub(request.parked_ns));
        self.granted(request);
    }

    /// Tells those that have all.
    #[inline]
    pub fn tell(self, locks: &Arc<Locks>) {
        if !self.complete.is_empty() {
            tell_all(locks, self.complete);
        }
    }
}

type Untold = VecDeque<(Arc<Locks>, Arc<Request>)>;

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "the stand-in of the model checker knows no const")]
    /// Who is to be told by this thread, while it tells somebody.
    static UNTOLD: RefCell<Option<Untold>> = RefCell::new(None);
}

/// Tells them one after another. Whoever is told may release its locks at once, which makes others complete; those are told
/// afterwards by the same loop, because a long line would otherwise become a deep stack.
#[cold]
fn tell_all(locks: &Arc<Locks>, complete: Vec<Arc<Request>>) {
    locks.no_longer_wait(complete.len());
    let complete = complete.into_iter();
    let mut untold: Untold = complete.map(|request| (locks.clone(), request)).collect();
    let put = UNTOLD.try_with(|under_way| match &mut *under_way.borrow_mut() {
        Some(under_way) => {
            under_way.append(&mut untold);
            true
        }
        none => {
            *none = Some(std::mem::take(&mut untold));
            false
        }
    });
    match put {
        Ok(is_told_by_caller) => {
            while !is_told_by_caller && let Some((locks, request)) = next_untold() {
                tell(&locks, &request);
            }
        }
        // The thread is ending and has no place of its own any more.
        Err(_) => untold
            .iter()
            .for_each(|(locks, request)| tell(locks, request)),
    }
}

/// The next one to be told; if there is none, telling has ended.
fn next_untold() -> Option<(Arc<Locks>, Arc<Request>)> {
    UNTOLD.with(|under_way| {
        let mut under_way = under_way.borrow_mut();
        let next = under_way.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *under_way = None;
        }
        next
    })
}

fn tell(locks: &Arc<Locks>, request: &Request) {
    let Some(on_taken) = request.take_on_taken() else {
        return;
    };
    let since = Since::measured(locks.clock());
    let taken = Taken::new(locks.clone(), request.plan.clone(), since);
    // The thread releases the locks of somebody else: a panic here is not its own, and must not end it.
    if catch_unwind(AssertUnwindSafe(|| on_taken(taken))).is_err() {
        tracing::error!(
            "a request panicked when it was told that it has its locks; they are released again"
        );
    }
}
