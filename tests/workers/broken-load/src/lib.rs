//! A next version of `counter` that cannot take over what was saved.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct BrokenLoad;

impl Worker for BrokenLoad {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        match message.expects_reply {
            true => context.reply(message, "broken-load"),
            false => Ok(()),
        }
    }

    fn save(&mut self) -> Result<Vec<u8>> {
        Ok(b"new".to_vec())
    }

    fn load(&mut self, snapshot: Vec<u8>) -> Result {
        match &snapshot[..] {
            b"new" => Ok(()),
            other => Err(format!("a snapshot of {} bytes is not known here", other.len()).into()),
        }
    }
}

hivewire_sdk::worker!(BrokenLoad);
