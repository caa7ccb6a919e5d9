//! What is due when: timers and the time limits of asks.

use std::collections::BTreeMap;
use std::ops::RangeFrom;

use kernel::Timestamp;

/// Things that are due at some time, each under its own id.
///
/// Every call takes O(log n); what is cancelled is gone at once.
#[derive(Clone, Debug)]
pub struct Alarms<T, Id = u64> {
    /// Those due at the same time keep the order in which they were set.
    by_time: BTreeMap<(Timestamp, u64), (Id, T)>,
    by_id: BTreeMap<Id, (Timestamp, u64)>,
    next_number: u64,
}

impl<T, Id> Default for Alarms<T, Id> {
    fn default() -> Self {
        Self {
            by_time: BTreeMap::new(),
            by_id: BTreeMap::new(),
            next_number: 0,
        }
    }
}

impl<T, Id: Clone + Ord> Alarms<T, Id> {
    /// No alarms.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an alarm. One of the same id is replaced and given back.
    pub fn set(&mut self, at: Timestamp, id: Id, what: T) -> Option<T> {
        let replaced = self.cancel(&id);
        let place = (at, self.next_number);
        self.next_number += 1;
        self.by_id.insert(id.clone(), place);
        self.by_time.insert(place, (id, what));
        replaced
    }

    /// Takes an alarm back, if it is set.
    pub fn cancel(&mut self, id: &Id) -> Option<T> {
        let place = self.by_id.remove(id)?;
        self.by_time.remove(&place).map(|(_, what)| what)
    }

    /// Takes out the first alarm that is due now.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Id, T)> {
        let first = self.by_time.first_entry()?;
        if first.key().0 > now {
            return None;
        }
        let (id, what) = first.remove();
        self.by_id.remove(&id);
        Some((id, what))
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.keys().next().map(|(at, _)| *at)
    }

    /// Whether this alarm is set.
    pub fn contains(&self, id: &Id) -> bool {
        self.by_id.contains_key(id)
    }

    /// The ids of all that are set, in order, from this one on.
    pub fn ids(&self, from: RangeFrom<Id>) -> impl Iterator<Item = &Id> {
        self.by_id.range(from).map(|(id, _)| id)
    }
}

#[cfg(test)]
impl<T, Id: Clone + Ord> Alarms<T, Id> {
    fn due(&mut self, now: Timestamp) -> impl Iterator<Item = (Id, T)> {
        std::iter::from_fn(move || self.pop_due(now))
    }

    fn len(&self) -> usize {
        self.by_time.len()
    }

    fn is_empty(&self) -> bool {
        self.by_time.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn what_is_due_comes_in_order() {
        let mut alarms: Alarms<&str> = Alarms::new();
        alarms.set(at(30), 1, "c");
        alarms.set(at(10), 2, "a");
        alarms.set(at(10), 0, "b");
        assert_eq!(alarms.next(), Some(at(10)));
        assert_eq!(alarms.due(at(9)).count(), 0);
        let due: Vec<_> = alarms.due(at(29)).collect();
        assert_eq!(due, [(2, "a"), (0, "b")]);
        assert_eq!(alarms.next(), Some(at(30)));
        assert_eq!(alarms.pop_due(at(30)), Some((1, "c")));
        assert_eq!(alarms.next(), None);
    }

    #[test]
    fn an_alarm_set_anew_goes_off_once() {
        let mut alarms: Alarms<&str, Box<str>> = Alarms::new();
        assert_eq!(alarms.set(at(1), "tick".into(), "old"), None);
        assert_eq!(alarms.set(at(5), "tick".into(), "new"), Some("old"));
        assert!(alarms.contains(&"tick".into()));
        assert_eq!(alarms.due(at(4)).count(), 0);
        assert_eq!(alarms.due(at(5)).count(), 1);
        assert!(alarms.is_empty());
    }

    #[test]
    fn cancelled_alarms_do_not_pile_up() {
        let mut alarms: Alarms<()> = Alarms::new();
        for id in 0..100_000 {
            alarms.set(at(id), id, ());
            assert_eq!(alarms.cancel(&id), Some(()));
        }
        assert!(alarms.is_empty() && alarms.by_id.is_empty());
        assert_eq!(alarms.cancel(&7), None);
    }

    proptest! {
        #[test]
        fn it_does_what_a_plain_list_does(
            steps in proptest::collection::vec((0_u8..3, 0_u64..8, 0_u64..50), 0..200)
        ) {
            let mut alarms: Alarms<u64> = Alarms::new();
            let mut list: Vec<(u64, u64)> = Vec::new();
            for (step, id, time) in steps {
                match step {
                    0 => {
                        alarms.set(at(time), id, time);
                        list.retain(|(other, _)| *other != id);
                        list.push((id, time));
                    }
                    1 => {
                        alarms.cancel(&id);
                        list.retain(|(other, _)| *other != id);
                    }
                    _ => {
                        let due: Vec<_> = alarms.due(at(time)).collect();
                        list.sort_by_key(|(_, at)| *at);
                        let count = list.partition_point(|(_, at)| *at <= time);
                        let expected: Vec<_> = list.drain(..count).collect();
                        prop_assert_eq!(due, expected);
                    }
                }
                prop_assert_eq!(alarms.len(), list.len());
                prop_assert_eq!(alarms.next(), list.iter().map(|(_, time)| at(*time)).min());
            }
        }
    }
}
