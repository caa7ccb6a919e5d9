//! Sends every message on to the queue `audit`, for which its descriptor asks, or to the address in
//! its argument, for which it does not.

use hivewire_sdk::{Context, Message, Result, Worker};

struct Capability {
    address: String,
}

impl Default for Capability {
    fn default() -> Self {
        Self {
            address: "queue:audit".to_owned(),
        }
    }
}

impl Worker for Capability {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        if !args.is_empty() {
            self.address = String::from_utf8(args.to_vec())?;
        }
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        context.send(&self.address, &message.body)?;
        match message.expects_reply {
            true => context.reply(message, "sent"),
            false => Ok(()),
        }
    }
}

hivewire_sdk::worker!(Capability);
