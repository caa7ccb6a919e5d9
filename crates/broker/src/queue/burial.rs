//! Moving messages to the dead letters.

use std::sync::Arc;

use journal::{AppendError, Position};
use kernel::{Destination, Headers, Message, Name, Timestamp};

use super::{Core, Place, Queue, Settled, Taken};
use crate::delivery::Entry;
use crate::records::publish_bytes;
use crate::shared::is_passing;

/// How much of a reason a dead letter keeps.
const REASON_BYTES_MAX: usize = 1_024;

/// A dead letter that is in memory only until the journal takes it. Until then the message it was
/// made of comes again after a restart.
pub(crate) struct Unburied {
    letter: u64,
    from: Name,
    original: Settled,
}

impl Queue {
    /// Moves an entry, already taken out of this queue, to the dead letters in one step.
    pub(crate) fn bury(&self, entry: Entry, reason: &str) -> Option<Position> {
        let Some(dead) = self.shared.dead_letters() else {
            // The broker is gone; what is stored comes again when the next one starts.
            self.shared.counters.dead_dropped.inc();
            return None;
        };
        if std::ptr::eq(&*dead, self) {
            // Somebody rejects what is here: this is where messages end.
            return self.drop_dead(Settled::from(&entry), reason);
        }
        let from = Destination::Queue(self.name.clone());
        dead.bury_here(&from, &entry, reason)
    }

    /// Takes in a dead letter and, if it comes from a queue, settles it there in the same record.
    pub(crate) fn bury_here(
        self: &Arc<Self>,
        from: &Destination,
        entry: &Entry,
        reason: &str,
    ) -> Option<Position> {
        self.shared.counters.dead.inc();
        let message = dead_letter(from, entry, reason, self.shared.clock.now());
        let mut core = self.core.lock();
        let mut letter = Entry::new(core.take_id(), message, entry.durable);
        let size_bytes = letter.size_bytes();
        self.make_room_for_dead(&mut core, size_bytes);
        let mut place = core.place(size_bytes, self.shared.memory_is_short(size_bytes));
        let original = Settled::from(entry);
        if entry.durable || place == Place::Disk {
            match self.store_dead(from.name(), &original, &letter) {
                Ok(position) => letter.stored = Some(position),
                Err(error) => {
                    place = Place::Memory;
                    letter.durable = false;
                    self.make_room_in_memory(&mut core, size_bytes);
                    self.bury_later(letter.id, from.name(), original, &error);
                }
            }
        }
        if letter.durable || !entry.durable {
            self.shared.release(original.stored.into_iter());
        }
        let stored = letter.stored.filter(|_| letter.durable);
        self.insert(&mut core, place, letter);
        self.dispatch(core);
        stored
    }

    /// Stores a dead letter, and that the message it was made of is done.
    fn store_dead(
        &self,
        from: &Name,
        original: &Settled,
        letter: &Entry,
    ) -> Result<Position, AppendError> {
        let hint = publish_bytes(&self.name, &letter.message) + 64 + from.as_str().len();
        self.shared.append(hint, 1, |writer| {
            let durable = original.durable;
            writer.publish(&self.name, letter.id, durable, 0, &letter.message);
            if durable {
                writer.settle(from, std::iter::once(original.id));
            }
        })
    }

    fn bury_later(&self, letter: u64, from: &Name, original: Settled, error: &AppendError) {
        tracing::error!(
            queue = %from, id = original.id,
            "a dead letter is kept in memory only: {error}"
        );
        if original.durable && is_passing(error) {
            let from = from.clone();
            self.shared.bury_later(Unburied {
                letter,
                from,
                original,
            });
        }
    }

    /// Stores a dead letter that could not be stored before. False if it still cannot.
    pub(crate) fn bury_again(&self, unburied: &Unburied) -> bool {
        let Unburied {
            letter,
            from,
            original,
        } = unburied;
        let mut core = self.core.lock();
        let Some(entry) = core.find_in_memory(*letter) else {
            // It was consumed or purged meanwhile.
            self.shared.settle(from, std::iter::once(*original));
            return true;
        };
        let Ok(position) = self.store_dead(from, original, entry) else {
            return false;
        };
        entry.durable = true;
        entry.stored = Some(position);
        self.shared.release(original.stored.into_iter());
        true
    }

    fn make_room_for_dead(&self, core: &mut Core, size_bytes: usize) {
        while core.check_limits(1, size_bytes).is_err() {
            let Some(oldest) = core.take_oldest() else {
                break;
            };
            if let Taken::Memory(entry) = &oldest {
                self.shared.memory_shrank(entry.size_bytes());
            }
            self.drop_dead(Settled::from(&oldest), "there are too many");
        }
    }

    /// Without a journal memory is all there is, and it has a limit too.
    fn make_room_in_memory(&self, core: &mut Core, size_bytes: usize) {
        while core.memory_is_full(size_bytes) {
            let Some(oldest) = core.take_oldest_in_memory() else {
                break;
            };
            self.shared.memory_shrank(oldest.size_bytes());
            self.drop_dead(Settled::from(&oldest), "memory is full");
        }
    }

    fn drop_dead(&self, settled: Settled, reason: &str) -> Option<Position> {
        self.shared.counters.dead_dropped.inc();
        tracing::warn!(id = settled.id, "a dead letter is dropped: {reason}");
        self.shared.settle(&self.name, std::iter::once(settled))
    }
}

fn dead_letter(from: &Destination, entry: &Entry, reason: &str, now: Timestamp) -> Message {
    let tries = entry.tries.to_string();
    let at = now.as_millis().to_string();
    let origin = match from {
        Destination::Queue(name) => (Message::DEAD_QUEUE, name.as_str()),
        Destination::Topic(name) => (Message::DEAD_TOPIC, name.as_str()),
    };
    let pairs = [
        origin,
        (Message::DEAD_REASON, shortened(reason)),
        (Message::DEAD_TRIES, tries.as_str()),
        (Message::DEAD_AT, at.as_str()),
    ];
    let headers = entry.message.headers.with(pairs).unwrap_or_else(|_| {
        // The sender's headers leave no room: where it came from and why matters more.
        Headers::from_pairs(pairs).unwrap_or_default()
    });
    Message {
        headers,
        ..entry.message.clone()
    }
}

fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}
