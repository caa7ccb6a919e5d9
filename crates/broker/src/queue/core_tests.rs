//! The queue's decisions against a plain model: random steps, everything compared after each.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

use journal::Position;
use kernel::Message;
use proptest::prelude::*;

use super::core::{Place, QueueCore};
use super::on_disk::{OnDisk, Taken};
use super::subscriber::Credit;
use crate::delivery::{AckMode, Delivery, Entry, Sink};
use crate::settings::{QueueSettings, WhenFull};

const MESSAGES_MAX: u64 = 40;
const BYTES_MAX: u64 = 8_000;
const MEMORY_BYTES_MAX: usize = 2_000;

/// All subscribers share one, so that the order of service shows.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<Delivery>>>);

impl Sink for Log {
    fn fill(&self, fill: impl FnOnce(&mut Vec<Delivery>)) {
        fill(&mut self.0.borrow_mut());
    }
}

struct ModelSubscriber {
    index: usize,
    mode: AckMode,
    messages_left: u32,
    bytes_left: i64,
    /// What it has: unacknowledged or, with `Auto`, unsent; in the order of delivery.
    has: Vec<Entry>,
    /// Delivered and not yet written.
    outbox: VecDeque<Entry>,
    expelled: bool,
}

impl ModelSubscriber {
    fn has_bytes(&self) -> usize {
        self.has.iter().map(Entry::size_bytes).sum()
    }

    fn has_credit(&self) -> bool {
        let has_room = self.has_bytes() < MEMORY_BYTES_MAX;
        !self.expelled && self.messages_left > 0 && self.bytes_left > 0 && has_room
    }
}

struct Run {
    core: QueueCore<Log>,
    log: Log,
    /// All that waits, by id: its size, and the position that must be synced before it leaves.
    waiting: BTreeMap<u64, (usize, Position)>,
    subscribers: BTreeMap<u32, ModelSubscriber>,
    line: VecDeque<u32>,
    next_token: u32,
    next_position: u32,
    synced: Position,
    disk: HashMap<Position, Message>,
    loading: Option<Vec<OnDisk>>,
    /// The queue was emptied while this was read.
    load_unwanted: bool,
    last_id: u64,
}

impl Run {
    fn new(when_full: WhenFull) -> Self {
        let settings = QueueSettings {
            messages_max: MESSAGES_MAX,
            bytes_max: BYTES_MAX,
            memory_bytes_max: MEMORY_BYTES_MAX,
            when_full,
            ..QueueSettings::default()
        };
        Self {
            core: QueueCore::new(settings, 1),
            log: Log::default(),
            waiting: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            line: VecDeque::new(),
            next_token: 0,
            next_position: 0,
            synced: Position::ZERO,
            disk: HashMap::new(),
            loading: None,
            load_unwanted: false,
            last_id: 0,
        }
    }

    fn step(&mut self, kind: u8, a: u32, b: u32) {
        match kind {
            0..=6 => self.publish(a as usize % 400, b.is_multiple_of(3), b.is_multiple_of(5)),
            7 | 8 => self.subscribe(a, b),
            9 => self.unsubscribe(a),
            10..=12 => self.sent(a, b),
            13 | 14 => self.acknowledge(a, b),
            15 => self.reject(a, b),
            16 => self.synced = Position::new(1, self.next_position),
            17 => self.start_load(a.is_multiple_of(4)),
            18 => self.finish_load(a),
            19 => self.take_waiting(a),
            20 => self.clear_and_expel(a, b),
            _ => self.move_records(),
        }
        self.core.dispatch(self.synced);
        self.follow_deliveries();
        self.check();
    }

    fn publish(&mut self, body_bytes: usize, durable: bool, held: bool) {
        let message = Message::new(vec![0; body_bytes]);
        let mut entry = Entry::new(0, message.clone(), durable);
        let size_bytes = entry.size_bytes();
        while let Err(full) = self.core.check_limits(1, size_bytes) {
            let count = self.waiting.len() + self.in_flight();
            let at_limit = count as u64 == MESSAGES_MAX;
            assert!(
                at_limit || self.bytes() + size_bytes as u64 > BYTES_MAX,
                "{full:?}"
            );
            if !self.core.makes_room() || !self.core.could_fit(1, size_bytes) {
                return;
            }
            let Some(oldest) = self.core.take_oldest() else {
                return;
            };
            let id = taken_id(&oldest);
            assert_eq!(self.waiting.pop_first().map(|(id, _)| id), Some(id));
        }
        entry.id = self.core.take_id();
        assert!(entry.id > self.last_id, "ids grow");
        self.last_id = entry.id;
        let place = self.core.place(size_bytes, false);
        if durable || held || place == Place::Disk {
            self.next_position += 1;
            let position = Position::new(1, self.next_position);
            self.disk.insert(position, message);
            entry.stored = Some(position);
            if held {
                entry.held_until = position;
            }
        }
        self.waiting
            .insert(entry.id, (size_bytes, entry.held_until));
        match (place, entry.stored) {
            (Place::Disk, Some(position)) => self.core.push_disk(OnDisk::of(&entry, position)),
            _ => self.core.push_memory(entry),
        }
    }

