//! A queue's dealings with the journal: reading back what waits on disk, giving up on messages,
//! and moving what is still needed out of old segments.

use std::sync::Arc;

use bytes::Bytes;
use journal::{AppendError, Position};
use kernel::{Destination, Headers, Message, Name, Timestamp};

use super::{Core, OnDisk, Place, Queue, Reject, Settled, StoredAt, Taken};
use crate::delivery::Entry;
use crate::records::{Op, publish_bytes, read_ops};

/// How many entries are moved out of an old segment with the queue locked.
const MOVED_AT_A_TIME: usize = 4_096;

/// How much of a reason a dead letter keeps.
const REASON_BYTES_MAX: usize = 1_024;

impl Queue {
    /// Reads entries from disk on a thread where waiting is allowed, then serves them.
    pub(super) fn load(self: &Arc<Self>, batch: Vec<OnDisk>) {
        let queue = self.clone();
        self.shared.runtime.spawn_blocking(move || {
            let mut entries = Vec::with_capacity(batch.len());
            let mut missing = Vec::new();
            let mut last = None;
            for on_disk in batch {
                match queue.read_after(&on_disk, &mut last) {
                    Some(entry) => entries.push(entry),
                    None => missing.push(on_disk),
                }
            }
            let mut core = queue.core.lock();
            let before = core.memory_bytes();
            let unwanted = core.finish_load(entries, &missing);
            queue.shared.memory_grew(core.memory_bytes() - before);
            queue.dispatch(core);
            if !unwanted.is_empty() {
                let settled = unwanted.iter().map(Settled::from);
                queue.shared.settle(&queue.name, settled);
            }
        });
    }

    /// Reads one entry. What cannot be read is reported and counted, never served.
    pub(super) fn read_from_disk(&self, on_disk: &OnDisk) -> Option<Entry> {
        self.read_after(on_disk, &mut None)
    }

    /// Reads one entry, from the record that was read last if it stands there too: the messages
    /// of a commit share one.
    fn read_after(&self, on_disk: &OnDisk, last: &mut Option<(Position, Bytes)>) -> Option<Entry> {
        let position = on_disk.position;
        let record = match last {
            Some((known, record)) if *known == position => Ok(record.clone()),
            _ => self.shared.journal.read(position),
        };
        let problem = match record {
            Ok(record) => {
                *last = Some((position, record.clone()));
                match self.find_message(on_disk, &record) {
                    Some(message) => return Some(on_disk.with_message(message)),
                    None => "the record holds no such message".to_owned(),
                }
            }
            Err(error) => error.to_string(),
        };
        self.shared.counters.unreadable.inc();
        tracing::error!(
            queue = %self.name, id = on_disk.id, position = ?on_disk.position,
            "a stored message cannot be read and is left out: {problem}"
        );
        None
    }

    fn find_message(&self, on_disk: &OnDisk, record: &Bytes) -> Option<Message> {
        read_ops(record).flatten().find_map(|op| match op {
            Op::Publish(stored)
                if stored.id == on_disk.id && stored.queue == self.name.as_str() =>
            {
                stored.to_message(record)
            }
            _ => None,
        })
    }

    /// Puts entries back that nobody has seen.
    pub(super) fn return_unseen(&self, core: &mut Core, entries: Vec<Entry>) {
        let before = core.memory_bytes();
        core.put_back(entries);
        self.shared.memory_grew(core.memory_bytes() - before);
    }

