//! The start of many workers: every turn thread takes one after another until none is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kernel::descriptor::PluginKind;
use kernel::worker::Failure;
use tokio::sync::mpsc;

use super::life::wait;
use crate::cell::Cell;
use crate::control::Control;

/// How long one thread goes on before others get a turn.
const SLICE: Duration = Duration::from_millis(2);

/// Workers that are to be started.
struct Start {
    cells: Vec<Arc<Cell>>,
    /// The first one that nobody has taken yet.
    next: AtomicUsize,
    started: AtomicUsize,
}

/// Gives every worker an instance. After the first failure no further one is begun.
pub(super) async fn start_all(cells: Vec<Arc<Cell>>) -> Result<(), Failure> {
    let workers = cells.len();
    let start = Arc::new(Start {
        cells,
        next: AtomicUsize::new(0),
        started: AtomicUsize::new(0),
    });
    let (failed, mut failures) = mpsc::channel(1);
    start.add_helper(&failed);
    drop(failed);
    // The channel ends when nobody is left who could fail.
    match failures.recv().await {
        Some(failure) => Err(failure),
        None if start.started.load(Ordering::Acquire) == workers => Ok(()),
        None => Err(Failure::new("the runtime ended before the worker started")),
    }
}

impl Start {
    /// There is always one helper more than threads that help, as long as workers are left. So a
    /// start that takes long holds up nobody: another thread comes for the helper that waits.
    fn add_helper(self: &Arc<Self>, failed: &mpsc::Sender<Failure>) {
        let next = self.next.load(Ordering::Relaxed);
        if let Some(cell) = self.cells.get(next) {
            let threads = &cell.stage.runtime.threads;
            threads.spawn(self.clone().help(failed.clone()));
        }
    }

    async fn help(self: Arc<Self>, failed: mpsc::Sender<Failure>) {
        self.add_helper(&failed);
        let mut slice_began = Instant::now();
        while let Some(cell) = self.cells.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(failure) = cell.start_here().await {
                self.next.store(self.cells.len(), Ordering::Relaxed);
                // Of several failures one is enough.
                let _ = failed.try_send(failure);
                return;
            }
            self.started.fetch_add(1, Ordering::Release);
            if slice_began.elapsed() > SLICE {
                futures_lite::future::yield_now().await;
                slice_began = Instant::now();
            }
        }
    }
}

impl Cell {
    /// Starts the worker on this thread, unless it is just running on another one.
    async fn start_here(self: &Arc<Self>) -> Result<(), Failure> {
        if self.stage.version().code.info().kind == PluginKind::Provider {
            // It begins to provide and may never end.
            return wait(self.ask(Control::Start)).await;
        }
        let (done, answer) = tokio::sync::oneshot::channel();
        if self.put_control(Control::Start(done)) {
            self.run_here().await;
        }
        wait(answer).await
    }
}
