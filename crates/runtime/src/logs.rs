//! The latest lines that the workers of a stage wrote.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use kernel::worker::LogLevel;
use kernel::{Timestamp, WorkerAddress};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::views::LogLine;

/// How much of a stage's log is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Lines.
    pub lines_max: usize,
    /// Their bytes, with what it takes to keep them.
    pub bytes_max: usize,
    /// The bytes of one line; what is longer is cut and says so.
    pub line_bytes_max: usize,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            lines_max: 10_000,
            bytes_max: 4 << 20,
            line_bytes_max: 8 << 10,
        }
    }
}

/// Gets every line that a worker writes, on the thread of its turn: it must not wait for anything.
pub trait LogTap: Send + Sync {
    /// This line was written.
    fn wrote(&self, line: &Arc<LogLine>);
}

/// Who gets the lines of all stages besides their readers, once somebody wants them.
pub(crate) type Tapped = Arc<OnceLock<Arc<dyn LogTap>>>;

/// The log of a stage, to write to. The oldest lines make room for new ones; a gap before the
/// first number that is read shows how many are gone.
#[derive(Default)]
pub struct StageLog {
    shared: Arc<Shared>,
    limits: LogLimits,
    tapped: Tapped,
}

/// The log of a stage, to read from. It can be read to its end after the stage is gone.
#[derive(Clone, Debug)]
pub struct LogReader {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    /// Shared, so that readers hold the lock for the pointers only.
    kept: VecDeque<Arc<LogLine>>,
    bytes: usize,
    last_number: u64,
    closed: bool,
}

impl StageLog {
    /// An empty log, whose lines also go to the tap.
    pub fn new(limits: LogLimits, tapped: Tapped) -> Self {
        Self {
            shared: Arc::default(),
            limits,
            tapped,
        }
    }

    /// Writes a line.
    pub fn push(&self, worker: &WorkerAddress, level: LogLevel, line: &str, at: Timestamp) {
        let mut line = LogLine {
            number: 0,
            at_ms: at.as_millis(),
            worker: worker.clone(),
            level,
            line: cut(line, self.limits.line_bytes_max),
        };
        let line = {
            let mut lines = self.shared.lines.lock();
            lines.last_number += 1;
            line.number = lines.last_number;
            lines.bytes += bytes_of(&line);
            let line = Arc::new(line);
            lines.kept.push_back(line.clone());
            lines.drop_oldest(&self.limits);
            line
        };
        self.shared.changed.notify_waiters();
        if let Some(tap) = self.tapped.get() {
            tap.wrote(&line);
        }
    }

    /// Something to read it with.
    pub fn reader(&self) -> LogReader {
        LogReader {
            shared: self.shared.clone(),
        }
    }
}

impl Drop for StageLog {
    fn drop(&mut self) {
        self.shared.lines.lock().closed = true;
        self.shared.changed.notify_waiters();
    }
}

impl Lines {
    fn drop_oldest(&mut self, limits: &LogLimits) {
        while self.kept.len() > limits.lines_max || self.bytes > limits.bytes_max {
            let Some(oldest) = self.kept.pop_front() else {
                return;
            };
            self.bytes -= bytes_of(&oldest);
        }
    }
}

impl LogReader {
    /// Up to `lines_max` lines with numbers above `after`, the oldest first.
    pub fn read(&self, after: u64, lines_max: usize) -> Vec<LogLine> {
        let found: Vec<Arc<LogLine>> = {
            let lines = self.shared.lines.lock();
            let start = lines.kept.partition_point(|line| line.number <= after);
            let found = lines.kept.range(start..).take(lines_max);
            found.cloned().collect()
        };
        found.into_iter().map(Arc::unwrap_or_clone).collect()
    }

    /// The number of the last line; zero if there was none yet.
    pub fn last_number(&self) -> u64 {
        self.shared.lines.lock().last_number
    }

    /// Waits until there is a line above `after`, and returns true; or false, if the stage is gone and
    /// none will come. It may wait long: put a time limit around it.
    pub async fn changed(&self, after: u64) -> bool {
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            // What comes from here on wakes us, so nothing is missed between look and wait.
            changed.as_mut().enable();
            {
                let lines = self.shared.lines.lock();
                if lines.last_number > after {
                    return true;
                }
                if lines.closed {
                    return false;
                }
            }
            changed.await;
        }
    }
}

