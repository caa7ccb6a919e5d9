//! The topic's decisions against a plain model: random steps, everything compared after each.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use kernel::Message;
use proptest::prelude::*;

use super::core::{TopicCore, slot_bytes};
use crate::delivery::{AckMode, Delivery, Entry, Sink};
use crate::queue::Credit;
use crate::settings::TopicSettings;

const MEMORY_BYTES_MAX: usize = 3_000;
const TRIES_MAX: u32 = 3;

#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<Delivery>>>);

impl Sink for Log {
    fn fill(&self, fill: impl FnOnce(&mut Vec<Delivery>)) {
        fill(&mut self.0.borrow_mut());
    }
}

/// A message of the topic: its id and what it takes in the topic's list.
type Published = (u64, usize);

struct ModelSubscriber {
    index: usize,
    mode: AckMode,
    messages_left: u32,
    bytes_left: i64,
    again: VecDeque<u64>,
    pending: VecDeque<Published>,
    has: Vec<Entry>,
    outbox: VecDeque<Entry>,
    missed: u64,
}

impl ModelSubscriber {
    fn has_credit(&self) -> bool {
        let has_bytes: usize = self.has.iter().map(Entry::size_bytes).sum();
        self.messages_left > 0 && self.bytes_left > 0 && has_bytes < MEMORY_BYTES_MAX
    }
}

struct Run {
    core: TopicCore<Log>,
    log: Log,
    subscribers: BTreeMap<u32, ModelSubscriber>,
    next_token: u32,
    next_id: u64,
    published: u64,
    missed: u64,
    delivered: u64,
}

impl Run {
    fn new() -> Self {
        let settings = TopicSettings {
            memory_bytes_max: MEMORY_BYTES_MAX,
            tries_max: TRIES_MAX,
        };
        Self {
            core: TopicCore::new(settings, 100),
            log: Log::default(),
            subscribers: BTreeMap::new(),
            next_token: 0,
            next_id: 100,
            published: 0,
            missed: 0,
            delivered: 0,
        }
    }

    fn step(&mut self, kind: u8, a: u32, b: u32) {
        match kind {
            0..=4 => self.publish(a as usize % 4, b as usize % 500),
            5 => self.subscribe(a, b),
            6 => self.unsubscribe(a),
            7 | 8 => self.sent(a, b),
            9 => self.acknowledge(a, b),
            _ => self.reject(a, b),
        }
        self.follow_deliveries();
        if kind <= 4 {
            self.miss();
        }
        self.check();
    }

