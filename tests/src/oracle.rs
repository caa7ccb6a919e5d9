//! The judge of every reliability test: what was promised against what came.
//!
//! Producers and consumers write down into a [`Log`] what they sent, what was acknowledged to
//! them and what they received. [`judge`] then holds that *acknowledged ⊆ delivered ∪ still
//! stored*, that nothing came which was never sent, that the order per sender held where it was
//! promised, and that a message came twice only if it was marked redelivered or its producer
//! had repeated the send.
//!
//! ```
//! use hivewire_tests::oracle::{Log, MessageId, Order, judge};
//!
//! let mut log = Log::default();
//! let id = MessageId { sender: 1, sequence: 1 };
//! log.sent(id);
//! log.acknowledged(id);
//! let verdict = judge(&log, &Default::default(), Order::PerSender);
//! assert_eq!(verdict.lost(), 1);
//! ```
//!
//! It knows no protocol and does no I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Which message: the number of its sender, and its place among that sender's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId {
    /// Who sent it.
    pub sender: u32,
    /// Rises by one with each message of the sender.
    pub sequence: u64,
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.sender, self.sequence)
    }
}

impl MessageId {
    /// A body of this many bytes (or a few more, if it is too short for the id) that names the
    /// message and whose every byte follows from the id, so that damage is seen.
    pub fn body(self, length_bytes: usize) -> Vec<u8> {
        // The length is part of the body, so that a shortened one is seen as well.
        let mut body = format!("{self}-{length_bytes}|").into_bytes();
        let seed = (u64::from(self.sender) << 40) ^ self.sequence;
        let mut rng = fastrand::Rng::with_seed(seed);
        while body.len() < length_bytes {
            body.push(rng.u8(b'a'..=b'z'));
        }
        body
    }

    /// The id that a body names, if the body is exactly as it was sent.
    pub fn from_body(body: &[u8]) -> Option<Self> {
        let end = body.iter().position(|byte| *byte == b'|')?;
        let mut parts = str::from_utf8(&body[..end]).ok()?.split('-');
        let id = Self {
            sender: parts.next()?.parse().ok()?,
            sequence: parts.next()?.parse().ok()?,
        };
        let length_bytes: usize = parts.next()?.parse().ok()?;
        // A damaged length must not make this allocate without bound.
        let plausible = length_bytes <= body.len() && parts.next().is_none();
        (plausible && id.body(length_bytes) == body).then_some(id)
    }
}

/// One line in the log of a consumer.
#[derive(Clone, Debug)]
struct Received {
    consumer: u32,
    /// Nothing if the body was not one that any producer made.
    id: Option<MessageId>,
    redelivered: bool,
}

/// What producers and consumers wrote down, each in its own order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    sends: BTreeMap<MessageId, u32>,
    acknowledged: BTreeSet<MessageId>,
    received: Vec<Received>,
}

impl Log {
    /// A producer is about to send this message, perhaps again.
    pub fn sent(&mut self, id: MessageId) {
        *self.sends.entry(id).or_default() += 1;
    }

    /// The broker said that it has this message.
    pub fn acknowledged(&mut self, id: MessageId) {
        self.acknowledged.insert(id);
    }

    /// A consumer received this message.
    pub fn received(&mut self, consumer: u32, id: MessageId, redelivered: bool) {
        let id = Some(id);
        self.received.push(Received {
            consumer,
            id,
            redelivered,
        });
    }

    /// A consumer received a body; it is looked into to find which message it is.
    pub fn received_body(&mut self, consumer: u32, body: &[u8], redelivered: bool) {
        let id = MessageId::from_body(body);
        self.received.push(Received {
            consumer,
            id,
            redelivered,
        });
    }

    /// Takes over what another log holds.
    pub fn merge(&mut self, other: Log) {
        for (id, times) in other.sends {
            *self.sends.entry(id).or_default() += times;
        }
        self.acknowledged.extend(other.acknowledged);
        self.received.extend(other.received);
    }

    /// How many different messages were acknowledged.
    pub fn acknowledged_count(&self) -> usize {
        self.acknowledged.len()
    }

    /// How many deliveries there were, repeated ones included.
    pub fn received_count(&self) -> usize {
        self.received.len()
    }

    fn repeated(&self, id: MessageId) -> bool {
        self.sends.get(&id).is_some_and(|times| *times > 1)
    }
}

