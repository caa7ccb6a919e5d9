//! One stage, as far as deployments know it.

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::sharing::Applied;
use super::store::Record;

/// A stage and who works on it.
#[derive(Default)]
pub(super) struct Slot {
    /// One change after another.
    pub order: tokio::sync::Mutex<()>,
    /// What this node has applied, if several share the stage.
    pub applied: tokio::sync::watch::Sender<Applied>,
    pub state: Mutex<SlotState>,
}

#[derive(Default)]
pub(super) struct SlotState {
    /// What is deployed. None while the first deployment is under way, and after it was refused.
    pub record: Option<Record>,
    /// The version that was rolled back last, in case that is told before it is known here.
    pub rolled_back: Option<u32>,
    /// Why it does not run, if it could not be loaded at the start.
    pub failure: Option<String>,
    /// Why its sources cannot be read.
    pub troubles: Troubles,
    pub watches: Watches,
}

/// How the versions of a stage are numbered over restarts of the node: the runtime begins anew with
/// one each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    offset: i64,
    /// What the first one is called, if it is what ran before the restart.
    first: Option<u32>,
}

impl Numbers {
    /// The numbers go on after this one.
    pub fn after(last: u32) -> Self {
        Self {
            offset: last.into(),
            first: None,
        }
    }

    /// The version that the runtime numbers so is called this.
    pub fn called(version: u32, shown: u32) -> Self {
        Self {
            offset: i64::from(shown) - i64::from(version),
            first: None,
        }
    }

    /// The first is the one that ran before, and the next goes on after the last.
    pub fn restored(version: u32, last: u32) -> Self {
        Self {
            offset: i64::from(last.max(version)) - 1,
            first: Some(version),
        }
    }

    /// The number that people see.
    pub fn shown(self, version: u32) -> u32 {
        match self.first {
            Some(first) if version == 1 => first,
            _ => u32::try_from(i64::from(version) + self.offset).unwrap_or_default(),
        }
    }
}

/// Why the sources of a stage cannot be read.
#[derive(Clone, Debug, Default)]
pub(super) struct Troubles {
    pub component: Option<String>,
    pub router: Option<String>,
}

/// Which of the two components of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Component,
    Router,
}

/// The tasks that watch the sources of a stage. They end when this is dropped or replaced.
#[derive(Default)]
pub(super) struct Watches {
    pub tasks: Vec<JoinHandle<()>>,
    /// Goes up with every replacement, so that one that is late can be told.
    pub generation: u64,
}

impl Watches {
    /// Ends all, and gives the number for the next ones.
    pub fn renew(&mut self) -> u64 {
        self.tasks.drain(..).for_each(|task| task.abort());
        self.generation += 1;
        self.generation
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.renew();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_after_a_restart() {
        assert_eq!([1, 2].map(|n| Numbers::default().shown(n)), [1, 2]);
        assert_eq!([1, 2].map(|n| Numbers::after(4).shown(n)), [5, 6]);
        // Version 5 was refused before the restart, so the next one is 6.
        let restored = Numbers::restored(4, 5);
        assert_eq!([1, 2, 3].map(|n| restored.shown(n)), [4, 6, 7]);
        let restored = Numbers::restored(4, 4);
        assert_eq!([1, 2, 3].map(|n| restored.shown(n)), [4, 5, 6]);
        assert_eq!([5, 6].map(|n| Numbers::called(5, 2).shown(n)), [2, 3]);
    }
}
