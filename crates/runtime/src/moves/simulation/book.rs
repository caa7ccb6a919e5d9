//! What was sent and what came, and what must hold of that.

use crate::key::bucket_of;
use crate::mailbox::Envelope;
use kernel::Message;
use kernel::worker::Incoming;

/// Each key has messages of one sender only, numbered one after another.
pub struct Book {
    sent: Vec<u32>,
    came: Vec<u32>,
}

/// A message and its key, as its body says.
pub fn letter(key: u32, number: u32) -> Envelope {
    let body = [key.to_be_bytes(), number.to_be_bytes()].concat();
    Envelope::local(Incoming::new(Message::new(body)), bucket_of_key(key))
}

pub fn read(envelope: &Envelope) -> (u32, u32) {
    let body = &envelope.incoming.message.body;
    let part = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().expect("four bytes"));
    (part(0), part(4))
}

pub fn bucket_of_key(key: u32) -> u32 {
    bucket_of(&key.to_be_bytes())
}

impl Book {
    pub fn new(keys: u32) -> Self {
        Self {
            sent: vec![0; keys as usize],
            came: vec![0; keys as usize],
        }
    }

    /// The next message of a key.
    pub fn write(&mut self, key: u32) -> Envelope {
        let number = &mut self.sent[key as usize];
        *number += 1;
        letter(key, *number - 1)
    }

    /// A message has come, handled or given back at the end. It must be the next one of its key.
    pub fn note(&mut self, envelope: &Envelope) -> Result<(), String> {
        let (key, number) = read(envelope);
        let next = &mut self.came[key as usize];
        if number != *next {
            return Err(format!("key {key}: {number} came instead of {next}"));
        }
        *next += 1;
        Ok(())
    }

    /// Everything that was sent has come.
    pub fn check(&self) -> Result<(), String> {
        let keys = self.sent.iter().zip(&self.came);
        match keys.enumerate().find(|(_, (sent, came))| sent != came) {
            None => Ok(()),
            Some((key, (sent, came))) => Err(format!("key {key}: {came} of {sent} came")),
        }
    }
}
