//! Taking messages in: limits, the place where each waits, and the journal.

use std::sync::Arc;

use journal::{AppendError, Appender, Position};

use super::{Core, OnDisk, Place, Publication, Published, Queue, Taken};
use crate::delivery::Entry;
use crate::error::PublishError;
use crate::records::{RecordWriter, publish_bytes};

impl Queue {
    /// Takes in a batch of messages, in order, up to the first that must be refused. What was not
    /// taken in stays in `batch`.
    pub fn publish(self: &Arc<Self>, batch: &mut Vec<Publication>) -> Published {
        let bytes: usize = batch.iter().map(Publication::size_bytes).sum();
        let mut core = self.core.lock();
        let published = if core.check_limits(batch.len(), bytes).is_err() {
            self.take_in_one_by_one(&mut core, batch)
        } else if self.stays_in_memory(&core, batch, bytes) {
            self.take_in_memory(&mut core, batch, bytes)
        } else {
            self.take_in_stored(&mut core, batch)
        };
        core.totals.refused += u64::from(published.refused.is_some());
        self.dispatch(core);
        published
    }

    fn stays_in_memory(&self, core: &Core, batch: &[Publication], bytes: usize) -> bool {
        batch.iter().all(|p| !core.settings.is_durable(p.durable))
            && core.place(bytes, self.shared.memory_is_short(bytes)) == Place::Memory
    }

    fn take_in_memory(
        &self,
        core: &mut Core,
        batch: &mut Vec<Publication>,
        bytes: usize,
    ) -> Published {
        let accepted = batch.len();
        for publication in batch.drain(..) {
            let id = core.take_id();
            core.push_memory(Entry::new(id, publication.message, false));
        }
        self.shared.memory_grew(bytes);
        Published {
            accepted,
            ..Published::default()
        }
    }

    /// Takes in a batch that is within the limits; the journal is locked once for all of it.
    fn take_in_stored(&self, core: &mut Core, batch: &mut Vec<Publication>) -> Published {
        let mut published = Published::default();
        let appended = self.shared.journal.append_many(|appender| {
            appender.check_ready()?;
            for publication in batch.iter() {
                let stored = self.take_in(core, publication, appender)?;
                published.stored = published.stored.max(stored);
                published.accepted += 1;
            }
            Ok(())
        });
        batch.drain(..published.accepted);
        match appended.flatten() {
            Ok(()) => published,
            // Without a journal, what needs none is taken in all the same.
            Err(AppendError::Failed(_)) => self.take_in_rest(core, batch, published),
            Err(error) => Published {
                refused: Some(error.into()),
                ..published
            },
        }
    }

    fn take_in_rest(
        &self,
        core: &mut Core,
        batch: &mut Vec<Publication>,
        mut published: Published,
    ) -> Published {
        let rest = self.take_in_one_by_one(core, batch);
        published.accepted += rest.accepted;
        published.refused = rest.refused;
        published
    }

    /// Takes in a batch of which not everything fits, or not without making room.
    fn take_in_one_by_one(&self, core: &mut Core, batch: &mut Vec<Publication>) -> Published {
        let mut published = Published::default();
        while let Some(publication) = batch.get(published.accepted) {
            match self.take_in_alone(core, publication) {
                Ok(stored) => {
                    published.stored = published.stored.max(stored);
                    published.accepted += 1;
                }
                Err(error) => {
                    published.refused = Some(error);
                    break;
                }
            }
        }
        batch.drain(..published.accepted);
        published
    }

    fn take_in_alone(
        &self,
        core: &mut Core,
        publication: &Publication,
    ) -> Result<Option<Position>, PublishError> {
        let size_bytes = publication.size_bytes();
        self.make_room(core, 1, size_bytes)?;
        let is_durable = core.settings.is_durable(publication.durable);
        let place = core.place(size_bytes, self.shared.memory_is_short(size_bytes));
        if is_durable || place == Place::Disk {
            return Ok(self.shared.journal.append_many(|appender| {
                appender.check_ready()?;
                self.take_in(core, publication, appender)
            })??);
        }
        let id = core.take_id();
        self.insert(
            core,
            place,
            Entry::new(id, publication.message.clone(), false),
        );
        Ok(None)
    }

    /// Takes in one message that is within the limits; gives the position to wait for if it is to
    /// be durable.
    fn take_in(
        &self,
        core: &mut Core,
        publication: &Publication,
        appender: &mut Appender<'_>,
    ) -> Result<Option<Position>, AppendError> {
        let message = &publication.message;
        let size_bytes = publication.size_bytes();
        let durable = core.settings.is_durable(publication.durable);
        let place = core.place(size_bytes, self.shared.memory_is_short(size_bytes));
        let id = core.take_id();
        let mut entry = Entry::new(id, message.clone(), durable);
        if durable || place == Place::Disk {
            let hint = publish_bytes(&self.name, message);
            let position = appender.append_with(hint, 1, |buffer| {
                RecordWriter(buffer).publish(&self.name, id, durable, 0, message);
            })?;
            entry.stored = Some(position);
        }
        let waits_for = entry.stored.filter(|_| durable);
        self.insert(core, place, entry);
        Ok(waits_for)
    }

    /// Puts a new entry into its place.
    pub(crate) fn insert(&self, core: &mut Core, place: Place, entry: Entry) {
        match (place, entry.stored) {
            (Place::Disk, Some(position)) => core.push_disk(OnDisk::of(&entry, position)),
            _ => {
                self.shared.memory_grew(entry.size_bytes());
                core.push_memory(entry);
            }
        }
    }

    /// Checks the limits and, where the settings say so, moves the oldest to the dead letters.
    pub(crate) fn make_room(
        &self,
        core: &mut Core,
        messages: usize,
        size_bytes: usize,
    ) -> Result<(), PublishError> {
        while let Err(full) = core.check_limits(messages, size_bytes) {
            let oldest = if core.makes_room() && core.could_fit(messages, size_bytes) {
                core.take_oldest()
            } else {
                None
            };
            let Some(oldest) = oldest else {
                return Err(PublishError::full(&self.name, full));
            };
            core.totals.dead += 1;
            if let Some(entry) = self.taken_entry(oldest) {
                self.bury(entry, "the queue was full and this message was the oldest");
            }
        }
        Ok(())
    }

    fn taken_entry(&self, taken: Taken) -> Option<Entry> {
        match taken {
            Taken::Memory(entry) => {
                self.shared.memory_shrank(entry.size_bytes());
                Some(entry)
            }
            Taken::Disk(on_disk) => self.read_from_disk(&on_disk),
        }
    }
}