fn bytes_of(line: &LogLine) -> usize {
    size_of::<LogLine>() + line.line.len()
}

/// The text, cut where it is longer than that, with a mark that says how long it was.
pub(crate) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let mark = format!(" [cut from {} bytes]", text.len());
    let end = text.floor_char_boundary(bytes_max.saturating_sub(mark.len()));
    format!("{}{mark}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    fn write(log: &StageLog, line: &str) {
        let worker = "shop/orders/1".parse().unwrap();
        log.push(&worker, LogLevel::Info, line, Timestamp::from_micros(5_000));
    }

    fn numbers(reader: &LogReader, after: u64, max: usize) -> Vec<u64> {
        let lines = reader.read(after, max);
        lines.iter().map(|line| line.number).collect()
    }

    #[test]
    fn lines_are_read_in_order_and_from_anywhere() {
        let log = StageLog::default();
        let reader = log.reader();
        assert!(reader.read(0, 10).is_empty());
        for number in 1..=5 {
            write(&log, &format!("line {number}"));
        }
        assert_eq!(numbers(&reader, 0, 3), [1, 2, 3]);
        assert_eq!(numbers(&reader, 3, 10), [4, 5]);
        assert!(numbers(&reader, 5, 10).is_empty());
        assert!(numbers(&reader, 99, 10).is_empty());
        let line = &reader.read(4, 1)[0];
        assert_eq!((line.line.as_str(), line.at_ms), ("line 5", 5));
        assert_eq!(line.worker.to_string(), "shop/orders/1");
    }

    #[test]
    fn the_oldest_lines_make_room_and_the_gap_shows() {
        let limits = LogLimits {
            lines_max: 3,
            ..LogLimits::default()
        };
        let log = StageLog::new(limits, Tapped::default());
        for _ in 0..10 {
            write(&log, "x");
        }
        assert_eq!(numbers(&log.reader(), 0, 10), [8, 9, 10]);
    }

    #[test]
    fn the_bytes_are_bounded_too() {
        let limits = LogLimits {
            bytes_max: 100_000,
            ..LogLimits::default()
        };
        let log = StageLog::new(limits.clone(), Tapped::default());
        for _ in 0..1_000 {
            write(&log, &"x".repeat(5_000));
        }
        let lines = log.shared.lines.lock();
        let bytes: usize = lines.kept.iter().map(|line| bytes_of(line)).sum();
        assert_eq!(bytes, lines.bytes);
        assert!(bytes <= limits.bytes_max && bytes > limits.bytes_max - 10_000);
    }

    #[test]
    fn a_long_line_is_cut_and_says_so() {
        let log = StageLog::default();
        write(&log, &"é".repeat(10_000));
        write(&log, "short");
        let lines = log.reader().read(0, 2);
        assert!(lines[0].line.len() <= LogLimits::default().line_bytes_max);
        assert!(lines[0].line.ends_with("é [cut from 20000 bytes]"));
        assert_eq!(lines[1].line, "short");
    }

    #[test]
    fn waiting_ends_with_the_next_line_or_with_the_stage() {
        block_on(async {
            let log = StageLog::default();
            let reader = log.reader();
            let mut first = Box::pin(reader.changed(0));
            assert_eq!(poll_once(&mut first).await, None);
            write(&log, "one");
            assert!(first.await);
            assert!(reader.changed(0).await, "it is there already");
            let mut second = Box::pin(reader.changed(1));
            assert_eq!(poll_once(&mut second).await, None);
            drop(log);
            assert!(!second.await);
            assert_eq!(numbers(&reader, 0, 10), [1], "it can still be read");
        });
    }

    #[test]
    fn no_line_is_missed_while_others_write() {
        let log = StageLog::default();
        let reader = log.reader();
        std::thread::scope(|scope| {
            scope.spawn(move || (0..5_000).for_each(|_| write(&log, "x")));
            let mut seen = 0;
            while block_on(reader.changed(seen)) {
                for number in numbers(&reader, seen, 100) {
                    assert_eq!(number, seen + 1);
                    seen = number;
                }
            }
            assert_eq!(seen, 5_000);
        });
    }
}
