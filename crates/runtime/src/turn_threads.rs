//! The threads that turns run on.
//!
//! Turns may block or compute for long: a component is called on the thread itself, and a native
//! worker may do what it likes. So turns have threads of their own, apart from those that serve
//! sockets, and a watcher starts a spare thread whenever some have been in one turn for too long
//! while others wait. The operating system then shares the cores out among them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use async_task::Runnable;
use parking_lot::{Condvar, Mutex};

/// A turn that takes longer than this no longer counts as progress.
const STUCK_AFTER: Duration = Duration::from_millis(10);
/// How often the watcher looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How often it looks when nothing has run for a while.
const LOOK_EVERY_WHEN_IDLE: Duration = Duration::from_millis(50);
/// After how many looks without a turn nothing counts as running.
const IDLE_LOOKS: u32 = 200;
/// How long a spare thread waits for work before it ends.
const SPARE_IDLE: Duration = Duration::from_secs(10);
/// How long a thread that gave an answer looks for another turn before it sleeps. Waking it takes as
/// long, and whoever asks again and again would wait for that each time. Others sleep at once: what
/// comes until they wake is one batch.
const LOOK_FOR: Duration = Duration::from_micros(20);
/// So many looks are about a microsecond.
const LOOKS_AT_ONCE: u32 = 32;
/// Room for the stack of a component and of the host around it.
const STACK_BYTES: usize = 4 << 20;

/// A pool of threads for turns. Dropping it stops them once their turns are over.
pub(crate) struct TurnThreads {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// What waits in the queue, readable without its lock.
    ready: AtomicUsize,
    filled: Condvar,
    runtime: tokio::runtime::Handle,
    started: Instant,
    seats: Mutex<Vec<Arc<Seat>>>,
    threads_wanted: usize,
    threads_max: usize,
    names: AtomicU32,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Runnable>,
    idle: usize,
    /// One of the idle threads looks for work instead of sleeping.
    is_looked_at: bool,
    stopping: bool,
}

/// What the watcher knows of one thread.
#[derive(Default)]
struct Seat {
    /// When the turn in progress began, in microseconds since the pool began; zero if there is
    /// none.
    busy_since: AtomicU64,
}

thread_local! {
    /// Whether this is a turn thread: it takes the next turn itself once this one is over.
    static IS_TURN_THREAD: Cell<bool> = const { Cell::new(false) };
    /// Whether the next turn may come at once: somebody got an answer, and may ask again.
    static HAS_ANSWERED: Cell<bool> = const { Cell::new(false) };
}

/// Says on a turn thread that somebody got an answer.
pub(crate) fn note_answer() {
    HAS_ANSWERED.set(true);
}

impl TurnThreads {
    /// Starts `threads_wanted` threads that can become up to `threads_max`.
    pub fn start(threads_wanted: usize, threads_max: usize) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            ready: AtomicUsize::new(0),
            filled: Condvar::new(),
            runtime: tokio::runtime::Handle::current(),
            started: Instant::now(),
            seats: Mutex::default(),
            threads_wanted,
            threads_max: threads_max.max(threads_wanted),
            names: AtomicU32::new(0),
        });
        for _ in 0..threads_wanted {
            shared.add_thread(false);
        }
        let watched = Arc::downgrade(&shared);
        spawn_thread("turns-watcher".into(), move || watch(&watched));
        Self { shared }
    }

    /// Runs a future on these threads.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::downgrade(&self.shared);
        // A thread that stopped leaves what is still in the queue; dropping it is all right then.
        let schedule = move |runnable| {
            if let Some(shared) = Weak::upgrade(&shared) {
                shared.schedule(runnable);
            }
        };
        let (runnable, task) = async_task::spawn(future, schedule);
        task.detach();
        runnable.schedule();
    }

    /// Whether something waits for a thread, so that a long activation should make room.
    pub fn is_contended(&self) -> bool {
        !self.shared.queue.lock().ready.is_empty()
    }

    /// How many threads there are now.
    pub fn count(&self) -> usize {
        self.shared.seats.lock().len()
    }
}

impl Drop for TurnThreads {
    fn drop(&mut self) {
        self.shared.queue.lock().stopping = true;
        self.shared.filled.notify_all();
    }
}

impl Shared {
    fn schedule(&self, runnable: Runnable) {
        let mut queue = self.queue.lock();
        queue.ready.push_back(runnable);
        self.ready.store(queue.ready.len(), Ordering::Relaxed);
        // A turn thread comes back for the first one itself, and one that looks finds it; waking
        // another would be for nothing.
        let is_taken = IS_TURN_THREAD.get() || queue.is_looked_at;
        let wake = queue.idle > 0 && !(is_taken && queue.ready.len() == 1);
        drop(queue);
        if wake {
            self.filled.notify_one();
        }
    }