/// What the queue under test promises about order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each consumer sees each sender's messages in the order they were sent. What is marked as
    /// redelivered may come late.
    PerSender,
    /// The same, marked or not: only what came before, or was sent again, may come late. It holds
    /// where a queue has one consumer at a time.
    PerSenderMarkedToo,
    /// Nothing.
    Any,
}

/// One broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// Acknowledged, and then neither delivered nor stored.
    Lost(MessageId),
    /// Delivered, but no producer sent it.
    NeverSent(MessageId),
    /// Delivered with a body that no producer made.
    Damaged,
    /// Delivered again without being marked, though its producer sent it once.
    UnmarkedDuplicate(MessageId),
    /// A consumer saw `earlier` after `later`.
    OutOfOrder {
        /// What had been sent first.
        earlier: MessageId,
        /// What had been sent after it.
        later: MessageId,
    },
}

/// What the oracle found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Every broken promise.
    pub violations: Vec<Violation>,
    /// Messages that were acknowledged.
    pub acknowledged: usize,
    /// Deliveries, repeated ones included.
    pub received: usize,
    /// Deliveries that were marked as repeated.
    pub redelivered: usize,
}

impl Verdict {
    /// How many acknowledged messages are gone.
    pub fn lost(&self) -> usize {
        let lost = |violation: &&Violation| matches!(violation, Violation::Lost(_));
        self.violations.iter().filter(lost).count()
    }

    /// Fails the test if any promise was broken, saying which.
    pub fn assert_clean(&self, context: &str) {
        assert!(self.violations.is_empty(), "{context}: {self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 20;
        write!(
            f,
            "{} acknowledged, {} received ({} marked redelivered), {} lost, {} promises broken",
            self.acknowledged,
            self.received,
            self.redelivered,
            self.lost(),
            self.violations.len()
        )?;
        for violation in self.violations.iter().take(SHOWN_MAX) {
            write!(f, "\n  {violation:?}")?;
        }
        Ok(())
    }
}

/// Holds the log, and what is still stored, against the promises.
pub fn judge(log: &Log, still_stored: &BTreeSet<MessageId>, order: Order) -> Verdict {
    let mut violations = unexpected(log);
    let delivered: BTreeSet<MessageId> = log.received.iter().filter_map(|r| r.id).collect();
    let missing = log
        .acknowledged
        .iter()
        .filter(|id| !delivered.contains(id) && !still_stored.contains(id));
    violations.extend(missing.map(|id| Violation::Lost(*id)));
    let stored_unsent = still_stored.iter().filter(|id| !log.sends.contains_key(id));
    violations.extend(stored_unsent.map(|id| Violation::NeverSent(*id)));
    match order {
        Order::PerSender => violations.extend(inversions(log, |_, received| !received.redelivered)),
        Order::PerSenderMarkedToo => violations.extend(inversions(log, came_first)),
        Order::Any => {}
    }
    violations.sort();
    Verdict {
        violations,
        acknowledged: log.acknowledged.len(),
        received: log.received.len(),
        redelivered: log.received.iter().filter(|r| r.redelivered).count(),
    }
}

/// Deliveries that nobody sent, and second deliveries that nothing explains.
fn unexpected(log: &Log) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut unmarked = BTreeMap::<MessageId, u32>::new();
    for received in &log.received {
        let Some(id) = received.id else {
            violations.push(Violation::Damaged);
            continue;
        };
        if !log.sends.contains_key(&id) {
            violations.push(Violation::NeverSent(id));
        }
        if !received.redelivered {
            *unmarked.entry(id).or_default() += 1;
        }
    }
    // Each send may be delivered once without a mark.
    let duplicates = unmarked
        .iter()
        .filter(|(id, times)| **times > log.sends.get(id).copied().unwrap_or(1));
    violations.extend(duplicates.map(|(id, _)| Violation::UnmarkedDuplicate(*id)));
    violations
}

/// Whether this is the first time that anybody received this message.
fn came_first(before: &BTreeSet<MessageId>, received: &Received) -> bool {
    received.id.is_some_and(|id| !before.contains(&id))
}

