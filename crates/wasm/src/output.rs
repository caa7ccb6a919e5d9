//! Lines that a worker writes, until its log takes them.

use std::sync::atomic::{AtomicBool, Ordering};

use kernel::worker::LogLevel;
use parking_lot::Mutex;

/// A longer line is cut into several.
pub(crate) const LINE_BYTES_MAX: usize = 8 << 10;

/// More than this is not kept from one hand-out to the next.
const LINES_BYTES_MAX: usize = 64 << 10;

/// Lines that wait for the end of the call, or for the next turn.
#[derive(Default)]
pub(crate) struct Output {
    waiting: Mutex<Waiting>,
    /// Whether anything waits; most calls write nothing, and none should pay for a lock.
    any: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<(LogLevel, String)>,
    bytes: usize,
    /// Bytes for which there was no room.
    lost_bytes: usize,
    /// Beginnings of lines, of standard output and of standard error.
    begun: [Vec<u8>; 2],
}

impl Output {
    /// Adds a line.
    pub(crate) fn line(&self, level: LogLevel, line: &str) {
        self.waiting.lock().push(level, line);
        self.any.store(true, Ordering::Relaxed);
    }

    /// Adds bytes that the worker wrote to standard output or standard error.
    pub(crate) fn bytes(&self, level: LogLevel, bytes: &[u8]) {
        let mut waiting = self.waiting.lock();
        self.any.store(true, Ordering::Relaxed);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let ends = piece.ends_with(b"\n");
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            for text in text.chunks(LINE_BYTES_MAX) {
                waiting.begin(level, text);
            }
            if ends {
                waiting.end(level);
            }
        }
    }

    /// Gives all lines away, those that have only begun as well.
    pub(crate) fn hand_out(&self, mut log: impl FnMut(LogLevel, &str)) {
        // Only the thread that calls the instance writes, so it sees what it wrote.
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        self.any.store(false, Ordering::Relaxed);
        let mut waiting = self.waiting.lock();
        waiting.end_if_begun(LogLevel::Info);
        waiting.end_if_begun(LogLevel::Warn);
        for (level, line) in waiting.lines.drain(..) {
            log(level, &line);
        }
        waiting.bytes = 0;
        let lost_bytes = std::mem::take(&mut waiting.lost_bytes);
        if lost_bytes > 0 {
            let line = format!("{lost_bytes} more bytes of output in one call were left out");
            log(LogLevel::Warn, &line);
        }
    }
}

impl Waiting {
    fn begun(&mut self, level: LogLevel) -> &mut Vec<u8> {
        &mut self.begun[usize::from(level == LogLevel::Warn)]
    }

    fn begin(&mut self, level: LogLevel, text: &[u8]) {
        if self.begun(level).len() + text.len() > LINE_BYTES_MAX {
            self.end(level);
        }
        self.begun(level).extend_from_slice(text);
    }

    fn end(&mut self, level: LogLevel) {
        let line = std::mem::take(self.begun(level));
        let text = String::from_utf8_lossy(&line);
        self.push(level, text.trim_end_matches('\r'));
    }

    fn end_if_begun(&mut self, level: LogLevel) {
        if !self.begun(level).is_empty() {
            self.end(level);
        }
    }

    fn push(&mut self, level: LogLevel, line: &str) {
        if self.bytes + line.len() > LINES_BYTES_MAX {
            self.lost_bytes += line.len();
            return;
        }
        // An empty line takes room too.
        self.bytes += line.len() + 1;
        self.lines.push((level, line.to_owned()));
    }
}

/// The line, cut to what a log takes.
pub(crate) fn cut(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(output: &Output) -> Vec<(LogLevel, String)> {
        let mut lines = Vec::new();
        output.hand_out(|level, line| lines.push((level, line.to_owned())));
        lines
    }

    #[test]
    fn pieces_become_lines() {
        let output = Output::default();
        output.bytes(LogLevel::Info, b"one\r\ntw");
        output.bytes(LogLevel::Warn, b"three");
        output.bytes(LogLevel::Info, b"o\n\xff\n");
        let expected = [
            (LogLevel::Info, "one"),
            (LogLevel::Info, "two"),
            (LogLevel::Info, "\u{fffd}"),
            (LogLevel::Warn, "three"),
        ];
        let expected = expected.map(|(level, line)| (level, line.to_owned()));
        assert_eq!(lines(&output), expected);
        assert_eq!(lines(&output), []);
    }

    #[test]
    fn a_flood_is_bounded_and_counted() {
        let output = Output::default();
        for _ in 0..100 {
            output.bytes(LogLevel::Info, &[b'x'; 10_000]);
        }
        let lines = lines(&output);
        let bytes: usize = lines.iter().map(|(_, line)| line.len()).sum();
        assert!(bytes < LINES_BYTES_MAX + 100, "{bytes}");
        assert!(lines.iter().all(|(_, line)| line.len() <= LINE_BYTES_MAX));
        assert!(lines.last().unwrap().1.contains("left out"));
    }
}
