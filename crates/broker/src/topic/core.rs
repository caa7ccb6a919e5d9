//! The decisions of a topic, without I/O: one list of messages, and a position in it for each
//! subscriber, so that the memory is that of the subscribers plus that of the messages.
//!
//! Ids have no gaps, so a message's place in the list follows from its id. Each message counts
//! the subscribers that stand at it; the list is cut at the front as soon as nobody stands there.

use std::collections::VecDeque;

use kernel::Message;

use crate::delivery::{AckMode, Entry, Sink};
use crate::queue::{Credit, Subscriber};
use crate::settings::TopicSettings;

#[derive(Debug)]
struct Slot {
    message: Message,
    /// How many subscribers will get this one next.
    next_for: usize,
}

#[derive(Debug)]
struct TopicSubscriber<S> {
    subscriber: Subscriber<S>,
    next: u64,
    /// Rejected messages, to be tried again before anything else.
    again: VecDeque<Entry>,
    missed: u64,
}

/// Totals since the topic was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicTotals {
    /// Messages taken in.
    pub published: u64,
    /// Messages handed to subscribers, counted once for each.
    pub delivered: u64,
    /// Messages that lagging subscribers missed, counted once for each.
    pub missed: u64,
}

#[derive(Debug)]
pub(crate) struct TopicCore<S> {
    pub settings: TopicSettings,
    pub totals: TopicTotals,
    first_id: u64,
    slots: VecDeque<Slot>,
    bytes: usize,
    /// How many subscribers have seen everything.
    at_end: usize,
    subscribers: Vec<Option<TopicSubscriber<S>>>,
    line: Vec<usize>,
}

impl<S: Sink> TopicCore<S> {
    pub fn new(settings: TopicSettings, first_id: u64) -> Self {
        Self {
            settings,
            totals: TopicTotals::default(),
            first_id,
            slots: VecDeque::new(),
            bytes: 0,
            at_end: 0,
            subscribers: Vec::new(),
            line: Vec::new(),
        }
    }

