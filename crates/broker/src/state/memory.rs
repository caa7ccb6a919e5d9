//! How much memory state takes, and who waits for it to become less.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

/// How often those who wait for room look again, should nobody tell them.
const ROOM_PAUSE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Signal {
    work: bool,
    stopping: bool,
}

/// The memory of all buckets together.
pub(crate) struct StateMemory {
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    /// There is a store, and it takes what does not fit.
    store_works: AtomicBool,
    is_poked: AtomicBool,
    signal: Mutex<Signal>,
    wake: Condvar,
    room: Notify,
}

impl StateMemory {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(bytes_max),
            store_works: AtomicBool::new(false),
            is_poked: AtomicBool::new(false),
            signal: Mutex::default(),
            wake: Condvar::new(),
            room: Notify::new(),
        }
    }

    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
        self.poke();
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// How much should go to disk now: from half of what is allowed on, all but a quarter, so that there is room
    /// for what comes meanwhile.
    pub fn excess_bytes(&self) -> usize {
        let (bytes, bytes_max) = (self.bytes(), self.bytes_max());
        match bytes > bytes_max / 2 {
            true => bytes - bytes_max / 4,
            false => 0,
        }
    }

    /// Whether those who write should wait until something is on disk.
    pub fn is_full(&self) -> bool {
        self.store_works() && self.bytes() > self.bytes_max()
    }

    pub fn store_works(&self) -> bool {
        self.store_works.load(Ordering::Acquire)
    }

    pub fn set_store_works(&self, works: bool) {
        self.store_works.store(works, Ordering::Release);
        self.room.notify_waiters();
    }

    /// A bucket takes that much now and took that much before.
    pub fn changed(&self, before: usize, now: usize) {
        match now >= before {
            true => self.bytes.fetch_add(now - before, Ordering::Relaxed),
            false => self.bytes.fetch_sub(before - now, Ordering::Relaxed),
        };
        if now > before && self.store_works() && self.excess_bytes() > 0 {
            self.poke();
        } else if now < before {
            self.room.notify_waiters();
        }
    }

    /// Waits until there is room for more state.
    pub async fn room(&self) {
        while self.is_full() {
            // Enabled before the look, so that no wake-up falls between the two.
            let mut changed = std::pin::pin!(self.room.notified());
            changed.as_mut().enable();
            if self.is_full() {
                self.poke();
                let _ = tokio::time::timeout(ROOM_PAUSE, changed).await;
            }
        }
    }

    /// Makes the mover look.
    pub fn poke(&self) {
        if !self.is_poked.swap(true, Ordering::AcqRel) {
            self.signal.lock().work = true;
            self.wake.notify_all();
        }
    }

    pub fn stop(&self) {
        self.signal.lock().stopping = true;
        self.wake.notify_all();
    }

    /// Waits until there is work; false when it is time to stop.
    pub fn wait_for_work(&self) -> bool {
        let mut signal = self.signal.lock();
        while !signal.work && !signal.stopping {
            self.wake.wait(&mut signal);
        }
        signal.work = false;
        self.is_poked.store(false, Ordering::Release);
        !signal.stopping
    }

    /// Sleeps, unless it is time to stop, which false tells.
    pub fn pause(&self, pause: Duration) -> bool {
        let mut signal = self.signal.lock();
        if !signal.stopping {
            let stopping = |signal: &mut Signal| !signal.stopping;
            self.wake.wait_while_for(&mut signal, stopping, pause);
        }
        !signal.stopping
    }
}
