//! Counts numbered messages. Its argument says how many there are; after the last one it emits to
//! `done` how many were not the ones that were due. A question is answered with itself.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Sink {
    messages: u32,
    received: u32,
    wrong: u32,
}

impl Worker for Sink {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        self.messages = std::str::from_utf8(args)?.parse()?;
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        if message.expects_reply {
            return context.reply(message, &message.body);
        }
        let number = message.body.first_chunk().map(|n| u32::from_le_bytes(*n));
        self.wrong += u32::from(number != Some(self.received));
        self.received += 1;
        if self.received == self.messages {
            context.emit("done", self.wrong.to_string());
        }
        Ok(())
    }
}

hivewire_sdk::worker!(Sink);
