//! Writes what it gets into its log; what begins with `warn` as a warning.

use hivewire_sdk::{Context, Level, Message, Result, Worker};

#[derive(Default)]
struct Chatty;

impl Worker for Chatty {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let text = String::from_utf8_lossy(&message.body);
        let level = match text.starts_with("warn") {
            true => Level::Warn,
            false => Level::Info,
        };
        context.log(level, &text);
        Ok(())
    }
}

hivewire_sdk::worker!(Chatty);
