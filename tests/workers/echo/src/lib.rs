//! Replies with what it got, and emits it to the output `out`.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct Echo;

impl Worker for Echo {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        context.emit("out", message);
        match message.expects_reply {
            true => context.reply(message, &message.body),
            false => Ok(()),
        }
    }
}

hivewire_sdk::worker!(Echo);