    fn subscribe(&mut self, a: u32, b: u32) {
        if self.subscribers.len() >= 4 {
            return;
        }
        let mode = [AckMode::Auto, AckMode::Client, AckMode::Individual][a as usize % 3];
        let credit = Credit {
            messages: 1 + b % 7,
            unsent_bytes: 1 + a % 3_000,
        };
        let token = self.next_token;
        self.next_token += 1;
        let index = self.core.subscribe(token, mode, credit, self.log.clone());
        let subscriber = ModelSubscriber {
            index,
            mode,
            messages_left: credit.messages,
            bytes_left: i64::from(credit.unsent_bytes),
            has: Vec::new(),
            outbox: VecDeque::new(),
            expelled: false,
        };
        self.subscribers.insert(token, subscriber);
        self.line.push_back(token);
    }

    fn pick(&self, a: u32) -> Option<u32> {
        let tokens: Vec<u32> = self.subscribers.keys().copied().collect();
        (!tokens.is_empty()).then(|| tokens[a as usize % tokens.len()])
    }

    fn join_line(&mut self, token: u32) {
        if self.subscribers[&token].has_credit() && !self.line.contains(&token) {
            self.line.push_back(token);
        }
    }

    fn unsubscribe(&mut self, a: u32) {
        let Some(token) = self.pick(a) else { return };
        let gone = self.subscribers.remove(&token).expect("picked");
        self.line.retain(|other| *other != token);
        if gone.mode == AckMode::Auto {
            let back: Vec<Entry> = gone.outbox.into();
            let bytes = back.iter().map(Entry::size_bytes).sum();
            let wanted = self.core.unsent(gone.index, back.len(), bytes);
            assert_eq!(wanted, !gone.expelled);
            assert!(self.core.unsubscribe(gone.index).is_empty());
            if wanted {
                self.put_back(back);
            }
        } else {
            let back = self.core.unsubscribe(gone.index);
            assert_eq!(ids(&back), ids(&gone.has));
            self.put_back(back);
        }
    }

    fn put_back(&mut self, entries: Vec<Entry>) {
        for entry in &entries {
            let kept = (entry.size_bytes(), entry.held_until);
            let before = self.waiting.insert(entry.id, kept);
            assert_eq!(before, None, "a message is there twice");
        }
        self.core.put_back(entries);
    }

    fn sent(&mut self, a: u32, b: u32) {
        let Some(token) = self.pick(a) else { return };
        let subscriber = self.subscribers.get_mut(&token).expect("picked");
        let count = b as usize % (subscriber.outbox.len() + 1);
        let written: Vec<Entry> = subscriber.outbox.drain(..count).collect();
        let bytes: usize = written.iter().map(Entry::size_bytes).sum();
        subscriber.bytes_left += bytes as i64;
        if subscriber.mode == AckMode::Auto && !subscriber.expelled {
            subscriber.messages_left += count as u32;
            subscriber.has.drain(..count);
        }
        self.core.sent(subscriber.index, count, bytes);
        self.join_line(token);
    }

    /// Takes what an answer of the subscriber covers out of the model.
    fn answer(&mut self, token: u32, b: u32) -> Option<(u64, bool, Vec<u64>)> {
        let subscriber = self.subscribers.get_mut(&token)?;
        if subscriber.mode == AckMode::Auto || subscriber.has.is_empty() {
            // Nothing of the kind is there, and so nothing must happen.
            return Some((u64::from(b), false, Vec::new()));
        }
        let at = b as usize % subscriber.has.len();
        let through = subscriber.mode == AckMode::Client;
        let id = subscriber.has[at].id;
        let range = if through { 0..at + 1 } else { at..at + 1 };
        let covered: Vec<u64> = subscriber.has.drain(range).map(|e| e.id).collect();
        subscriber.messages_left += covered.len() as u32;
        Some((id, through, covered))
    }

