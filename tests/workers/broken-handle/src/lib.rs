//! A next version of `counter` that works for some messages and then panics at every one. The
//! argument says for how many; without one it is the first that fails. It counts in its state, so
//! a restart does not mend it.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct BrokenHandle {
    good: u64,
    count: u64,
}

impl Worker for BrokenHandle {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        let args = std::str::from_utf8(args)?;
        self.good = match args {
            "" => 0,
            number => number.parse()?,
        };
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let handled = context.state().get::<u64>("handled")?.unwrap_or(0);
        assert!(handled < self.good, "broken after {handled} messages");
        context.state().set("handled", &(handled + 1));
        self.count += 1;
        let stored = context.state().get::<u64>("count")?.unwrap_or(0) + 1;
        context.state().set("count", &stored);
        match message.expects_reply {
            true => context.reply(message, format!("broken:{}/{stored}", self.count)),
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

hivewire_sdk::worker!(BrokenHandle);