    /// Counts a failed try of each entry; those that used up their tries go to the dead letters,
    /// the others back into the queue. Gives the position of what was written about it.
    pub(super) fn take_back(
        &self,
        core: &mut Core,
        entries: Vec<Entry>,
        reject: &Reject,
    ) -> Option<Position> {
        let mut written = None;
        let mut again = Vec::with_capacity(entries.len());
        for mut entry in entries {
            entry.tries += 1;
            entry.redelivered = true;
            let reason = match reject {
                Reject::Dead { reason } => Some(reason.clone()),
                Reject::Retry { reason } if entry.tries >= core.settings.tries_max => {
                    Some(format!("{reason} ({} tries)", entry.tries))
                }
                Reject::Retry { .. } => None,
            };
            match reason {
                Some(reason) => {
                    core.forget(&entry);
                    written = written.max(self.bury(entry, &reason));
                }
                None => {
                    written = written.max(self.write_tries(&entry));
                    again.push(entry);
                }
            }
        }
        self.return_unseen(core, again);
        written
    }

    /// Remembers the number of tries across restarts. If that cannot be written the message
    /// merely gets more tries than it should.
    fn write_tries(&self, entry: &Entry) -> Option<Position> {
        if !entry.durable {
            return None;
        }
        self.shared
            .append(64, 0, |writer| {
                writer.tries(&self.name, entry.id, entry.tries);
            })
            .ok()
    }

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
        if entry.durable || place == Place::Disk {
            letter.stored = self.store_dead(from.name(), entry, &letter);
        }
        if letter.stored.is_none() && (entry.durable || place == Place::Disk) {
            place = Place::Memory;
            letter.durable = false;
            self.make_room_in_memory(&mut core, size_bytes);
        }
        if let Some(position) = entry.stored
            && (letter.durable || !entry.durable)
        {
            self.shared.journal.release(position, 1);
        }
        let stored = letter.stored.filter(|_| letter.durable);
        self.insert(&mut core, place, letter);
        self.dispatch(core);
        stored
    }

    /// Stores a dead letter, and that the message it was made of is done.
    fn store_dead(&self, from: &Name, entry: &Entry, letter: &Entry) -> Option<Position> {
        let hint = publish_bytes(&self.name, &letter.message) + 64;
        let appended = self.shared.append(hint, 1, |writer| {
            writer.publish(&self.name, letter.id, entry.durable, 0, &letter.message);
            if entry.durable {
                writer.settle(from, std::iter::once(entry.id));
            }
        });
        appended
            .inspect_err(|error| {
                tracing::error!(
                    queue = %from, id = entry.id,
                    "a dead letter is kept in memory only: {error}"
                );
            })
            .ok()
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

    /// Writes what this queue still needs of an old segment again at the end of the journal, so
    /// that the segment can go. Says whether it is done; if not, the journal takes no more now.
    pub(crate) fn move_out_of(&self, segment: u32) -> bool {
        loop {
            if !self.shared.wait_until_ready() {
                return false;
            }
            let (moved, more) = self.move_some_out_of(segment);
            if !more || moved == 0 {
                return !more;
            }
        }
    }

    /// Moves a limited number, so that the queue is not locked for long. Says how many, and
    /// whether there may be more.
    fn move_some_out_of(&self, segment: u32) -> (usize, bool) {
        let mut core = self.core.lock();
        let mut moved_count = 0;
        for (looked_at, mut stored) in core.stored_in(segment).enumerate() {
            if looked_at == MOVED_AT_A_TIME || !self.shared.journal.is_ready() {
                return (moved_count, true);
            }
            let Some(old) = stored.position() else {
                continue;
            };
            let entry = match &stored {
                StoredAt::Memory(entry) => Some((**entry).clone()),
                StoredAt::Disk(on_disk) => self.read_from_disk(on_disk),
            };
            let Some(entry) = entry else { continue };
            let Ok(position) = self.write_again(&entry) else {
                return (moved_count, true);
            };
            stored.move_to(position);
            self.shared.journal.release(old, 1);
            moved_count += 1;
        }
        (moved_count, false)
    }

    fn write_again(&self, entry: &Entry) -> Result<Position, AppendError> {
        let hint = publish_bytes(&self.name, &entry.message);
        self.shared.append(hint, 1, |writer| {
            let (id, durable, tries) = (entry.id, entry.durable, entry.tries);
            writer.publish(&self.name, id, durable, tries, &entry.message);
        })
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