    fn publish(&mut self, count: usize, body_bytes: usize) {
        let message = Message::new(vec![0; body_bytes]);
        let bytes = slot_bytes(&message);
        for _ in 0..count {
            for subscriber in self.subscribers.values_mut() {
                subscriber.pending.push_back((self.next_id, bytes));
            }
            self.next_id += 1;
        }
        self.published += count as u64;
        self.core.publish(std::iter::repeat_n(message, count));
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
            again: VecDeque::new(),
            pending: VecDeque::new(),
            has: Vec::new(),
            outbox: VecDeque::new(),
            missed: 0,
        };
        self.subscribers.insert(token, subscriber);
    }

    fn pick(&mut self, a: u32) -> Option<u32> {
        let tokens: Vec<u32> = self.subscribers.keys().copied().collect();
        (!tokens.is_empty()).then(|| tokens[a as usize % tokens.len()])
    }

    fn unsubscribe(&mut self, a: u32) {
        if let Some(token) = self.pick(a) {
            let gone = self.subscribers.remove(&token).expect("picked");
            self.core.unsubscribe(gone.index);
        }
    }

    fn sent(&mut self, a: u32, b: u32) {
        let Some(token) = self.pick(a) else { return };
        let subscriber = self.subscribers.get_mut(&token).expect("picked");
        let count = b as usize % (subscriber.outbox.len() + 1);
        let written: Vec<Entry> = subscriber.outbox.drain(..count).collect();
        let bytes: usize = written.iter().map(Entry::size_bytes).sum();
        subscriber.bytes_left += bytes as i64;
        if subscriber.mode == AckMode::Auto {
            subscriber.messages_left += count as u32;
            subscriber.has.drain(..count);
        }
        self.core.sent(subscriber.index, count, bytes);
    }

    fn answer(subscriber: &mut ModelSubscriber, b: u32) -> Option<(u64, bool, Vec<Entry>)> {
        if subscriber.mode == AckMode::Auto || subscriber.has.is_empty() {
            return None;
        }
        let at = b as usize % subscriber.has.len();
        let through = subscriber.mode == AckMode::Client;
        let id = subscriber.has[at].id;
        let range = if through { 0..at + 1 } else { at..at + 1 };
        let covered: Vec<Entry> = subscriber.has.drain(range).collect();
        subscriber.messages_left += covered.len() as u32;
        Some((id, through, covered))
    }

    fn acknowledge(&mut self, a: u32, b: u32) {
        let Some(token) = self.pick(a) else { return };
        let subscriber = self.subscribers.get_mut(&token).expect("picked");
        if let Some((id, through, covered)) = Self::answer(subscriber, b) {
            let done = self.core.acknowledge(subscriber.index, id, through);
            assert_eq!(done, covered.len());
        }
    }

    fn reject(&mut self, a: u32, b: u32) {
        let Some(token) = self.pick(a) else { return };
        let subscriber = self.subscribers.get_mut(&token).expect("picked");
        if let Some((id, through, covered)) = Self::answer(subscriber, b) {
            let retry = !b.is_multiple_of(3);
            let lasts = |entry: &Entry| retry && entry.tries + 1 < TRIES_MAX;
            let again: Vec<u64> = covered.iter().filter(|e| lasts(e)).map(|e| e.id).collect();
            let dying = covered.len() - again.len();
            subscriber.again.extend(again);
            let (count, dead) = self.core.reject(subscriber.index, id, through, retry);
            assert_eq!((count, dead.len()), (covered.len(), dying));
        }
    }

    fn follow_deliveries(&mut self) {
        let deliveries = std::mem::take(&mut *self.log.0.borrow_mut());
        for Delivery {
            subscription,
            entry,
        } in deliveries
        {
            let subscriber = self.subscribers.get_mut(&subscription).expect("subscribed");
            assert!(subscriber.has_credit(), "more than the credit");
            let expected = match subscriber.again.pop_front() {
                Some(id) => id,
                None => subscriber.pending.pop_front().expect("it was published").0,
            };
            assert_eq!(entry.id, expected, "in order, without gaps");
            assert_eq!(entry.redelivered, entry.tries > 0);
            subscriber.messages_left -= 1;
            subscriber.bytes_left -= entry.size_bytes() as i64;
            subscriber.has.push(entry.clone());
            subscriber.outbox.push_back(entry);
            self.delivered += 1;
        }
    }

    /// What somebody has still to get, oldest first: that of the one furthest behind.
    fn held(&self) -> Vec<Published> {
        let pending = self.subscribers.values().map(|s| &s.pending);
        let longest = pending.max_by_key(|pending| pending.len());
        longest.map_or(Vec::new(), |pending| pending.iter().copied().collect())
    }

    /// Those furthest behind miss the oldest when it is too much.
    fn miss(&mut self) {
        let held = self.held();
        let mut bytes: usize = held.iter().map(|(_, bytes)| bytes).sum();
        if bytes <= MEMORY_BYTES_MAX {
            return;
        }
        let mut dropped = held.iter();
        let mut last = 0;
        while bytes > MEMORY_BYTES_MAX / 10 * 9 {
            let (id, message_bytes) = dropped.next().expect("there is more");
            bytes -= message_bytes;
            last = *id;
        }
        for subscriber in self.subscribers.values_mut() {
            while subscriber
                .pending
                .pop_front_if(|(id, _)| *id <= last)
                .is_some()
            {
                subscriber.missed += 1;
                self.missed += 1;
            }
        }
    }

    fn check(&self) {
        let held = self.held();
        assert_eq!(self.core.held(), held.len(), "one list, cut at the front");
        let bytes: usize = held.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(self.core.bytes(), bytes);
        assert!(bytes <= MEMORY_BYTES_MAX);
        assert_eq!(self.core.subscriber_count(), self.subscribers.len());
        let totals = self.core.totals;
        assert_eq!(totals.published, self.published);
        assert_eq!(totals.delivered, self.delivered);
        assert_eq!(totals.missed, self.missed);
        for subscriber in self.subscribers.values() {
            assert_eq!(self.core.missed(subscriber.index), subscriber.missed);
            let waits = !subscriber.pending.is_empty() || !subscriber.again.is_empty();
            assert!(
                !(waits && subscriber.has_credit()),
                "a ready subscriber is not served"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn a_topic_behaves_like_its_model(
        steps in prop::collection::vec((0u8..11, any::<u32>(), any::<u32>()), 0..250),
    ) {
        let mut run = Run::new();
        for (kind, a, b) in steps {
            run.step(kind, a, b);
        }
        while !run.subscribers.is_empty() {
            run.unsubscribe(0);
            run.check();
        }
        assert_eq!((run.core.held(), run.core.bytes()), (0, 0));
    }
}

/// Memory is that of the messages plus that of the subscribers: a message is kept once.
#[test]
fn a_thousand_subscribers_share_one_list() {
    let settings = TopicSettings {
        memory_bytes_max: 10 << 20,
        tries_max: TRIES_MAX,
    };
    let mut core = TopicCore::new(settings, 1);
    let no_credit = Credit {
        messages: 0,
        unsent_bytes: 0,
    };
    for token in 0..1_000 {
        core.subscribe(token, AckMode::Auto, no_credit, Log::default());
    }
    let message = Message::new(vec![0; 1_000]);
    core.publish(std::iter::repeat_n(message.clone(), 100));
    assert_eq!(core.held(), 100);
    assert_eq!(core.bytes(), 100 * slot_bytes(&message));
}
