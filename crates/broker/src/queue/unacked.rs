//! What a subscriber has not acknowledged, in the order of delivery.
//!
//! Finding a message by its id takes logarithmic time in whatever order acknowledgements come, and
//! taking it out takes constant time: its slot stays behind empty until the slots before it are
//! empty too, or until there are too many empty ones.

use std::collections::{HashMap, VecDeque};

use crate::delivery::Entry;

/// Slots may be empty up to this number, and beyond it up to half of them.
const EMPTY_SLOTS_MIN: usize = 64;

#[derive(Debug)]
struct Slot {
    /// The highest id delivered up to here, so that slots are sorted by it.
    highest: u64,
    entry: Option<Entry>,
}

#[derive(Debug, Default)]
pub(crate) struct Unacked {
    slots: VecDeque<Slot>,
    /// The number of the first slot, counted over all deliveries.
    first: u64,
    live: usize,
    /// The numbers of slots, by id, of messages that were delivered after later ones, because
    /// they had come back before.
    late: HashMap<u64, u64>,
}

impl Unacked {
    pub fn len(&self) -> usize {
        self.live
    }

    /// The one that was delivered first.
    pub fn front(&self) -> Option<&Entry> {
        // Empty slots at the front go at once.
        self.slots.front()?.entry.as_ref()
    }

    pub fn push(&mut self, entry: Entry) {
        let mut highest = entry.id;
        if let Some(last) = self.slots.back()
            && last.highest >= entry.id
        {
            highest = last.highest;
            let number = self.first + self.slots.len() as u64;
            self.late.insert(entry.id, number);
        }
        self.live += 1;
        self.slots.push_back(Slot {
            highest,
            entry: Some(entry),
        });
    }

    /// Takes out what an acknowledgement of `id` covers; nothing if it is not here.
    pub fn take(&mut self, id: u64, through: bool, taken: &mut Vec<Entry>) {
        let Some(index) = self.find(id) else {
            return;
        };
        let before = taken.len();
        if through {
            let slots = self.slots.drain(..=index);
            taken.extend(slots.filter_map(|slot| slot.entry));
            self.first += index as u64 + 1;
        } else {
            taken.extend(self.slots[index].entry.take());
        }
        self.live -= taken.len() - before;
        if !self.late.is_empty() {
            for entry in &taken[before..] {
                self.late.remove(&entry.id);
            }
        }
        self.drop_empty_slots();
    }

    /// What an acknowledgement of `id` covers.
    pub fn covers(&self, id: u64, through: bool) -> impl Iterator<Item = &Entry> {
        let range = match self.find(id) {
            Some(index) if through => 0..index + 1,
            Some(index) => index..index + 1,
            None => 0..0,
        };
        let slots = self.slots.range(range);
        slots.filter_map(|slot| slot.entry.as_ref())
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Entry> {
        let index = self.find(id)?;
        self.slots[index].entry.as_mut()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut())
    }

    /// Everything, in the order of delivery.
    pub fn into_entries(self) -> Vec<Entry> {
        let slots = self.slots.into_iter();
        slots.filter_map(|slot| slot.entry).collect()
    }

    fn find(&self, id: u64) -> Option<usize> {
        if self.front()?.id == id {
            return Some(0);
        }
        if let Some(number) = self.late.get(&id) {
            return Some((number - self.first) as usize);
        }
        let index = self.slots.partition_point(|slot| slot.highest < id);
        let entry = self.slots.get(index)?.entry.as_ref()?;
        (entry.id == id).then_some(index)
    }

    fn drop_empty_slots(&mut self) {
        let is_empty = |slot: &Slot| slot.entry.is_none();
        while self.slots.front().is_some_and(is_empty) {
            self.slots.pop_front();
            self.first += 1;
        }
        while self.slots.back().is_some_and(is_empty) {
            self.slots.pop_back();
        }
        // One that is never acknowledged must not keep a slot for each that was.
        if self.slots.len() > 2 * self.live + EMPTY_SLOTS_MIN {
            for entry in std::mem::take(self).into_entries() {
                self.push(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kernel::Message;
    use proptest::prelude::*;

    use super::*;

    fn entry(id: u64) -> Entry {
        Entry::new(id, Message::default(), false)
    }

    fn ids<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<u64> {
        entries.into_iter().map(|entry| entry.id).collect()
    }

    proptest! {
        /// Ids come back and are delivered again, as after a rejection; the model is a plain list.
        #[test]
        fn behaves_like_a_plain_list(steps in prop::collection::vec((0u8..4, 0u64..40), 0..400)) {
            let mut unacked = Unacked::default();
            let mut model: Vec<u64> = Vec::new();
            for (step, id) in steps {
                if step < 2 {
                    if !model.contains(&id) {
                        unacked.push(entry(id));
                        model.push(id);
                    }
                } else {
                    let through = step == 3;
                    let expected = match model.iter().position(|other| *other == id) {
                        None => Vec::new(),
                        Some(index) if through => model.drain(..=index).collect(),
                        Some(index) => vec![model.remove(index)],
                    };
                    prop_assert_eq!(ids(unacked.covers(id, through)), expected.clone());
                    let mut taken = Vec::new();
                    unacked.take(id, through, &mut taken);
                    prop_assert_eq!(ids(&taken), expected);
                }
                prop_assert_eq!(unacked.len(), model.len());
                prop_assert_eq!(unacked.front().map(|e| e.id), model.first().copied());
                prop_assert!(unacked.slots.len() <= 2 * unacked.len() + EMPTY_SLOTS_MIN);
                prop_assert!(unacked.late.len() <= unacked.len());
            }
            prop_assert_eq!(ids(&unacked.into_entries()), model);
        }
    }

    #[test]
    fn one_that_stays_does_not_keep_the_slots_of_others() {
        let mut unacked = Unacked::default();
        unacked.push(entry(0));
        for id in 1..100_000 {
            unacked.push(entry(id));
            unacked.take(id, false, &mut Vec::new());
            assert!(unacked.slots.len() <= EMPTY_SLOTS_MIN + 2);
        }
    }
}
