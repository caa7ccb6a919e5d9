//! Compilation beside the work: in threads of low priority, few at a time, for a limited time.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::LoadError;

/// How much the threads yield to others, as `nice` counts it.
const NICENESS: i32 = 10;
const THREAD_STACK_BYTES: usize = 8 << 20;

/// The threads that may compile at once.
pub(crate) struct Compiler {
    slots: Arc<Slots>,
    ms_max: u64,
}

struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
    count: usize,
}

impl Compiler {
    pub(crate) fn new(count: usize, ms_max: u64) -> Self {
        let count = count.max(1);
        let slots = Slots {
            free: Mutex::new(count),
            freed: Condvar::new(),
            count,
        };
        Self {
            slots: Arc::new(slots),
            ms_max,
        }
    }

    /// Does the work in a thread of its own and waits for it. If it takes too long, it is left to
    /// its thread, which keeps its place until it ends.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, LoadError> {
        let deadline = Instant::now() + Duration::from_millis(self.ms_max);
        let slot = self.slot(deadline)?;
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("wasm-compile".to_owned())
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || {
                step_back();
                let result = work();
                drop(slot);
                // Whoever asked may have given up.
                let _ = sender.send(result);
            })
            .map_err(LoadError::Thread)?;
        let left = deadline.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok(result) => result,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(LoadError::CompileTimeout {
                ms_max: self.ms_max,
            }),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(LoadError::Compile {
                reason: "the compiler failed; its panic is in the log".to_owned(),
            }),
        }
    }

    fn slot(&self, deadline: Instant) -> Result<Slot, LoadError> {
        let mut free = self.slots.free.lock();
        while *free == 0 {
            if self.slots.freed.wait_until(&mut free, deadline).timed_out() {
                return Err(LoadError::CompileBusy {
                    count: self.slots.count,
                });
            }
        }
        *free -= 1;
        Ok(Slot(self.slots.clone()))
    }
}

/// A place among those that compile.
struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

/// Lowers the priority of this thread. Without it compilation merely gets in the way more.
#[cfg(target_os = "linux")]
fn step_back() {
    // On Linux, and only there, this means the calling thread alone.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "compilation keeps its priority");
    }
}

#[cfg(not(target_os = "linux"))]
fn step_back() {
    let _ = NICENESS;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_given_up_and_keeps_its_place() {
        let compiler = Compiler::new(1, 50);
        let (release, released) = sync_channel::<()>(0);
        let slow = compiler.run(move || {
            let _ = released.recv_timeout(Duration::from_secs(20));
            Ok(())
        });
        assert!(matches!(
            slow,
            Err(LoadError::CompileTimeout { ms_max: 50 })
        ));
        assert!(matches!(
            compiler.run(|| Ok(())),
            Err(LoadError::CompileBusy { count: 1 })
        ));
        drop(release);
        let deadline = Instant::now() + Duration::from_secs(20);
        while compiler.run(|| Ok(())).is_err() {
            assert!(Instant::now() < deadline);
        }
    }

    #[test]
    fn a_panic_of_the_compiler_is_an_error() {
        let compiler = Compiler::new(1, 20_000);
        let failed = compiler.run::<()>(|| panic!("meant"));
        assert!(matches!(failed, Err(LoadError::Compile { .. })));
        assert!(compiler.run(|| Ok(())).is_ok());
    }
}
