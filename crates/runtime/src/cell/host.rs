//! What a turn sees of the world around it, and how a worker is called.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_lite::FutureExt;
use kernel::worker::{Failure, FailureKind, Host, LogLevel, Ticket, Wake};
use kernel::{Address, Grant, Timestamp};

use super::Cell;
use crate::scope::Scope;
use crate::stage::Version;
use crate::waiting::WAITING;

/// The surroundings of one worker, in the scope of its present turn.
pub(super) struct CellHost {
    cell: Arc<Cell>,
    version: Arc<Version>,
    scope: Scope,
}

impl CellHost {
    pub fn new(cell: Arc<Cell>, version: Arc<Version>, scope: Scope) -> Self {
        Self {
            cell,
            version,
            scope,
        }
    }

    /// Whether it is one of those whom the runtime lets ask: they named the address themselves, so
    /// an answer needs no grant, however late it comes.
    fn is_waiting_asker(to: &Address) -> bool {
        matches!(to, Address::Queue(name) if name.as_str().starts_with(WAITING))
    }

    fn is_own_flow(&self, to: &Address) -> bool {
        let flow = self.cell.stage.address.flow();
        match to {
            Address::Stage(stage) => stage.flow() == flow,
            Address::Worker(worker) => worker.stage().flow() == flow,
            Address::Queue(_) | Address::Topic(_) => false,
        }
    }
}

#[async_trait]
impl Host for CellHost {
    async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        self.cell.stage.store.value(&self.scope, key).await
    }

    async fn states(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, Failure> {
        self.cell.stage.store.values_of(&self.scope, keys).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        let store = &self.cell.stage.store;
        store.values(&self.scope, prefix, after, pairs_max).await
    }

    fn may_send(&self, to: &Address) -> Result<(), Failure> {
        let grants = &self.version.spec.grants;
        let granted = || grants.iter().any(|grant: &Grant| grant.covers(to));
        let is_trusted = self.version.code.info().native;
        if is_trusted || self.is_own_flow(to) || Self::is_waiting_asker(to) || granted() {
            return Ok(());
        }
        let reason = format!(
            "sending to {to} was not granted: deploy {} with --grant send:{to}",
            self.cell.stage.address
        );
        Err(Failure::of(FailureKind::Denied, reason))
    }

    fn may_emit(&self, output: &str) -> Result<(), Failure> {
        let outputs = &self.version.code.info().outputs;
        if outputs.is_empty() || outputs.iter().any(|known| known == output) {
            return Ok(());
        }
        let reason = format!(
            "the worker has no output {output:?}; its descriptor names {}",
            outputs.join(", ")
        );
        Err(Failure::of(FailureKind::Denied, reason))
    }

    fn next_ticket(&self) -> Ticket {
        self.cell.stage.runtime.next_ticket()
    }

    fn now(&self) -> Timestamp {
        self.cell.stage.runtime.clock.now()
    }

    fn log(&self, level: LogLevel, line: &str) {
        self.cell.log(level, line);
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.cell.stage.waker(&self.scope)
    }
}

impl Cell {
    /// A line in the log of the stage.
    pub fn log(&self, level: LogLevel, line: &str) {
        let now = self.stage.runtime.clock.now();
        self.stage.log.push(&self.address(), level, line, now);
    }
}

/// Calls a worker: a panic is a failure like any other, and what waits has a deadline. What blocks
/// its thread cannot be broken off here; components break it off themselves.
pub(super) async fn call<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Failure>> + Send,
) -> Result<T, Failure> {
    let mut guarded = std::pin::pin!(AssertUnwindSafe(future).catch_unwind());
    // Most turns are over at once and need no timer.
    if let Some(outcome) = futures_lite::future::poll_once(&mut guarded).await {
        return outcome.unwrap_or_else(|panic| Err(panicked(&*panic)));
    }
    match Box::pin(tokio::time::timeout(limit, guarded)).await {
        Ok(outcome) => outcome.unwrap_or_else(|panic| Err(panicked(&*panic))),
        Err(_) => {
            let reason = format!(
                "the call was not over after {} ms: do less in one turn, or raise call_ms_max of the stage",
                limit.as_millis()
            );
            Err(Failure::of(FailureKind::Deadline, reason))
        }
    }
}

/// Runs code that may panic.
pub(super) fn guarded<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(run));
    outcome.unwrap_or_else(|panic| Err(panicked(&*panic)))
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason given");
    Failure::of(FailureKind::Trap, format!("the worker panicked: {text}"))
}
