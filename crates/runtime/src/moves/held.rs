//! Messages for a bucket that is on its way from one worker to another.

use parking_lot::Mutex;

/// Messages for a bucket that is on its way, in order.
///
/// It has a lock of its own because senders fill it while they have the owners only locked for reading. It is the last
/// one: whoever has it takes no other.
pub(crate) struct Held<M> {
    /// How many messages waited for the bucket's worker when it left. They count as if they were held, too; otherwise a bucket
    /// that moves to and fro between workers that do nothing would take in as much again with every move.
    before: u32,
    messages: Mutex<Vec<M>>,
}

impl<M> Held<M> {
    pub fn behind(before: u32) -> Self {
        Self {
            before,
            messages: Mutex::default(),
        }
    }

    /// Holds a message if fewer than `messages_max` wait or are held.
    pub fn try_push(&self, message: M, messages_max: u32) -> Result<(), M> {
        let mut messages = self.messages.lock();
        if messages.len() + self.before as usize >= messages_max as usize {
            return Err(message);
        }
        messages.push(message);
        Ok(())
    }

    /// Holds messages that have a bound of their own: credit, or the number of timers.
    pub fn extend(&self, messages: impl Iterator<Item = M>) {
        self.messages.lock().extend(messages);
    }

    pub fn len(&self) -> usize {
        self.messages.lock().len()
    }

    pub fn into_messages(self) -> Vec<M> {
        self.messages.into_inner()
    }
}
