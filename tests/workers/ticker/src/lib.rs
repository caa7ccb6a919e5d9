//! Emits `1`, `2`, `3` … to the output `ticks`, one each time its timer goes off. The argument says
//! after how many milliseconds; messages: `stop` cancels the timer, all others are answered with
//! the number of ticks.

use std::time::Duration;

use hivewire_sdk::{Context, Kind, Message, Result, Worker};

const EVERY_MS: u64 = 100;
const TIMER: &str = "tick";

struct Ticker {
    every: Duration,
}

impl Default for Ticker {
    fn default() -> Self {
        Self {
            every: Duration::from_millis(EVERY_MS),
        }
    }
}

impl Worker for Ticker {
    fn init(&mut self, args: &[u8], context: &mut Context) -> Result {
        let args = std::str::from_utf8(args)?;
        if !args.is_empty() {
            self.every = Duration::from_millis(args.parse()?);
        }
        context.set_timer(TIMER, self.every, "tick");
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let ticks = context.state().get::<u64>("ticks")?.unwrap_or(0);
        match &message.kind {
            Kind::Timer(name) if name == TIMER => {
                let ticks = ticks + 1;
                context.state().set("ticks", &ticks);
                context.emit("ticks", ticks.to_string());
                context.set_timer(TIMER, self.every, &message.body);
            }
            _ if message.body == b"stop" => context.cancel_timer(TIMER),
            _ => {}
        }
        match message.expects_reply {
            true => context.reply(message, ticks.to_string()),
            false => Ok(()),
        }
    }
}

hivewire_sdk::worker!(Ticker);
