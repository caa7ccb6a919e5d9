//! The last events, for all who listen. Each is encoded once; whoever listens has a position and no
//! copy, so the memory is that of the events, however many listen and however slow they are.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::event::{Event, Filter, Tags, kind};

/// How many events are kept.
const EVENTS_MAX: usize = 4_096;
/// How much they may take together.
const EVENTS_BYTES_MAX: usize = 4 << 20;
/// Old numbers help nobody, and would push out what happened.
const METRICS_MAX: usize = 32;
/// How many are looked at under the lock at a time.
const LOOK_MAX: usize = 256;

/// The last events.
pub(super) struct Ring {
    kept: Mutex<Kept>,
    last: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    events: VecDeque<Entry>,
    bytes: usize,
    metrics: usize,
    /// The number of the last event that was forgotten because there was no room.
    forgotten: u64,
    last: u64,
}

struct Entry {
    number: u64,
    tags: Tags,
    text: Bytes,
}

/// What somebody gets who has seen everything up to some number.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Look {
    /// How many were forgotten before they were seen.
    pub missed: u64,
    pub events: Vec<Bytes>,
    /// Everything up to there has been seen now.
    pub seen: u64,
}

impl Ring {
    pub fn new() -> Self {
        Self {
            kept: Mutex::default(),
            last: watch::channel(0).0,
        }
    }

    /// Adds an event and gives its number.
    pub fn push(&self, event: &Event) -> u64 {
        let (tags, body) = (event.tags(), event.encoded());
        let mut kept = self.kept.lock();
        kept.push(tags, &body);
        // Under the lock, so that numbers are told in order.
        self.last.send_replace(kept.last);
        kept.last
    }

    /// The number of the last event.
    pub fn last(&self) -> u64 {
        self.kept.lock().last
    }

    /// Tells the number of the last event whenever there is a new one.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    /// Some of what came after an event.
    pub fn look(&self, after: u64, filter: &Filter) -> Look {
        let kept = self.kept.lock();
        let missed = kept.forgotten.saturating_sub(after);
        let after = after.max(kept.forgotten);
        let first = kept.events.partition_point(|entry| entry.number <= after);
        let looked_at = kept.events.range(first..).take(LOOK_MAX);
        let seen = looked_at.clone().last().map(|entry| entry.number);
        Look {
            missed,
            events: looked_at
                .filter(|entry| filter.wants(&entry.tags))
                .map(|entry| entry.text.clone())
                .collect(),
            seen: seen.unwrap_or(after),
        }
    }

    /// The number before the last `count` events that somebody wants.
    pub fn before_last(&self, count: usize, filter: &Filter) -> u64 {
        let kept = self.kept.lock();
        let wanted = kept.events.iter().rev();
        let wanted = wanted.filter(|entry| filter.wants(&entry.tags));
        match wanted.take(count).last() {
            Some(first) => first.number - 1,
            None => kept.last,
        }
    }
}

impl Kept {
    fn push(&mut self, tags: Tags, body: &[u8]) {
        self.last += 1;
        let is_metrics = &*tags.kind == kind::METRICS;
        let entry = Entry {
            number: self.last,
            tags,
            text: numbered(self.last, body),
        };
        self.bytes += entry.text.len();
        self.metrics += usize::from(is_metrics);
        self.events.push_back(entry);
        if self.metrics > METRICS_MAX {
            self.forget_metrics();
        }
        while self.events.len() > EVENTS_MAX || self.bytes > EVENTS_BYTES_MAX {
            let Some(entry) = self.events.pop_front() else {
                break;
            };
            self.forgotten = entry.number;
            self.forget(&entry);
        }
    }

    fn forget_metrics(&mut self) {
        let is_metrics = |entry: &Entry| &*entry.tags.kind == kind::METRICS;
        if let Some(index) = self.events.iter().position(is_metrics)
            && let Some(entry) = self.events.remove(index)
        {
            self.forget(&entry);
        }
    }

    fn forget(&mut self, entry: &Entry) {
        self.bytes -= entry.text.len();
        self.metrics -= usize::from(&*entry.tags.kind == kind::METRICS);
    }
}

/// An object with its number in front.
pub(super) fn numbered(number: u64, body: &[u8]) -> Bytes {
    let mut text = format!("{{\"number\":{number},").into_bytes();
    text.extend_from_slice(body.get(1..).unwrap_or(b"}"));
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(text: &str) -> Event {
        Event::new(kind::NOTE, "said")
            .with("text", text)
            .with("node", "ada")
    }

    #[test]
    fn who_is_too_slow_is_told_how_much_was_lost() {
        let ring = Ring::new();
        let all = Filter::default();
        for number in 0..EVENTS_MAX as u64 + 10 {
            assert_eq!(ring.push(&note("x")), number + 1);
        }
        let look = ring.look(4, &all);
        assert_eq!((look.missed, look.events.len(), look.seen), (6, 256, 266));
        assert!(look.events[0].starts_with(b"{\"number\":11,\"event\""));
        let rest = ring.look(EVENTS_MAX as u64 + 9, &all);
        assert_eq!((rest.missed, rest.events.len()), (0, 1));
        assert_eq!(ring.look(rest.seen, &all).events.len(), 0);
        assert_eq!(ring.before_last(2, &all), EVENTS_MAX as u64 + 8);
    }

    #[test]
    fn bytes_are_bounded_and_numbers_of_stages_push_nothing_out() {
        let ring = Ring::new();
        ring.push(&note("first"));
        for _ in 0..EVENTS_MAX * 2 {
            let metrics = Event::of(kind::METRICS).with("node", "ada");
            ring.push(&metrics.with("stages", vec![0; 100]));
        }
        let notes = Filter {
            kinds: vec![kind::NOTE.to_owned()],
            ..Filter::default()
        };
        let look = ring.look(0, &notes);
        assert_eq!((look.missed, look.events.len()), (0, 1));
        for _ in 0..4_000 {
            ring.push(&note(&"x".repeat(2_000)));
        }
        assert!(ring.kept.lock().bytes <= EVENTS_BYTES_MAX);
        assert!(ring.look(0, &notes).missed > 0);
    }
}
