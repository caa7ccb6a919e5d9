//! Lines on their way to the disk. Whoever puts one in waits for nothing: what has no room is counted.

use std::mem;
use std::sync::Arc;

use kernel::metrics::Counter;
use parking_lot::{Condvar, Mutex};
use runtime::{LogLine, LogTap};

use super::line::Level;

/// A line that was just written.
pub(crate) enum Written {
    /// By the node.
    Node(Event),
    /// By a worker.
    Worker(Arc<LogLine>),
}

/// A line of the node's own log.
pub(crate) struct Event {
    pub at_ms: u64,
    pub level: Level,
    pub target: &'static str,
    pub text: String,
}

impl Written {
    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Node(event) => event.text.len(),
                Self::Worker(line) => size_of::<LogLine>() + line.line.len(),
            }
    }
}

pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    lost: Counter,
}

struct State {
    waiting: Vec<Written>,
    bytes: usize,
    bytes_max: usize,
    lost: u64,
    /// Whoever takes them sleeps until it is woken.
    is_asleep: bool,
    is_closed: bool,
}

/// What was put in since the last time.
pub(crate) struct Taken {
    pub lines: Vec<Written>,
    /// How many had no room.
    pub lost: u64,
    /// No more will come.
    pub is_last: bool,
}

impl Queue {
    pub fn new(bytes_max: usize, lost: Counter) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                bytes: 0,
                bytes_max,
                lost: 0,
                is_asleep: false,
                is_closed: false,
            }),
            wake: Condvar::new(),
            lost,
        }
    }

    pub fn put(&self, line: Written) {
        let bytes = line.bytes();
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        if state.bytes + bytes > state.bytes_max {
            state.lost += 1;
            self.lost.inc();
            return;
        }
        state.bytes += bytes;
        state.waiting.push(line);
        if mem::take(&mut state.is_asleep) {
            self.wake.notify_one();
        }
    }

    pub fn set_bytes_max(&self, bytes_max: usize) {
        self.state.lock().bytes_max = bytes_max;
    }

    /// Sleeps until there is something to take.
    pub fn wait(&self) {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && state.lost == 0 && !state.is_closed {
            state.is_asleep = true;
            self.wake.wait(&mut state);
        }
    }

    pub fn take(&self) -> Taken {
        let mut state = self.state.lock();
        state.bytes = 0;
        Taken {
            lines: mem::take(&mut state.waiting),
            lost: mem::take(&mut state.lost),
            is_last: state.is_closed,
        }
    }

    pub fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_one();
    }
}

impl LogTap for Queue {
    fn wrote(&self, line: &Arc<LogLine>) {
        self.put(Written::Worker(line.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Written {
        Written::Node(Event {
            at_ms: 1,
            level: Level::Info,
            target: "test",
            text: text.to_owned(),
        })
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let lost = Counter::default();
        let queue = Queue::new(10 * (size_of::<Written>() + 1), lost.clone());
        for _ in 0..25 {
            queue.put(event("x"));
        }
        let taken = queue.take();
        assert_eq!((taken.lines.len(), taken.lost, lost.get()), (10, 15, 15));
        queue.put(event("x"));
        let taken = queue.take();
        assert_eq!(
            (taken.lines.len(), taken.lost, taken.is_last),
            (1, 0, false)
        );
        queue.close();
        queue.put(event("late"));
        let taken = queue.take();
        assert!(taken.lines.is_empty() && taken.is_last);
    }

    #[test]
    fn whoever_waits_is_woken() {
        let queue = Queue::new(10_000, Counter::default());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                queue.wait();
                queue.take().lines.len()
            });
            queue.put(event("x"));
            assert_eq!(waiting.join().unwrap(), 1);
            let waiting = scope.spawn(|| queue.wait());
            queue.close();
            waiting.join().unwrap();
        });
    }
}
