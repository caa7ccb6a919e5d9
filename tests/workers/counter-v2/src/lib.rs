//! The next version of `counter`: the same state, but replies begin with `v2:`.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Counter {
    count: u64,
}

impl Worker for Counter {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        self.count += 1;
        let stored = context.state().get::<u64>("count")?.unwrap_or(0) + 1;
        context.state().set("count", &stored);
        match message.expects_reply {
            true => context.reply(message, format!("v2:{}/{stored}", self.count)),
            false => Ok(()),
        }
    }

    fn save(&mut self) -> Result<Vec<u8>> {
        Ok(self.count.to_be_bytes().to_vec())
    }

    fn load(&mut self, snapshot: Vec<u8>) -> Result {
        self.count = u64::from_be_bytes(snapshot[..].try_into()?);
        Ok(())
    }
}

hivewire_sdk::worker!(Counter);
