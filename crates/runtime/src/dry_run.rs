//! A trial of code apart from everything that runs: it sees the committed state, and whatever it
//! does is forgotten.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Host, LogLevel, Ticket};
use kernel::{Address, Timestamp};

use crate::cell::Cell;
use crate::runtime::Shared;

/// The surroundings of a trial.
pub(crate) struct DryHost {
    runtime: Arc<Shared>,
    /// The worker whose state it sees.
    cell: Arc<Cell>,
}

impl DryHost {
    pub fn new(runtime: Arc<Shared>, cell: Arc<Cell>) -> Self {
        Self { runtime, cell }
    }
}

#[async_trait]
impl Host for DryHost {
    async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        let store = &self.cell.stage.store;
        store.value(&self.cell.scope(0), key).await
    }

    async fn states(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, Failure> {
        let store = &self.cell.stage.store;
        store.values_of(&self.cell.scope(0), keys).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        let (store, scope) = (&self.cell.stage.store, self.cell.scope(0));
        store.values(&scope, prefix, after, pairs_max).await
    }

    fn may_send(&self, _to: &Address) -> Result<(), Failure> {
        Ok(())
    }

    fn may_emit(&self, _output: &str) -> Result<(), Failure> {
        Ok(())
    }

    fn next_ticket(&self) -> Ticket {
        self.runtime.next_ticket()
    }

    fn now(&self) -> Timestamp {
        self.runtime.clock.now()
    }

    fn log(&self, _level: LogLevel, _line: &str) {}
}
