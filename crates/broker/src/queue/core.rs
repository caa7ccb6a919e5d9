//! The decisions of a queue, without I/O: who gets which message, what waits in memory and what
//! on disk, what is too much.
//!
//! A queue is a front part in memory and a back part that is only an index into the journal. New
//! messages join the back as long as there is one, so the order always holds. Entries are sorted
//! by id throughout, so what comes back from a subscriber finds its place again.

use std::collections::VecDeque;

use journal::Position;
use kernel::Timestamp;

use super::on_disk::{OnDisk, Taken};
use super::subscriber::{Credit, Subscriber};
use crate::delivery::{AckMode, Entry, Sink};
use crate::settings::{QueueSettings, WhenFull};

/// A list that is used again keeps at most this capacity.
const SPARE_ENTRIES_MAX: usize = 1_024;

/// Where a new message is to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    Disk,
}

/// A new message does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Messages(u64),
    Bytes(u64),
}

/// Totals since the queue was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages taken in.
    pub published: u64,
    /// Messages handed to subscribers.
    pub delivered: u64,
    /// Messages that are done.
    pub acknowledged: u64,
    /// Messages that came back and were queued again.
    pub returned: u64,
    /// Messages that went to the dead letters.
    pub dead: u64,
    /// Messages that were refused at a limit.
    pub refused: u64,
}

#[derive(Debug)]
pub(crate) struct QueueCore<S> {
    pub settings: QueueSettings,
    pub totals: Totals,
    pub(super) next_id: u64,
    pub(super) front: VecDeque<Entry>,
    pub(super) front_bytes: usize,
    pub(super) back: VecDeque<OnDisk>,
    pub(super) loading: usize,
    pub(super) discard_load: bool,
    pub(super) in_flight: usize,
    pub(super) total_bytes: u64,
    pub(super) subscribers: Vec<Option<Subscriber<S>>>,
    pub(super) line: VecDeque<usize>,
    /// Subscribers that take turns: only the first of them is served.
    pub(super) turns: VecDeque<usize>,
    pub(super) durable: Position,
    pub(super) spare: Vec<Entry>,
}

impl<S: Sink> QueueCore<S> {
    /// An empty queue whose first message gets `first_id`.
    pub fn new(settings: QueueSettings, first_id: u64) -> Self {
        Self {
            settings,
            totals: Totals::default(),
            next_id: first_id,
            front: VecDeque::new(),
            front_bytes: 0,
            back: VecDeque::new(),
            loading: 0,
            discard_load: false,
            in_flight: 0,
            total_bytes: 0,
            subscribers: Vec::new(),
            line: VecDeque::new(),
            turns: VecDeque::new(),
            durable: Position::ZERO,
            spare: Vec::new(),
        }
    }

    /// Puts back what a restart found in the journal, in the order of ids.
    pub fn recover(&mut self, entries: impl IntoIterator<Item = OnDisk>) {
        for entry in entries {
            self.next_id = self.next_id.max(entry.id + 1);
            self.total_bytes += u64::from(entry.size_bytes);
            self.back.push_back(entry);
        }
    }

