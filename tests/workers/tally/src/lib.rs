//! Counts the messages of each key, for a stage keyed by the header `key`, and emits to `out`
//! `key:body:count`. It counts in its state, so it does not matter where it runs; with the argument
//! `memory` it counts in its memory, where it does.

use std::collections::HashMap;

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Tally {
    in_memory: bool,
    counts: HashMap<String, u64>,
}

impl Worker for Tally {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        self.in_memory = args == b"memory";
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let key = message.header("key").ok_or("the header `key` is missing")?;
        let count = match self.in_memory {
            true => {
                let count = self.counts.entry(key.to_owned()).or_default();
                *count += 1;
                *count
            }
            false => {
                let count = context.state().get::<u64>(key)?.unwrap_or(0) + 1;
                context.state().set(key, &count);
                count
            }
        };
        context.emit("out", format!("{key}:{}:{count}", message.text()?));
        Ok(())
    }
}

hivewire_sdk::worker!(Tally);
