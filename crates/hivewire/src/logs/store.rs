//! The logs of this node: of itself and of its workers, in files, for those who follow, and for those who
//! ask for the past.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kernel::metrics::{Counter, Registry};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, broadcast};
use tokio::time::timeout;

use super::line::{Filter, Level, Line};
use super::queue::{Queue, Taken, Written};
use super::settings::LogSettings;
use super::tap;
use crate::rotation::{self, Files};

/// Where in the data folder logs are kept.
const FOLDER: &str = "logs";
/// Lines are gathered for so long before they are written.
const GATHER: Duration = Duration::from_millis(20);
/// So much is written at once.
const WRITE_BYTES: usize = 32 << 10;
/// How many batches a follower may be behind before it misses some.
const BATCHES_BEHIND_MAX: usize = 64;
/// Each reader of files holds one of them in memory.
const READERS_MAX: usize = 4;
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Clocks are set back now and then: lines so much older than wanted end a search.
const CLOCK_SLACK_MS: u64 = 60_000;
/// Who speaks of what was lost.
pub(crate) const OWN_TARGET: &str = "hivewire::logs";

/// What logs count.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogCounters {
    pub lost: Counter,
    pub unfollowed: Counter,
}

impl LogCounters {
    /// Registers them all.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "log_lines_lost",
            "Lines of logs that came faster than the disk takes them",
            self.lost.clone(),
        );
        registry.register(
            "log_lines_not_followed",
            "Lines of logs that those who follow from elsewhere did not get",
            self.unfollowed.clone(),
        );
    }
}

/// Why the past cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("many others read logs at the moment: try again")]
    Busy,
    #[error("reading logs broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// Keeps logs.
pub(crate) struct LogStore {
    folder: PathBuf,
    queue: Arc<Queue>,
    settings: Arc<Mutex<LogSettings>>,
    live: broadcast::Sender<Arc<[Line]>>,
    counters: LogCounters,
    /// All lines of this start have this number or a larger one.
    first_id: u64,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Semaphore,
}

impl LogStore {
    /// Goes on with the logs in this data folder. What the process logs goes there from now on.
    pub fn open(data: &Path, settings: LogSettings) -> Self {
        let folder = data.join(FOLDER);
        let counters = LogCounters::default();
        let queue = Arc::new(Queue::new(
            settings.waiting_bytes_max,
            counters.lost.clone(),
        ));
        let newest = read(&folder, u64::MAX, 1, &Filter::default());
        let first_id = newest.first().map_or(0, |line| line.id + 1).max(now_us());
        let (live, _) = broadcast::channel(BATCHES_BEHIND_MAX);
        let settings = Arc::new(Mutex::new(settings));
        let writer = Writer {
            queue: queue.clone(),
            settings: settings.clone(),
            live: live.clone(),
            folder: folder.clone(),
            next_id: first_id,
        };
        let thread = std::thread::Builder::new().name("logs".to_owned());
        let writer = match thread.spawn(move || writer.run()) {
            Ok(writer) => Some(writer),
            Err(error) => {
                queue.close();
                tracing::warn!(%error, "logs are not kept");
                None
            }
        };
        tap::attach(&queue);
        Self {
            folder,
            queue,
            settings,
            live,
            counters,
            first_id,
            writer: Mutex::new(writer),
            readers: Semaphore::new(READERS_MAX),
        }
    }

    /// Takes what workers write.
    pub fn tap(&self) -> Arc<Queue> {
        self.queue.clone()
    }

    pub fn counters(&self) -> &LogCounters {
        &self.counters
    }

    /// The number that lines of this start begin with.
    pub fn first_id(&self) -> u64 {
        self.first_id
    }

    /// From now on this holds.
    pub fn change(&self, settings: &LogSettings) {
        self.queue.set_bytes_max(settings.waiting_bytes_max);
        self.settings.lock().clone_from(settings);
    }

    /// How many lines in a second are sent to those who follow from elsewhere.
    pub fn followed_lines_per_second_max(&self) -> u32 {
        self.settings.lock().followed_lines_per_second_max
    }

    /// All lines from now on.
    pub fn follow(&self) -> broadcast::Receiver<Arc<[Line]>> {
        self.live.subscribe()
    }

