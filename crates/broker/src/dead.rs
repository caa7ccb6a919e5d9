//! Dead letters: messages that could not be handled, with the reason, to be looked at, replayed
//! or purged. They wait in a queue of their own, which can be subscribed to like any other.

use std::sync::Arc;

use journal::{AppendError, Position};
use kernel::{Destination, Message, Name};

use crate::broker::Broker;
use crate::delivery::Entry;
use crate::error::{CommitError, PublishError};
use crate::queue::{Core, Place, Publication, Queue, Settled, Taken};
use crate::records::publish_bytes;

/// The name of the queue where dead letters wait.
pub const DEAD_LETTERS: &str = "hivewire.dead";

/// How many dead letters are looked at in one go.
const PAGE_MESSAGES: usize = 256;

/// A dead letter.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its id among the dead letters.
    pub id: u64,
    /// Where it came from.
    pub origin: Option<Destination>,
    /// The message, with its own headers and those that say why it is here.
    pub message: Message,
}

impl DeadLetter {
    fn new(entry: Entry) -> Self {
        Self {
            id: entry.id,
            origin: origin(&entry.message),
            message: entry.message,
        }
    }
}

fn origin(message: &Message) -> Option<Destination> {
    let name = |header| Name::new(message.headers.get(header)?).ok();
    name(Message::DEAD_QUEUE)
        .map(Destination::Queue)
        .or_else(|| name(Message::DEAD_TOPIC).map(Destination::Topic))
}

/// Which dead letters are meant.
#[derive(Clone, Debug, Default)]
pub struct DeadFilter {
    /// Only those that came from the queue or topic with this name.
    pub from: Option<Name>,
    /// Only this one.
    pub id: Option<u64>,
    /// Only those that came after this one.
    pub after: u64,
}

impl DeadFilter {
    fn fits(&self, letter: &DeadLetter) -> bool {
        let from_fits = match (&self.from, &letter.origin) {
            (None, _) => true,
            (Some(name), Some(origin)) => origin.name() == name,
            (Some(_), None) => false,
        };
        from_fits && self.id.is_none_or(|id| letter.id == id)
    }
}

impl Broker {
    /// The dead letters that fit, oldest first.
    pub fn dead_letters(&self, filter: &DeadFilter, letters_max: usize) -> Vec<DeadLetter> {
        let mut found = Vec::new();
        if letters_max == 0 {
            return found;
        }
        self.each_dead(filter, |letter| {
            found.push(letter);
            Ok(found.len() < letters_max)
        })
        .unwrap_or_default();
        found
    }

    fn each_dead(
        &self,
        filter: &DeadFilter,
        mut visit: impl FnMut(DeadLetter) -> Result<bool, CommitError>,
    ) -> Result<(), CommitError> {
        let Some(queue) = self.shared.dead_letters() else {
            return Ok(());
        };
        let mut after = filter.after;
        loop {
            let page = queue.peek(after, PAGE_MESSAGES);
            let Some(last) = page.last() else {
                return Ok(());
            };
            after = last.id;
            for letter in page.into_iter().map(DeadLetter::new) {
                if filter.fits(&letter) && !visit(letter)? {
                    return Ok(());
                }
            }
        }
    }

    /// Sends the dead letters that fit back to where they came from; says how many went. Each
    /// moves in one step, so none is lost or doubled. It waits for the disk, so it is for a thread
    /// that may.
    pub fn replay_dead(&self, filter: &DeadFilter) -> Result<usize, CommitError> {
        let mut replayed = 0;
        self.each_dead(filter, |letter| {
            // Many letters may be more than the journal takes at once.
            self.shared.wait_until_ready();
            replayed += usize::from(self.replay_one(&letter)?);
            Ok(true)
        })?;
        Ok(replayed)
    }

    fn replay_one(&self, letter: &DeadLetter) -> Result<bool, CommitError> {
        let (Some(origin), Some(dead)) = (&letter.origin, self.shared.dead_letters()) else {
            return Ok(false);
        };
        let headers = letter.message.headers.without(is_dead_header);
        let message = Message {
            headers,
            ..letter.message.clone()
        };
        match origin {
            Destination::Queue(name) => self.replay_to_queue(&dead, letter.id, name, message),
            Destination::Topic(name) => {
                let topic = self.topic(name)?;
                if !remove(&dead, letter.id) {
                    return Ok(false);
                }
                let durable = false;
                topic.publish(&mut vec![Publication { message, durable }]);
                Ok(true)
            }
        }
    }

    fn replay_to_queue(
        &self,
        dead: &Arc<Queue>,
        id: u64,
        name: &Name,
        message: Message,
    ) -> Result<bool, CommitError> {
        let target = self.queue(name)?;
        if Arc::ptr_eq(&target, dead) {
            return Ok(false);
        }
        // The dead letters have the highest rank, so they are locked last.
        let mut target_core = target.core.lock();
        let mut dead_core = dead.core.lock();
        let Some(settled) = dead_core.find_waiting(id) else {
            return Ok(false);
        };
        let mut entry = Entry::new(target_core.take_id(), message, settled.durable);
        entry.redelivered = true;
        let size_bytes = entry.size_bytes();
        target_core
            .check_limits(1, size_bytes)
            .map_err(|full| PublishError::full(name, full))?;
        let memory_is_short = self.shared.memory_is_short(size_bytes);
        let place = target_core.place(size_bytes, memory_is_short);
        if settled.durable || place == Place::Disk {
            entry.stored = Some(self.store_replayed(name, &entry, dead.name(), id)?);
        }
        take(dead, &mut dead_core, id);
        if let Some(position) = settled.stored {
            self.shared.journal.release(position, 1);
        }
        drop(dead_core);
        target.insert(&mut target_core, place, entry);
        target.dispatch(target_core);
        Ok(true)
    }

    /// Stores a message that is replayed, and that the dead letter it was is done.
    fn store_replayed(
        &self,
        name: &Name,
        entry: &Entry,
        dead: &Name,
        id: u64,
    ) -> Result<Position, AppendError> {
        let hint = publish_bytes(name, &entry.message) + 64;
        self.shared.append(hint, 1, |writer| {
            writer.publish(name, entry.id, entry.durable, 0, &entry.message);
            if entry.durable {
                writer.settle(dead, std::iter::once(id));
            }
        })
    }

    /// Removes the dead letters that fit; says how many went.
    pub fn purge_dead(&self, filter: &DeadFilter) -> usize {
        let Some(dead) = self.shared.dead_letters() else {
            return 0;
        };
        let mut purged = 0;
        self.each_dead(filter, |letter| {
            purged += usize::from(remove(&dead, letter.id));
            Ok(true)
        })
        .unwrap_or_default();
        purged
    }
}

fn take(dead: &Queue, core: &mut Core, id: u64) -> Option<Settled> {
    let taken = core.take_waiting(id)?;
    if let Taken::Memory(entry) = &taken {
        dead.shared.memory_shrank(entry.size_bytes());
    }
    Some(Settled::from(&taken))
}

fn remove(dead: &Queue, id: u64) -> bool {
    let mut core = dead.core.lock();
    let Some(settled) = take(dead, &mut core, id) else {
        return false;
    };
    dead.shared.settle(dead.name(), std::iter::once(settled));
    true
}

fn is_dead_header(name: &str) -> bool {
    [
        Message::DEAD_QUEUE,
        Message::DEAD_TOPIC,
        Message::DEAD_REASON,
        Message::DEAD_TRIES,
        Message::DEAD_AT,
    ]
    .contains(&name)
}
