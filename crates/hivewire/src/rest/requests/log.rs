//! Who changed something, and when: the last requests in memory, and more of them in files.
//!
//! Whoever notes a request waits for no disk: a thread of its own writes what is handed to it. If it cannot
//! keep up, or the disk cannot, requests are missing in the files and nothing else happens.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::files::{self, Files};
use crate::rest::problem::Problem;

/// How many are in memory.
const TAIL_MAX: usize = 1_000;
/// How many may be on their way to the disk.
const UNWRITTEN_MAX: usize = 10_000;
/// How many are written at once.
const BATCH_MAX: usize = 256;
/// Each reader of files holds one of them in memory.
const READERS_MAX: usize = 4;
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct Entry {
    /// Larger than that of all requests before.
    pub id: u64,
    pub at_ms: u64,
    pub method: String,
    pub path: String,
    pub who: String,
    /// The address that it came from.
    pub from: Option<String>,
    pub status: u16,
    pub took_us: u64,
}

/// Which requests somebody wants to see.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// How the path begins.
    pub path: Option<String>,
    pub status: Option<u16>,
}

impl Filter {
    pub fn wants(&self, entry: &Entry) -> bool {
        let begins = |prefix: &String| entry.path.starts_with(prefix);
        self.path.as_ref().is_none_or(begins)
            && self.status.is_none_or(|status| status == entry.status)
    }
}

/// Keeps requests.
pub(crate) struct RequestLog {
    folder: PathBuf,
    state: Mutex<State>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Semaphore,
}

struct State {
    tail: VecDeque<Entry>,
    last_id: u64,
    /// None after the end, or if there is no thread to write.
    unwritten: Option<SyncSender<Entry>>,
    /// That some are not written was told.
    is_told: bool,
}

impl RequestLog {
    /// Goes on with what is in this folder.
    pub fn open(folder: PathBuf) -> Self {
        let newest = files::read(&folder, u64::MAX, 1, &Filter::default());
        let (unwritten, entries) = sync_channel(UNWRITTEN_MAX);
        let to = folder.clone();
        let thread = std::thread::Builder::new().name("requests".to_owned());
        let writer = match thread.spawn(move || write(&to, &entries)) {
            Ok(writer) => Some(writer),
            Err(error) => {
                tracing::warn!(%error, "requests are kept in memory only");
                None
            }
        };
        Self {
            folder,
            state: Mutex::new(State {
                tail: VecDeque::new(),
                last_id: newest.first().map_or(0, |entry| entry.id),
                unwritten: writer.is_some().then_some(unwritten),
                is_told: false,
            }),
            writer: Mutex::new(writer),
            readers: Semaphore::new(READERS_MAX),
        }
    }

    /// Notes a request, and gives the id that it gets.
    pub(super) fn note(&self, mut entry: Entry) -> u64 {
        let mut state = self.state.lock();
        // The clock may have been set back.
        let id = now_us().max(state.last_id + 1);
        entry.id = id;
        state.last_id = id;
        if state.tail.len() == TAIL_MAX {
            state.tail.pop_front();
        }
        state.tail.push_back(entry.clone());
        // Under the lock, so that they come to the files in order.
        let unwritten = state.unwritten.as_ref();
        let is_left_out = unwritten.is_some_and(|to| to.try_send(entry).is_err());
        let is_news = is_left_out && !std::mem::replace(&mut state.is_told, true);
        drop(state);
        if is_news {
            tracing::warn!("the disk is too slow: some requests will be missing in the files");
        }
        id
    }

    /// Up to `limit` requests before this one, the newest first.
    pub(super) async fn page(
        &self,
        before: u64,
        limit: usize,
        filter: Filter,
    ) -> Result<Vec<Entry>, Problem> {
        let (mut found, oldest) = {
            let state = self.state.lock();
            let newest_first = state.tail.iter().rev();
            let wanted = newest_first.filter(|entry| entry.id < before && filter.wants(entry));
            let found: Vec<Entry> = wanted.take(limit).cloned().collect();
            (found, state.tail.front().map_or(u64::MAX, |entry| entry.id))
        };
        let missing = limit - found.len();
        if missing > 0 {
            let older = self.read(before.min(oldest), missing, filter);
            found.extend(older.await?);
        }
        Ok(found)
    }

