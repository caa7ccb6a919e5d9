//! Cannot begin.

use hivewire_sdk::{Context, Message, Result, Worker};

#[derive(Default)]
struct BrokenInit;

impl Worker for BrokenInit {
    fn init(&mut self, _: &[u8], _: &mut Context) -> Result {
        Err("this worker cannot begin".into())
    }

    fn receive(&mut self, _: &Message, _: &mut Context) -> Result {
        Ok(())
    }
}

hivewire_sdk::worker!(BrokenInit);
