//! How nice a thread is to others. Only Linux has this for each thread; elsewhere nothing is changed.

/// By how much a long thread is nicer than the one that watches it: at 10 a core that is wanted by both gives it a tenth.
pub(super) const NICER_BY: i32 = 10;

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) use linux::ThreadId;
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) use other::ThreadId;

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use rustix::process::{Pid, getpriority_process, setpriority_process};

    /// The number by which the system knows a thread.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct ThreadId(Pid);

    impl ThreadId {
        pub(in super::super) fn current() -> Self {
            Self(rustix::thread::gettid())
        }

        /// Makes the thread nicer than it was; false if the system refuses. The thread must not have ended: its number may be another's.
        pub(in super::super) fn make_nicer(self) -> bool {
            // On Linux this speaks of one thread, in spite of its name.
            let nicer = getpriority_process(Some(self.0))
                .and_then(|now| setpriority_process(Some(self.0), now + super::NICER_BY));
            nicer.is_ok()
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod other {
    /// Stands for a thread that cannot be made nicer.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct ThreadId;

    impl ThreadId {
        pub(in super::super) fn current() -> Self {
            Self
        }

        pub(in super::super) fn make_nicer(self) -> bool {
            false
        }
    }
}
