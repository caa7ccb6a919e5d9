//! A queue's dealings with the journal: reading back what waits on disk, writing down tries, and
//! moving what is still needed out of old segments.

use std::sync::Arc;

use bytes::Bytes;
use journal::{AppendError, Position};
use kernel::Message;

use super::{Core, OnDisk, Queue, Reject, Settled, StoredAt};
use crate::delivery::Entry;
use crate::records::{Op, publish_bytes, read_ops};

/// How many numbers of tries stand in one record at most.
const TRIES_PER_RECORD: usize = 64;

/// How many entries are moved out of an old segment with the queue locked.
const MOVED_AT_A_TIME: usize = 4_096;

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
                None => again.push(entry),
            }
        }
        for entries in again.chunks(TRIES_PER_RECORD) {
            written = written.max(self.write_tries(entries));
        }
        self.return_unseen(core, again);
        written
    }

    /// Remembers the numbers of tries across restarts. If that cannot be written the messages
    /// merely get more tries than they should.
    fn write_tries(&self, entries: &[Entry]) -> Option<Position> {
        let durable = entries.iter().filter(|entry| entry.durable);
        let count = durable.clone().count();
        if count == 0 {
            return None;
        }
        let hint = count * (16 + self.name.as_str().len());
        self.shared
            .append(hint, 0, |writer| {
                for entry in durable {
                    writer.tries(&self.name, entry.id, entry.tries);
                }
            })
            .ok()
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