    pub fn waiting(&self) -> usize {
        self.front.len() + self.on_disk()
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub fn memory_bytes(&self) -> usize {
        self.front_bytes
    }

    pub fn on_disk(&self) -> usize {
        self.back.len() + self.wanted_loading()
    }

    /// What is being read from disk and was not given up in the meantime.
    pub(super) fn wanted_loading(&self) -> usize {
        if self.discard_load { 0 } else { self.loading }
    }

    pub(super) fn active_subscribers(&self) -> impl Iterator<Item = &Subscriber<S>> {
        let subscribers = self.subscribers.iter().flatten();
        subscribers.filter(|s| !s.is_expelled())
    }

    pub fn subscriber_count(&self) -> usize {
        self.active_subscribers().count()
    }

    pub fn oldest(&self) -> Option<Timestamp> {
        let unacked = self.subscribers.iter().flatten();
        unacked
            .filter_map(|subscriber| subscriber.unacked.front())
            .chain(self.front.front())
            .map(|entry| entry.message.published_at)
            .min()
    }

    pub fn is_unused(&self) -> bool {
        let is_empty = self.waiting() == 0 && self.loading == 0 && self.in_flight == 0;
        is_empty && self.active_subscribers().next().is_none()
    }

    pub fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Whether that many messages of that size together fit.
    pub fn check_limits(&self, messages: usize, size_bytes: usize) -> Result<(), Full> {
        if (self.waiting() + self.in_flight + messages) as u64 > self.settings.messages_max {
            return Err(Full::Messages(self.settings.messages_max));
        }
        if self.total_bytes + size_bytes as u64 > self.settings.bytes_max {
            return Err(Full::Bytes(self.settings.bytes_max));
        }
        Ok(())
    }

    /// Whether the oldest is to make room for the new.
    pub fn makes_room(&self) -> bool {
        self.settings.when_full == WhenFull::OldestToDeadLetters
    }

    /// Whether that much would fit if nothing waited: otherwise it is no use to make room.
    pub fn could_fit(&self, messages: usize, size_bytes: usize) -> bool {
        let kept_messages = self.in_flight + self.wanted_loading();
        let kept_bytes: usize = self.active_subscribers().map(Subscriber::held_bytes).sum();
        (kept_messages + messages) as u64 <= self.settings.messages_max
            && (kept_bytes + size_bytes) as u64 <= self.settings.bytes_max
    }

    /// Takes out the oldest entry that waits in memory.
    pub fn take_oldest_in_memory(&mut self) -> Option<Entry> {
        let entry = self.front.pop_front()?;
        self.front_bytes -= entry.size_bytes();
        self.total_bytes -= entry.size_bytes() as u64;
        Some(entry)
    }

    /// Takes out the oldest waiting entry, unless it is being read from disk right now.
    pub fn take_oldest(&mut self) -> Option<Taken> {
        if let Some(entry) = self.take_oldest_in_memory() {
            return Some(Taken::Memory(entry));
        }
        if self.wanted_loading() > 0 {
            return None;
        }
        let entry = self.back.pop_front()?;
        self.total_bytes -= u64::from(entry.size_bytes);
        Some(Taken::Disk(entry))
    }

    /// Where a new message of that size has to wait.
    pub fn place(&self, size_bytes: usize, memory_is_short: bool) -> Place {
        let order_demands_disk = !self.back.is_empty() || self.loading > 0;
        if order_demands_disk || memory_is_short || self.memory_is_full(size_bytes) {
            Place::Disk
        } else {
            Place::Memory
        }
    }

    /// Whether memory has no room for messages of that size.
    pub fn memory_is_full(&self, size_bytes: usize) -> bool {
        self.front_bytes + size_bytes > self.settings.memory_bytes_max
    }

    pub fn push_memory(&mut self, entry: Entry) {
        let size_bytes = entry.size_bytes();
        self.totals.published += 1;
        self.total_bytes += size_bytes as u64;
        self.front_bytes += size_bytes;
        self.front.push_back(entry);
    }

    pub fn push_disk(&mut self, entry: OnDisk) {
        self.totals.published += 1;
        self.total_bytes += u64::from(entry.size_bytes);
        self.back.push_back(entry);
    }

    pub fn subscribe(&mut self, token: u32, mode: AckMode, credit: Credit, sink: S) -> usize {
        let index = self.add_subscriber(token, mode, credit, sink);
        self.join_line(index);
        index
    }

    /// Adds one that is served when all who came before it in this way are gone.
    pub fn subscribe_in_turn(
        &mut self,
        token: u32,
        mode: AckMode,
        credit: Credit,
        sink: S,
    ) -> usize {
        let index = self.add_subscriber(token, mode, credit, sink);
        self.turns.push_back(index);
        self.join_line(index);
        index
    }

    fn add_subscriber(&mut self, token: u32, mode: AckMode, credit: Credit, sink: S) -> usize {
        let held_bytes_max = self.settings.memory_bytes_max;
        let subscriber = Subscriber::new(token, mode, credit, held_bytes_max, sink);
        let subscriber = Some(subscriber);
        match self.subscribers.iter().position(Option::is_none) {
            Some(index) => {
                self.subscribers[index] = subscriber;
                index
            }
            None => {
                self.subscribers.push(subscriber);
                self.subscribers.len() - 1
            }
        }
    }

    /// Removes a subscriber; what it had not acknowledged comes back.
    pub fn unsubscribe(&mut self, index: usize) -> Vec<Entry> {
        let Some(subscriber) = self.subscribers[index].take() else {
            return Vec::new();
        };
        self.line.retain(|&i| i != index);
        self.turns.retain(|&i| i != index);
        if let Some(&next) = self.turns.front() {
            // What comes back now goes to it first: nothing is delivered before that is put back.
            self.join_line(next);
        }
        self.in_flight -= subscriber.unacked.len() + subscriber.unsent;
        if subscriber.mode == AckMode::Auto {
            // What its session took and never gave account of.
            self.total_bytes -= subscriber.held_bytes() as u64;
        }
        subscriber.unacked.into_entries()
    }

    pub fn subscriber(&self, index: usize) -> Option<&Subscriber<S>> {
        self.subscribers.get(index)?.as_ref()
    }

    fn join_line(&mut self, index: usize) {
        let waits_its_turn = self.turns.iter().position(|&i| i == index) > Some(0);
        if waits_its_turn {
            return;
        }
        if let Some(subscriber) = &mut self.subscribers[index]
            && !subscriber.in_line
            && subscriber.has_credit()
        {
            subscriber.in_line = true;
            self.line.push_back(index);
        }
    }

    /// Deliveries to a subscriber were written out. With [`AckMode::Auto`] they are done.
    pub fn sent(&mut self, index: usize, messages: usize, bytes: usize) {
        let Some(subscriber) = &mut self.subscribers[index] else {
            return;
        };
        let (messages, bytes) = subscriber.left_outbox(messages, bytes);
        self.in_flight -= messages;
        self.total_bytes -= bytes as u64;
        self.totals.acknowledged += messages as u64;
        self.join_line(index);
    }

    /// Deliveries of an `Auto` subscriber were not written and are to be put back: they are no
    /// longer in flight. False if the queue was closed meanwhile and does not want them.
    pub fn unsent(&mut self, index: usize, messages: usize, bytes: usize) -> bool {
        let Some(subscriber) = &mut self.subscribers[index] else {
            return false;
        };
        let (messages, _) = subscriber.left_outbox(messages, bytes);
        self.in_flight -= messages;
        !subscriber.is_expelled()
    }

    /// Takes out what is acknowledged.
    pub fn acknowledge(&mut self, index: usize, id: u64, through: bool, taken: &mut Vec<Entry>) {
        let before = taken.len();
        self.take_unacked(index, id, through, taken);
        let done = &taken[before..];
        let bytes: usize = done.iter().map(Entry::size_bytes).sum();
        self.total_bytes -= bytes as u64;
        self.totals.acknowledged += done.len() as u64;
    }

    /// Takes out what is rejected; it still counts as part of the queue until it is returned or
    /// forgotten.
    pub fn take_unacked(&mut self, index: usize, id: u64, through: bool, taken: &mut Vec<Entry>) {
        let Some(subscriber) = &mut self.subscribers[index] else {
            return;
        };
        let before = taken.len();
        subscriber.take_unacked(id, through, taken);
        self.in_flight -= taken.len() - before;
        self.join_line(index);
    }

    /// An empty list to take entries into; give it back with [`QueueCore::put_spare`].
    pub fn spare(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.spare)
    }