    fn acknowledge(&mut self, a: u32, b: u32) {
        let Some(token) = self.pick(a) else { return };
        let Some((id, through, covered)) = self.answer(token, b) else {
            return;
        };
        let index = self.subscribers[&token].index;
        let mut taken = Vec::new();
        self.core.acknowledge(index, id, through, &mut taken);
        assert_eq!(ids(&taken), covered);
        self.join_line(token);
    }

    fn reject(&mut self, a: u32, b: u32) {
        let Some(token) = self.pick(a) else { return };
        let Some((id, through, covered)) = self.answer(token, b) else {
            return;
        };
        let index = self.subscribers[&token].index;
        let mut taken = Vec::new();
        self.core.take_unacked(index, id, through, &mut taken);
        assert_eq!(ids(&taken), covered);
        let (dead, back): (Vec<Entry>, Vec<Entry>) =
            taken.into_iter().partition(|_| b.is_multiple_of(2));
        dead.iter().for_each(|entry| self.core.forget(entry));
        self.put_back(back);
        self.join_line(token);
    }

    fn start_load(&mut self, memory_is_short: bool) {
        if let Some(batch) = self.core.start_load(memory_is_short) {
            assert!(self.loading.is_none(), "one load at a time");
            assert!(!batch.is_empty());
            self.loading = Some(batch);
            self.load_unwanted = false;
        }
    }

    fn finish_load(&mut self, a: u32) {
        let Some(batch) = self.loading.take() else {
            return;
        };
        let (mut entries, mut missing) = (Vec::new(), Vec::new());
        for on_disk in batch {
            if a.is_multiple_of(8) && on_disk.id.is_multiple_of(5) {
                missing.push(on_disk);
            } else {
                let message = self.disk[&on_disk.position].clone();
                entries.push(on_disk.with_message(message));
            }
        }
        let loaded = ids(&entries);
        let unwanted = self.core.finish_load(entries, &missing);
        if self.load_unwanted {
            assert_eq!(ids(&unwanted), loaded);
        } else {
            assert!(unwanted.is_empty());
            for on_disk in missing {
                self.waiting.remove(&on_disk.id);
            }
        }
    }

    fn take_waiting(&mut self, a: u32) {
        let ids: Vec<u64> = self.waiting.keys().copied().collect();
        let Some(id) = ids.get(a as usize % ids.len().max(1)) else {
            return;
        };
        let is_loading = |on_disk: &OnDisk| on_disk.id == *id;
        let loading = self.loading.iter().flatten().any(is_loading) && !self.load_unwanted;
        let found = self.core.find_waiting(*id).map(|settled| settled.id);
        let taken = self.core.take_waiting(*id).as_ref().map(taken_id);
        assert_eq!(found, taken);
        assert_eq!(taken, (!loading).then_some(*id));
        if taken.is_some() {
            self.waiting.remove(id);
        }
    }

    fn clear_and_expel(&mut self, a: u32, b: u32) {
        if a.is_multiple_of(3) {
            let (memory, disk, loading) = self.core.clear();
            assert_eq!(memory.len() + disk.len() + loading, self.waiting.len());
            self.waiting.clear();
            self.load_unwanted = self.loading.is_some();
        }
        if b.is_multiple_of(7) {
            let subscribers = &mut self.subscribers;
            let mut expected = 0;
            let taken = self.core.expel_all(|token, _| {
                let subscriber = subscribers.get_mut(&token).expect("known");
                let in_outbox: Vec<Entry> = subscriber.outbox.drain(..).collect();
                expected += match subscriber.mode {
                    AckMode::Auto => in_outbox.len(),
                    _ => subscriber.has.len(),
                };
                in_outbox
            });
            assert_eq!(taken.len(), expected);
            for subscriber in self.subscribers.values_mut() {
                subscriber.expelled = true;
                subscriber.has.clear();
            }
            self.line.clear();
        }
    }

    /// As when an old segment is emptied.
    fn move_records(&mut self) {
        for mut stored in self.core.stored_in(1) {
            let old = stored.position().expect("it is stored");
            self.next_position += 1;
            let position = Position::new(1, self.next_position);
            self.disk.insert(position, self.disk[&old].clone());
            stored.move_to(position);
        }
        // Those on disk are held until their new record is synced; that is all the same to them.
        self.synced = Position::new(1, self.next_position);
    }

