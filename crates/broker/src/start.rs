//! Starting a broker: the journal is read back, over what a store of state has.

use std::path::Path;
use std::sync::{Arc, Weak};

use journal::{Durable, Journal, OpenError, Options, Position, Recovery, Storage};
use kernel::{Clock, Name};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::broker::Broker;
use crate::dead::DEAD_LETTERS;
use crate::queue::Queue;
use crate::recovery::Recovered;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::state::{Bucket, Buckets, ColdStore, DiskStore, Mover, Stamp, StateError};

/// Why a broker could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The journal could not be opened.
    #[error(transparent)]
    Journal(#[from] OpenError),
    /// A record is intact but was written by something else.
    #[error(
        "the record at {0:?} of the journal is intact but not understood: it was written by a newer version of Hivewire; start that version"
    )]
    NotUnderstood(Position),
    /// The state on disk could not be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The state on disk and the journal do not belong together.
    #[error(
        "the state on disk and the journal do not belong together ({0}): bring back both from the same backup; if nothing of them is needed any more, remove both"
    )]
    OtherState(String),
    /// The system gave no thread, or no random number.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}

impl Broker {
    /// Opens the journal, reads back what it holds, and starts; all state is kept in memory. Must be called
    /// within a tokio runtime, which serves reads from disk.
    pub fn start(
        storage: Arc<dyn Storage>,
        options: Options,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Self>, Recovery), StartError> {
        Self::start_over(None, storage, options, settings, clock)
    }

    /// The same, with a folder for state that memory has no room for. It belongs to the journal: both are kept,
    /// brought back or removed together.
    pub fn start_with_state(
        state: &Path,
        storage: Arc<dyn Storage>,
        options: Options,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Self>, Recovery), StartError> {
        let store = Arc::new(DiskStore::open(state, storage.random()?)?);
        Self::start_over(Some(store), storage, options, settings, clock)
    }

    pub(crate) fn start_over(
        store: Option<Arc<dyn ColdStore>>,
        storage: Arc<dyn Storage>,
        options: Options,
        settings: Settings,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Self>, Recovery), StartError> {
        let mut recovered = Recovered::with_store(store.as_ref())?;
        let (journal, recovery) = Journal::open(storage, options, &mut |position, record| {
            recovered.record(position, record);
        })?;
        if let Some(position) = recovered.not_understood {
            return Err(StartError::NotUnderstood(position));
        }
        if let Some(error) = recovered.unreadable {
            return Err(error.into());
        }
        let holds = store.as_ref().and_then(|store| store.stamp());
        check_state(&recovered, holds, &journal)?;
        recovered.register(&journal);
        let shared = Arc::new(Shared::new(journal, clock, settings, Handle::current()));
        let buckets = std::mem::take(&mut recovered.buckets);
        let buckets = Arc::new(Buckets::recovered(buckets, &shared.state));
        let start_mover = |store| Mover::start(&shared, &buckets, store, recovered.moved);
        let mover = store.map(start_mover).transpose()?;
        let broker = Arc::new(Self::new(shared.clone(), buckets, mover));
        broker.add_recovered(recovered);
        tokio::spawn(follow_syncs(
            shared.journal.watch(),
            Arc::downgrade(&shared),
        ));
        Ok((broker, recovery))
    }

    fn add_recovered(&self, recovered: Recovered) {
        let name = Name::new(DEAD_LETTERS).expect("a valid name");
        let dead = Arc::new(Queue::new(name.clone(), u64::MAX, self.shared.clone()));
        self.queues.write().insert(name, dead.clone());
        self.shared.set_dead_letters(dead);
        for (name, entries) in recovered.queues {
            // Recovered names are let in even past the limit: nothing stored may be lost.
            let queue = self.make_queue(&name);
            let mut core = queue.core.lock();
            core.recover(entries.into_values());
            queue.dispatch(core);
        }
    }
}

/// Refuses a store that is not the one that the journal speaks of, or not as it was. What was moved last may be missing
/// in the journal, if the process ended just then.
fn check_state(
    recovered: &Recovered,
    holds: Option<Stamp>,
    journal: &Journal,
) -> Result<(), StartError> {
    let noted = recovered.moved.map(|(stamp, _)| stamp);
    let refused = |reason: String| Err(StartError::OtherState(reason));
    let generation = |stamp: Option<Stamp>| stamp.map_or(0, |stamp| stamp.generation);
    if let (Some(noted), Some(holds)) = (noted, holds)
        && noted.id != holds.id
    {
        return refused("the journal speaks of another store of state".to_owned());
    }
    let (noted, holds) = (generation(noted), generation(holds));
    if holds != noted && holds != noted + 1 {
        return refused(format!(
            "by the journal, state was moved to disk {noted} times, and on disk are {holds}"
        ));
    }
    let through = recovered.buckets.values().map(Bucket::moved_through).max();
    let end = journal.durable().position;
    match through.filter(|through| *through > end) {
        Some(through) => refused(format!(
            "on disk is state up to {through}, and the journal ends at {end}"
        )),
        None => Ok(()),
    }
}

/// Serves what had to wait, after each sync, as long as the broker is there.
async fn follow_syncs(mut syncs: watch::Receiver<Durable>, shared: Weak<Shared>) {
    while syncs.changed().await.is_ok() {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.synced();
    }
}