    async fn read(&self, before: u64, limit: usize, filter: Filter) -> Result<Vec<Entry>, Problem> {
        let late = |_| Problem::not_ready("many others read what was requested: try again");
        let permit = timeout(READ_TIMEOUT, self.readers.acquire());
        let _permit = permit.await.map_err(late)?;
        let folder = self.folder.clone();
        let reading =
            tokio::task::spawn_blocking(move || files::read(&folder, before, limit, &filter));
        let read = reading.await;
        read.map_err(|error| Problem::internal(error.to_string()))
    }

    /// Writes what is not written yet, and ends. Blocks.
    pub fn close(&self) {
        self.state.lock().unwritten = None;
        if let Some(writer) = self.writer.lock().take()
            && writer.join().is_err()
        {
            tracing::error!("the thread that writes requests panicked");
        }
    }
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// Writes until nobody is left who could send more.
fn write(folder: &Path, entries: &Receiver<Entry>) {
    let mut files = Files::new(folder.to_path_buf());
    let mut has_failed = false;
    while let Ok(first) = entries.recv() {
        let meanwhile = entries.try_iter().take(BATCH_MAX - 1);
        let batch: Vec<Entry> = std::iter::once(first).chain(meanwhile).collect();
        let written = files.append(&batch);
        match &written {
            Err(error) if !has_failed => {
                let folder = folder.display();
                tracing::warn!(%folder, %error, "requests cannot be written there, and the last {TAIL_MAX} are kept in memory only; free some room or make the folder writable");
            }
            Ok(()) if has_failed => tracing::info!("requests are written again"),
            _ => {}
        }
        has_failed = written.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, status: u16) -> Entry {
        Entry {
            id: 0,
            at_ms: 0,
            method: "POST".to_owned(),
            path: path.to_owned(),
            who: "token".to_owned(),
            from: None,
            status,
            took_us: 1,
        }
    }

    async fn paths(log: &RequestLog, before: u64, limit: usize, filter: &Filter) -> Vec<String> {
        let page = log.page(before, limit, filter.clone()).await.unwrap();
        page.into_iter().map(|entry| entry.path).collect()
    }

    #[tokio::test]
    async fn the_newest_come_first_from_memory_and_then_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("requests");
        let log = RequestLog::open(folder.clone());
        let ids: Vec<u64> = (0..3)
            .map(|number| log.note(entry(&format!("/{number}"), 200 + number)))
            .collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        let all = Filter::default();
        assert_eq!(paths(&log, u64::MAX, 2, &all).await, ["/2", "/1"]);
        log.close();

        let log = RequestLog::open(folder);
        assert!(log.note(entry("/x/3", 200)) > ids[2]);
        assert_eq!(
            paths(&log, u64::MAX, 9, &all).await,
            ["/x/3", "/2", "/1", "/0"]
        );
        assert_eq!(paths(&log, ids[1], 9, &all).await, ["/0"]);
        let by_status = Filter {
            status: Some(201),
            ..Filter::default()
        };
        assert_eq!(paths(&log, u64::MAX, 9, &by_status).await, ["/1"]);
        let by_path = Filter {
            path: Some("/x".to_owned()),
            ..Filter::default()
        };
        assert_eq!(paths(&log, u64::MAX, 9, &by_path).await, ["/x/3"]);
    }

    #[tokio::test]
    async fn a_folder_that_cannot_be_written_is_no_failure_and_memory_has_a_bound() {
        let log = RequestLog::open("/nowhere/requests".into());
        for number in 0..TAIL_MAX + 5 {
            log.note(entry(&format!("/{number}"), 200));
        }
        let all = paths(&log, u64::MAX, usize::MAX, &Filter::default()).await;
        assert_eq!((all.len(), all[0].as_str()), (TAIL_MAX, "/1004"));
        log.close();
        log.note(entry("/late", 200));
    }
}