    fn micros(&self) -> u64 {
        self.started.elapsed().as_micros() as u64 + 1
    }

    fn add_thread(self: &Arc<Self>, spare: bool) {
        let seat = Arc::new(Seat::default());
        self.seats.lock().push(seat.clone());
        let shared = self.clone();
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        let served = seat.clone();
        let serve = move || shared.serve(&served, spare);
        if !spawn_thread(format!("turns-{number}"), serve) {
            self.remove_seat(&seat);
        }
    }

    fn remove_seat(&self, seat: &Arc<Seat>) {
        self.seats.lock().retain(|other| !Arc::ptr_eq(other, seat));
    }

    /// Runs turns until the pool stops or, if the thread is a spare one, there was nothing to do.
    fn serve(&self, seat: &Arc<Seat>, spare: bool) {
        let _entered = self.runtime.enter();
        IS_TURN_THREAD.set(true);
        while let Some(runnable) = self.next(spare) {
            seat.busy_since.store(self.micros(), Ordering::Relaxed);
            runnable.run();
            seat.busy_since.store(0, Ordering::Relaxed);
        }
        self.remove_seat(seat);
    }

    fn next(&self, spare: bool) -> Option<Runnable> {
        let mut queue = self.queue.lock();
        let mut looks = HAS_ANSWERED.take() && self.threads_wanted > 1;
        loop {
            if let Some(runnable) = queue.ready.pop_front() {
                self.ready.store(queue.ready.len(), Ordering::Relaxed);
                return Some(runnable);
            }
            if queue.stopping {
                return None;
            }
            if std::mem::take(&mut looks) && !queue.is_looked_at {
                queue.is_looked_at = true;
                drop(queue);
                self.look();
                queue = self.queue.lock();
                queue.is_looked_at = false;
                continue;
            }
            queue.idle += 1;
            let timed_out = if spare {
                self.filled.wait_for(&mut queue, SPARE_IDLE).timed_out()
            } else {
                self.filled.wait(&mut queue);
                false
            };
            queue.idle -= 1;
            if timed_out && queue.ready.is_empty() {
                return None;
            }
        }
    }

    /// Waits awake for a moment until something is ready.
    fn look(&self) {
        let until = Instant::now() + LOOK_FOR;
        while Instant::now() < until {
            for _ in 0..LOOKS_AT_ONCE {
                if self.ready.load(Ordering::Relaxed) > 0 {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Sees to it that a turn that waits gets a thread.
    fn relieve(self: &Arc<Self>) {
        let queue = self.queue.lock();
        if queue.ready.is_empty() {
            return;
        }
        let idle = queue.idle;
        drop(queue);
        if idle > 0 {
            self.filled.notify_one();
            return;
        }
        let stuck_before = self.micros().saturating_sub(STUCK_AFTER.as_micros() as u64);
        let seats = self.seats.lock();
        let is_moving = |seat: &&Arc<Seat>| {
            let since = seat.busy_since.load(Ordering::Relaxed);
            since == 0 || since > stuck_before
        };
        let moving = seats.iter().filter(is_moving).count();
        let wanted = moving < self.threads_wanted && seats.len() < self.threads_max;
        drop(seats);
        if wanted {
            self.add_thread(true);
        }
    }

    fn is_idle(&self) -> bool {
        let seats = self.seats.lock();
        seats
            .iter()
            .all(|seat| seat.busy_since.load(Ordering::Relaxed) == 0)
    }
}

/// The watcher holds the pool only while it looks, so it ends with it.
fn watch(pool: &Weak<Shared>) {
    let mut idle_looks = 0;
    loop {
        thread::sleep(if idle_looks < IDLE_LOOKS {
            LOOK_EVERY
        } else {
            LOOK_EVERY_WHEN_IDLE
        });
        let Some(shared) = pool.upgrade() else {
            return;
        };
        if shared.queue.lock().stopping {
            return;
        }
        shared.relieve();
        idle_looks = if shared.is_idle() { idle_looks + 1 } else { 0 };
    }
}

/// Whether the system gave the thread.
fn spawn_thread(name: String, run: impl FnOnce() + Send + 'static) -> bool {
    let started = thread::Builder::new()
        .name(name)
        .stack_size(STACK_BYTES)
        .spawn(run);
    if let Err(error) = &started {
        tracing::error!(%error, "the system gives no more threads; turns go on with fewer");
    }
    started.is_ok()
}