    fn follow_deliveries(&mut self) {
        let deliveries = std::mem::take(&mut *self.log.0.borrow_mut());
        for Delivery {
            subscription,
            entry,
        } in deliveries
        {
            let (id, (size_bytes, held_until)) = self.waiting.pop_first().expect("it waited");
            assert_eq!(entry.id, id, "first in, first out");
            assert_eq!(entry.size_bytes(), size_bytes);
            assert!(held_until <= self.synced, "it left too early");
            assert_eq!(
                self.line.pop_front(),
                Some(subscription),
                "least recently served first"
            );
            let subscriber = self.subscribers.get_mut(&subscription).expect("subscribed");
            assert!(subscriber.has_credit(), "more than the credit");
            subscriber.messages_left -= 1;
            subscriber.bytes_left -= size_bytes as i64;
            subscriber.has.push(entry.clone());
            subscriber.outbox.push_back(entry);
            if subscriber.has_credit() {
                self.line.push_back(subscription);
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.subscribers.values().map(|s| s.has.len()).sum()
    }

    fn bytes(&self) -> u64 {
        let waiting: usize = self.waiting.values().map(|(size, _)| size).sum();
        let held: usize = self.subscribers.values().map(|s| s.has_bytes()).sum();
        (waiting + held) as u64
    }

    fn check(&self) {
        let core = &self.core;
        assert_eq!(core.waiting(), self.waiting.len(), "what waits");
        assert_eq!(core.in_flight(), self.in_flight());
        assert_eq!(core.total_bytes(), self.bytes());
        assert!(core.total_bytes() <= BYTES_MAX, "the limit of bytes");
        assert!((core.waiting() + core.in_flight()) as u64 <= MESSAGES_MAX);
        let memory: Vec<&Entry> = core.waiting_in_memory().collect();
        let memory_bytes: usize = memory.iter().map(|entry| entry.size_bytes()).sum();
        assert_eq!(core.memory_bytes(), memory_bytes);
        let on_disk = core.waiting_on_disk().map(|on_disk| on_disk.id);
        let ids: Vec<u64> = memory.iter().map(|e| e.id).chain(on_disk).collect();
        assert!(ids.is_sorted(), "{ids:?}");
        let active = self.subscribers.values().filter(|s| !s.expelled);
        assert_eq!(core.subscriber_count(), active.count());
        // Nobody waits for what could be had.
        if let (false, Some(first)) = (self.line.is_empty(), memory.first()) {
            assert!(
                first.held_until > self.synced,
                "a ready subscriber is not served"
            );
        }
    }

    /// Everything is consumed; then nothing may be left over.
    fn drain(&mut self) {
        while let Some(token) = self.subscribers.keys().next().copied() {
            let position = self.subscribers.keys().position(|t| *t == token);
            self.unsubscribe(position.expect("it is there") as u32);
        }
        self.synced = Position::new(2, 0);
        self.next_token = self.next_token.max(1);
        let credit = Credit {
            messages: u32::MAX,
            unsent_bytes: u32::MAX,
        };
        let token = self.next_token;
        let index = self
            .core
            .subscribe(token, AckMode::Auto, credit, self.log.clone());
        loop {
            self.core.dispatch(self.synced);
            let deliveries = std::mem::take(&mut *self.log.0.borrow_mut());
            for delivery in &deliveries {
                let first = self.waiting.pop_first().map(|(id, _)| id);
                assert_eq!(first, Some(delivery.entry.id));
            }
            let bytes = deliveries.iter().map(|d| d.entry.size_bytes()).sum();
            self.core.sent(index, deliveries.len(), bytes);
            self.finish_load(1);
            self.start_load(false);
            if deliveries.is_empty() && self.loading.is_none() && self.core.waiting() == 0 {
                break;
            }
        }
        assert!(self.waiting.is_empty(), "lost: {:?}", self.waiting);
        self.core.unsubscribe(index);
        assert_eq!(self.core.total_bytes(), 0);
        assert_eq!(self.core.memory_bytes(), 0);
        assert_eq!(self.core.in_flight(), 0);
        assert!(self.core.is_unused());
    }
}

fn taken_id(taken: &Taken) -> u64 {
    match taken {
        Taken::Memory(entry) => entry.id,
        Taken::Disk(on_disk) => on_disk.id,
    }
}

fn ids(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_queue_behaves_like_its_model(
        makes_room in any::<bool>(),
        steps in prop::collection::vec((0u8..22, any::<u32>(), any::<u32>()), 0..250),
    ) {
        let when_full = match makes_room {
            true => WhenFull::OldestToDeadLetters,
            false => WhenFull::Refuse,
        };
        let mut run = Run::new(when_full);
        for (kind, a, b) in steps {
            run.step(kind, a, b);
        }
        run.drain();
    }
}

/// The control: a queue that loses a message is found out.
#[test]
#[should_panic(expected = "what waits")]
fn the_model_notices_a_lost_message() {
    let mut run = Run::new(WhenFull::Refuse);
    run.step(0, 10, 1);
    run.core.take_oldest();
    run.step(16, 0, 0);
}