    pub fn held(&self) -> usize {
        self.slots.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn subscriber_count(&self) -> usize {
        self.subscribers.iter().flatten().count()
    }

    pub fn is_unused(&self) -> bool {
        self.subscriber_count() == 0
    }

    /// Takes in messages; without a subscriber they go nowhere.
    pub fn publish(&mut self, messages: impl Iterator<Item = Message>) {
        let mut count = 0;
        if self.is_unused() {
            count = messages.count() as u64;
            self.first_id += count;
        } else {
            for message in messages {
                count += 1;
                self.bytes += slot_bytes(&message);
                let next_for = std::mem::take(&mut self.at_end);
                self.slots.push_back(Slot { message, next_for });
            }
        }
        self.totals.published += count;
        self.dispatch();
        self.enforce_limit();
    }

    fn end_id(&self) -> u64 {
        self.first_id + self.slots.len() as u64
    }

    /// Adds a subscriber, which gets what is published from now on.
    pub fn subscribe(&mut self, token: u32, mode: AckMode, credit: Credit, sink: S) -> usize {
        // What a subscriber does not acknowledge must not take more than the topic itself may.
        let held_bytes_max = self.settings.memory_bytes_max;
        let added = Some(TopicSubscriber {
            subscriber: Subscriber::new(token, mode, credit, held_bytes_max, sink),
            next: self.end_id(),
            again: VecDeque::new(),
            missed: 0,
        });
        self.at_end += 1;
        let index = match self.subscribers.iter().position(Option::is_none) {
            Some(index) => {
                self.subscribers[index] = added;
                index
            }
            None => {
                self.subscribers.push(added);
                self.subscribers.len() - 1
            }
        };
        self.join_line(index);
        index
    }

    pub fn unsubscribe(&mut self, index: usize) {
        let Some(gone) = self.subscribers[index].take() else {
            return;
        };
        self.line.retain(|&i| i != index);
        self.leave(gone.next);
        self.trim();
    }

    /// Deliveries were written out.
    pub fn sent(&mut self, index: usize, messages: usize, bytes: usize) {
        if let Some(subscriber) = &mut self.subscribers[index] {
            subscriber.subscriber.left_outbox(messages, bytes);
            self.join_line(index);
            self.dispatch();
        }
    }

    /// Says how many messages were acknowledged.
    pub fn acknowledge(&mut self, index: usize, id: u64, through: bool) -> usize {
        let Some(subscriber) = &mut self.subscribers[index] else {
            return 0;
        };
        let mut taken = Vec::new();
        subscriber.subscriber.take_unacked(id, through, &mut taken);
        self.join_line(index);
        self.dispatch();
        taken.len()
    }

    /// Takes out rejected messages: those to be tried again are kept, the others are given back
    /// as dead. Says how many were rejected.
    pub fn reject(
        &mut self,
        index: usize,
        id: u64,
        through: bool,
        retry: bool,
    ) -> (usize, Vec<Entry>) {
        let tries_max = self.settings.tries_max;
        let Some(subscriber) = &mut self.subscribers[index] else {
            return (0, Vec::new());
        };
        let mut rejected = Vec::new();
        let taking = &mut subscriber.subscriber;
        taking.take_unacked(id, through, &mut rejected);
        let count = rejected.len();
        let mut dead = Vec::new();
        for mut entry in rejected {
            entry.tries += 1;
            entry.redelivered = true;
            if retry && entry.tries < tries_max {
                subscriber.again.push_back(entry);
            } else {
                dead.push(entry);
            }
        }
        self.join_line(index);
        self.dispatch();
        (count, dead)
    }

    pub fn subscriber(&self, index: usize) -> Option<&Subscriber<S>> {
        Some(&self.subscribers.get(index)?.as_ref()?.subscriber)
    }

    fn join_line(&mut self, index: usize) {
        if let Some(TopicSubscriber { subscriber, .. }) = &mut self.subscribers[index]
            && !subscriber.in_line
            && subscriber.has_credit()
        {
            subscriber.in_line = true;
            self.line.push(index);
        }
    }

    /// Serves everyone who has credit.
    fn dispatch(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        line.retain(|&index| self.serve(index));
        self.line = line;
        self.trim();
    }

    /// Serves one subscriber as far as its credit goes; says whether it has some left.
    fn serve(&mut self, index: usize) -> bool {
        let end_id = self.end_id();
        let Self {
            slots,
            subscribers,
            first_id,
            ..
        } = self;
        let Some(target) = &mut subscribers[index] else {
            return false;
        };
        let before = target.next;
        let TopicSubscriber {
            subscriber,
            next,
            again,
            ..
        } = target;
        let count = subscriber.serve(usize::MAX, || {
            if let Some(entry) = again.pop_front() {
                return Some(entry);
            }
            let slot = slots.get((*next - *first_id) as usize)?;
            *next += 1;
            Some(Entry::new(*next - 1, slot.message.clone(), false))
        });
        let after = *next;
        let credit_left = subscriber.has_credit();
        subscriber.in_line = credit_left;
        self.totals.delivered += count as u64;
        if after != before {
            self.leave_at(before, end_id);
            self.arrive(after, end_id);
        }
        credit_left
    }

    fn leave(&mut self, id: u64) {
        self.leave_at(id, self.end_id());
    }

    fn leave_at(&mut self, id: u64, end_id: u64) {
        if id == end_id {
            self.at_end -= 1;
        } else {
            self.slots[(id - self.first_id) as usize].next_for -= 1;
        }
    }

    fn arrive(&mut self, id: u64, end_id: u64) {
        if id == end_id {
            self.at_end += 1;
        } else {
            self.slots[(id - self.first_id) as usize].next_for += 1;
        }
    }

    fn trim(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.next_for == 0) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(slot) = self.slots.pop_front() {
            self.bytes -= slot_bytes(&slot.message);
            self.first_id += 1;
        }
    }

    /// Those furthest behind miss the oldest messages when they hold too much memory.
    fn enforce_limit(&mut self) {
        if self.bytes <= self.settings.memory_bytes_max {
            return;
        }
        // A tenth at a time, so that looking at every subscriber is rare.
        let target = self.settings.memory_bytes_max / 10 * 9;
        let (mut bytes, mut first) = (self.bytes, self.first_id);
        for slot in &self.slots {
            if bytes <= target {
                break;
            }
            bytes -= slot_bytes(&slot.message);
            first += 1;
        }
        let end_id = self.end_id();
        let mut moved = 0;
        for subscriber in self.subscribers.iter_mut().flatten() {
            if subscriber.next < first {
                let missed = first - subscriber.next;
                subscriber.missed += missed;
                subscriber.next = first;
                self.totals.missed += missed;
                moved += 1;
            }
        }
        while self.first_id < first {
            self.drop_first();
        }
        match self.slots.front_mut() {
            Some(slot) => slot.next_for += moved,
            None => self.at_end += moved,
        }
        debug_assert_eq!(self.end_id(), end_id);
        self.trim();
    }

    /// How many messages a subscriber missed.
    pub fn missed(&self, index: usize) -> u64 {
        self.subscribers
            .get(index)
            .and_then(Option::as_ref)
            .map_or(0, |subscriber| subscriber.missed)
    }
}

pub(super) fn slot_bytes(message: &Message) -> usize {
    message.len_bytes() + size_of::<Slot>()
}