    pub fn put_spare(&mut self, mut spare: Vec<Entry>) {
        spare.clear();
        if spare.capacity() <= SPARE_ENTRIES_MAX {
            self.spare = spare;
        }
    }

    /// An entry that had been taken out leaves the queue for the dead letters.
    pub fn forget(&mut self, entry: &Entry) {
        self.total_bytes -= entry.size_bytes() as u64;
        self.totals.dead += 1;
    }

    /// Puts entries back in their place in the order.
    pub fn put_back(&mut self, entries: Vec<Entry>) {
        self.totals.returned += entries.len() as u64;
        self.merge_into_front(entries);
    }

    pub(super) fn merge_into_front(&mut self, mut entries: Vec<Entry>) {
        if !entries.is_sorted_by_key(|entry| entry.id) {
            entries.sort_unstable_by_key(|entry| entry.id);
        }
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return;
        };
        self.front_bytes += entries.iter().map(Entry::size_bytes).sum::<usize>();
        if self.front.back().is_none_or(|entry| entry.id < first.id) {
            self.front.extend(entries);
            return;
        }
        // Several subscribers that leave at once bring back every other entry, many thousands of
        // them, so they are merged in one pass instead of being inserted one by one.
        let overlap = self.front.partition_point(|entry| entry.id < last.id);
        let mut before: Vec<Entry> = self.front.drain(..overlap).collect();
        while let Some(entry) = entries.pop() {
            while let Some(later) = before.pop_if(|other| other.id > entry.id) {
                self.front.push_front(later);
            }
            self.front.push_front(entry);
        }
        while let Some(earlier) = before.pop() {
            self.front.push_front(earlier);
        }
    }

    /// Takes out what waits for a sync that will never come.
    pub fn take_held(&mut self) -> Vec<Entry> {
        let durable = self.durable;
        let (held, kept): (VecDeque<Entry>, _) = std::mem::take(&mut self.front)
            .into_iter()
            .partition(|entry| entry.held_until > durable);
        self.front = kept;
        let bytes: usize = held.iter().map(Entry::size_bytes).sum();
        self.front_bytes -= bytes;
        self.total_bytes -= bytes as u64;
        held.into()
    }

    /// Serves subscribers: the ready one that was served least recently first. Says whether
    /// messages are held until the journal is synced further.
    pub fn dispatch(&mut self, durable: Position) -> bool {
        self.durable = self.durable.max(durable);
        while let Some(&index) = self.line.front() {
            if !self.serve_first_in_line(index) {
                break;
            }
        }
        self.front
            .front()
            .is_some_and(|entry| entry.held_until > self.durable)
    }

    fn serve_first_in_line(&mut self, index: usize) -> bool {
        // One at a time where several want them; all at once where there is only one.
        let limit = if self.line.len() == 1 { usize::MAX } else { 1 };
        let Self {
            front,
            front_bytes,
            durable,
            ..
        } = self;
        let Some(subscriber) = &mut self.subscribers[index] else {
            self.line.pop_front();
            return true;
        };
        let count = subscriber.serve(limit, || {
            if front.front()?.held_until > *durable {
                return None;
            }
            let entry = front.pop_front()?;
            *front_bytes -= entry.size_bytes();
            Some(entry)
        });
        self.in_flight += count;
        self.totals.delivered += count as u64;
        if subscriber.has_credit() {
            if count == 0 {
                return false;
            }
            self.line.rotate_left(1);
        } else {
            subscriber.in_line = false;
            self.line.pop_front();
        }
        true
    }
}