    /// Up to `limit` lines before this number, the newest first.
    pub async fn page(
        &self,
        before: u64,
        limit: usize,
        filter: Filter,
    ) -> Result<Vec<Line>, ReadError> {
        let permit = timeout(READ_TIMEOUT, self.readers.acquire());
        let _permit = permit.await.map_err(|_| ReadError::Busy)?;
        let folder = self.folder.clone();
        let reading = tokio::task::spawn_blocking(move || read(&folder, before, limit, &filter));
        Ok(reading.await?)
    }

    /// Writes what is not written yet, and ends. Blocks.
    pub fn close(&self) {
        tap::detach(&self.queue);
        self.queue.close();
        if let Some(writer) = self.writer.lock().take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that writes logs panicked");
        }
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        // A start that failed has much to tell.
        self.close();
    }
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

fn read(folder: &Path, before: u64, limit: usize, filter: &Filter) -> Vec<Line> {
    let mut found = Vec::new();
    if limit == 0 {
        return found;
    }
    let since_ms = filter.since_ms.unwrap_or_default();
    rotation::backwards(folder, before, |text| {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return ControlFlow::Continue(());
        };
        if line.at_ms + CLOCK_SLACK_MS < since_ms {
            return ControlFlow::Break(());
        }
        if line.id < before && filter.wants(&line) {
            found.push(line);
        }
        match found.len() < limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    found
}

/// Numbers lines, shows them to those who follow, and writes them.
struct Writer {
    queue: Arc<Queue>,
    settings: Arc<Mutex<LogSettings>>,
    live: broadcast::Sender<Arc<[Line]>>,
    folder: PathBuf,
    next_id: u64,
}

impl Writer {
    fn run(mut self) {
        let limits = self.settings.lock().limits();
        let mut files = Files::new(self.folder.clone(), limits);
        let mut has_failed = false;
        loop {
            self.queue.wait();
            std::thread::sleep(GATHER);
            let taken = self.queue.take();
            let is_last = taken.is_last;
            let lines = self.numbered(taken);
            // Nobody may follow.
            let _ = self.live.send(lines.clone());
            let settings = self.settings.lock().clone();
            if settings.files {
                files.set_limits(settings.limits());
                let written = write(&mut files, &lines);
                self.tell(&written, has_failed);
                has_failed = written.is_err();
            }
            if is_last {
                return;
            }
        }
    }

    fn numbered(&mut self, taken: Taken) -> Arc<[Line]> {
        let mut lines = Vec::with_capacity(taken.lines.len() + 1);
        for written in taken.lines {
            let id = self.take_id();
            lines.push(match written {
                Written::Worker(line) => Line::of_worker(id, &line),
                Written::Node(event) => Line {
                    id,
                    at_ms: event.at_ms,
                    level: event.level,
                    target: Some(event.target.to_owned()),
                    stage: None,
                    worker: None,
                    line: event.text,
                },
            });
        }
        if taken.lost > 0 {
            let text = format!(
                "{} lines were lost here: they came faster than the disk takes them",
                taken.lost
            );
            lines.push(Line {
                id: self.take_id(),
                at_ms: now_us() / 1_000,
                level: Level::Warn,
                target: Some(OWN_TARGET.to_owned()),
                stage: None,
                worker: None,
                line: text,
            });
        }
        lines.into()
    }

    fn take_id(&mut self) -> u64 {
        // The clock may have been set back.
        let id = self.next_id.max(now_us());
        self.next_id = id + 1;
        id
    }

    fn tell(&self, written: &io::Result<()>, has_failed: bool) {
        match written {
            Err(error) if !has_failed => {
                let folder = self.folder.display();
                tracing::warn!(%folder, %error, "logs cannot be written there; free some room or make the folder writable");
            }
            Ok(()) if has_failed => tracing::info!("logs are written again"),
            _ => {}
        }
    }
}

/// In pieces, so that files end where they should.
fn write(files: &mut Files, lines: &[Line]) -> io::Result<()> {
    let mut text = Vec::new();
    let mut first = None;
    for line in lines {
        first.get_or_insert(line.id);
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        if text.len() >= WRITE_BYTES {
            files.append(first.take().unwrap_or_default(), &text)?;
            text.clear();
        }
    }
    match first {
        Some(first) => files.append(first, &text),
        None => Ok(()),
    }
}