/// Pairs that a consumer saw the wrong way round, among the deliveries that `counts` picks, given
/// what was received before. What was sent again may come late.
fn inversions(
    log: &Log,
    counts: impl Fn(&BTreeSet<MessageId>, &Received) -> bool,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut before = BTreeSet::new();
    let mut newest = BTreeMap::<(u32, u32), MessageId>::new();
    for received in &log.received {
        let counts = counts(&before, received);
        before.extend(received.id);
        let Some(id) = received.id.filter(|id| counts && !log.repeated(*id)) else {
            continue;
        };
        let last = newest.entry((received.consumer, id.sender)).or_insert(id);
        if id.sequence < last.sequence {
            violations.push(Violation::OutOfOrder {
                earlier: id,
                later: *last,
            });
        }
        *last = (*last).max(id);
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> MessageId {
        MessageId {
            sender: 1,
            sequence,
        }
    }

    fn acknowledged(count: u64) -> Log {
        let mut log = Log::default();
        for sequence in 1..=count {
            log.sent(id(sequence));
            log.acknowledged(id(sequence));
        }
        log
    }

    fn check(log: &Log, stored: &[u64], expected: &[Violation]) {
        let stored = stored.iter().map(|sequence| id(*sequence)).collect();
        assert_eq!(judge(log, &stored, Order::PerSender).violations, expected);
    }

    #[test]
    fn delivered_or_stored_is_clean() {
        let mut log = acknowledged(2);
        log.received(1, id(1), false);
        check(&log, &[2], &[]);
    }

    #[test]
    fn an_acknowledged_message_that_is_nowhere_is_lost() {
        let mut log = acknowledged(2);
        log.received(1, id(2), false);
        check(&log, &[], &[Violation::Lost(id(1))]);
    }

    #[test]
    fn a_message_that_was_never_acknowledged_may_vanish_or_come() {
        let mut log = Log::default();
        log.sent(id(1));
        log.sent(id(2));
        log.received(1, id(2), false);
        check(&log, &[], &[]);
    }

    #[test]
    fn what_nobody_sent_is_found_among_the_delivered_and_the_stored() {
        let mut log = acknowledged(1);
        log.received(1, id(1), false);
        log.received(1, id(7), false);
        let expected = [Violation::NeverSent(id(7)), Violation::NeverSent(id(8))];
        check(&log, &[8], &expected);
    }

    #[test]
    fn a_duplicate_needs_a_mark_or_a_repeated_send() {
        let mut log = acknowledged(1);
        log.received(1, id(1), false);
        log.received(1, id(1), true);
        check(&log, &[], &[]);
        log.received(1, id(1), false);
        check(&log, &[], &[Violation::UnmarkedDuplicate(id(1))]);
        log.sent(id(1));
        check(&log, &[], &[]);
        log.received(1, id(1), false);
        check(&log, &[], &[Violation::UnmarkedDuplicate(id(1))]);
    }

    #[test]
    fn order_is_checked_per_sender_and_consumer_where_promised() {
        let mut log = acknowledged(3);
        log.received(1, id(2), false);
        log.received(2, id(1), false);
        log.received(1, id(3), false);
        check(&log, &[], &[]);
        log.received(1, id(1), true);
        check(&log, &[], &[]);
        let mut wrong = acknowledged(2);
        wrong.received(1, id(2), false);
        wrong.received(1, id(1), false);
        let expected = Violation::OutOfOrder {
            earlier: id(1),
            later: id(2),
        };
        check(&wrong, &[], &[expected]);
        assert!(
            judge(&wrong, &BTreeSet::new(), Order::Any)
                .violations
                .is_empty()
        );
    }

    #[test]
    fn a_mark_excuses_no_first_delivery_where_order_is_promised_for_marked_ones_too() {
        let mut log = acknowledged(3);
        log.received(1, id(2), true);
        log.received(1, id(3), false);
        log.received(1, id(2), true);
        let strictly = |log: &Log| {
            let verdict = judge(log, &BTreeSet::from([id(1)]), Order::PerSenderMarkedToo);
            verdict.violations
        };
        assert_eq!(strictly(&log), []);
        log.received(1, id(1), true);
        let expected = Violation::OutOfOrder {
            earlier: id(1),
            later: id(3),
        };
        assert_eq!(strictly(&log), [expected]);
        check(&log, &[], &[]);
    }

    #[test]
    fn a_damaged_body_is_found() {
        let mut log = acknowledged(1);
        let mut body = id(1).body(100);
        log.received_body(1, &body, false);
        check(&log, &[], &[]);
        body[50] ^= 1;
        log.received_body(1, &body, true);
        check(&log, &[], &[Violation::Damaged]);
        log.received_body(1, b"no id at all", true);
        log.received_body(1, &id(1).body(100)[..40], true);
        check(&log, &[], &[Violation::Damaged; 3]);
    }
}
