//! Receipts that were asked for and have not come yet.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use crate::capabilities::AckLevel;

/// Beyond this many, those that nobody waits for any more are looked for and forgotten.
const FORGOTTEN_MAX: usize = 1_024;

/// Why a commit of a node did not happen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Declined {
    /// Another owner has taken over the bucket.
    Fenced {
        current: u64,
    },
    /// A message in it is not ours any more.
    NotHeld,
    Full {
        reason: String,
    },
    Refused {
        reason: String,
    },
}

/// What came of something that asked for receipts.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All receipts came; the last one said that it is worth this much.
    Confirmed(Option<AckLevel>),
    /// The receipt says that nothing happened. Only commits of nodes get such ones.
    Declined(Declined),
    /// The server complained; `is_certain` says that it was about this and nothing else. Those
    /// marked had been confirmed before.
    Complaint {
        text: String,
        is_certain: bool,
        confirmed: Vec<bool>,
    },
    /// The connection was lost. Those marked had been confirmed before.
    Lost {
        reason: String,
        confirmed: Vec<bool>,
    },
}

#[derive(Debug)]
struct Waiting {
    confirmed: Vec<bool>,
    open: usize,
    level: Option<AckLevel>,
    done: oneshot::Sender<Outcome>,
}

/// The receipts of one connection, numbered one after another.
#[derive(Debug, Default)]
pub(super) struct Receipts {
    next: u64,
    /// By the first of the numbers that belong together.
    waiting: BTreeMap<u64, Waiting>,
}

impl Receipts {
    /// The first of `count` numbers to ask for, and where the outcome is told.
    pub fn expect(&mut self, count: usize) -> (u64, oneshot::Receiver<Outcome>) {
        if self.waiting.len() > FORGOTTEN_MAX {
            self.waiting.retain(|_, waiting| !waiting.done.is_closed());
        }
        let first = self.next;
        self.next += count as u64;
        let (done, outcome) = oneshot::channel();
        let waiting = Waiting {
            confirmed: vec![false; count],
            open: count,
            level: None,
            done,
        };
        self.waiting.insert(first, waiting);
        (first, outcome)
    }

    /// A receipt came.
    pub fn came(&mut self, number: u64, level: Option<AckLevel>) {
        let Some((first, waiting)) = self.waiting.range_mut(..=number).next_back() else {
            return;
        };
        let first = *first;
        let place = waiting.confirmed.get_mut((number - first) as usize);
        let Some(confirmed) = place.filter(|confirmed| !**confirmed) else {
            return;
        };
        *confirmed = true;
        waiting.open -= 1;
        waiting.level = level;
        if waiting.open == 0
            && let Some(waiting) = self.waiting.remove(&first)
        {
            // Nobody listening means that the caller's time was up.
            let _ = waiting.done.send(Outcome::Confirmed(waiting.level));
        }
    }

    /// A receipt came that says that nothing happened.
    pub fn declined(&mut self, number: u64, declined: Declined) {
        if let Some(waiting) = self.waiting.remove(&number) {
            let _ = waiting.done.send(Outcome::Declined(declined));
        }
    }

    /// The server complained, about the frame with this receipt if it said so.
    pub fn complaint(&mut self, number: Option<u64>, text: &str) {
        let is_only = self.waiting.len() == 1;
        for (first, waiting) in std::mem::take(&mut self.waiting) {
            let range = first..first + waiting.confirmed.len() as u64;
            let is_certain = match number {
                Some(number) => range.contains(&number),
                None => is_only,
            };
            let _ = waiting.done.send(Outcome::Complaint {
                text: text.to_owned(),
                is_certain,
                confirmed: waiting.confirmed,
            });
        }
    }

    /// The connection was lost.
    pub fn lost(&mut self, reason: &str) {
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            let _ = waiting.done.send(Outcome::Lost {
                reason: reason.to_owned(),
                confirmed: waiting.confirmed,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_receipts_make_one_outcome_in_whatever_order_they_come() {
        let mut receipts = Receipts::default();
        let (first, mut one) = receipts.expect(3);
        let (second, mut other) = receipts.expect(1);
        assert_eq!((first, second), (0, 3));
        for number in [2, 0, 0, 9] {
            receipts.came(number, None);
        }
        assert!(one.try_recv().is_err());
        receipts.came(1, Some(AckLevel::Synced));
        let outcome = one.try_recv();
        assert!(matches!(
            outcome,
            Ok(Outcome::Confirmed(Some(AckLevel::Synced)))
        ));
        receipts.lost("gone");
        assert!(matches!(other.try_recv(), Ok(Outcome::Lost { .. })));
    }

    #[test]
    fn a_complaint_is_certain_only_about_what_it_names() {
        let mut receipts = Receipts::default();
        let (_, mut one) = receipts.expect(2);
        let (_, mut other) = receipts.expect(1);
        receipts.complaint(Some(1), "full");
        let is_certain = |outcome| match outcome {
            Ok(Outcome::Complaint { is_certain, .. }) => is_certain,
            other => panic!("{other:?}"),
        };
        assert!(is_certain(one.try_recv()));
        assert!(!is_certain(other.try_recv()));
        let (_, mut alone) = receipts.expect(1);
        receipts.complaint(None, "full");
        assert!(is_certain(alone.try_recv()));
    }

    #[test]
    fn what_was_confirmed_before_a_loss_is_told() {
        let mut receipts = Receipts::default();
        let (first, mut outcome) = receipts.expect(3);
        receipts.came(first + 1, None);
        receipts.lost("gone");
        match outcome.try_recv() {
            Ok(Outcome::Lost { confirmed, .. }) => assert_eq!(confirmed, [false, true, false]),
            other => panic!("{other:?}"),
        }
    }
}
