//! Counts messages, answers with the number, and emits it to the output `counts`.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Counter;

impl Worker for Counter {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let count = context.state().get::<u64>("count")?.unwrap_or(0) + 1;
        context.state().set("count", &count);
        context.emit("counts", count.to_string());
        if message.expects_reply {
            context.reply(message, count.to_string())?;
        }
        Ok(())
    }
}

hivewire_sdk::worker!(Counter);
