//! Asks the address in its arguments, `ADDRESS` or `ADDRESS MS`, on behalf of whoever asks it, and
//! gives the answer to them. Who asked is kept in the state, so it survives a restart. When no
//! answer comes in time, the asker gets `timed out`.

use std::time::Duration;

use hivewire_sdk::{Context, Kind, Message, Outgoing, Result, Worker};

const TIMEOUT_MS: u64 = 1_000;
const CORRELATION_ID: &str = "correlation-id";

#[derive(Default)]
struct Asker {
    address: String,
    timeout: Duration,
}

impl Worker for Asker {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        let args = std::str::from_utf8(args)?;
        let (address, timeout_ms) = match args.split_once(' ') {
            Some((address, timeout_ms)) => (address, timeout_ms.parse()?),
            None => (args, TIMEOUT_MS),
        };
        self.address = address.to_owned();
        self.timeout = Duration::from_millis(timeout_ms);
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        match message.kind {
            Kind::Reply(ticket) => answer(ticket, &message.body, context),
            Kind::TimedOut(ticket) => answer(ticket, b"timed out", context),
            _ => self.ask(message, context),
        }
    }
}

impl Asker {
    fn ask(&self, message: &Message, context: &mut Context) -> Result {
        let ticket = context.ask(&self.address, &message.body, self.timeout)?;
        let Some(address) = context.reply_address(message) else {
            return Ok(());
        };
        let id = message.header(CORRELATION_ID).unwrap_or_default();
        context
            .state()
            .set(ticket.to_be_bytes(), &format!("{address}\n{id}"));
        Ok(())
    }
}

fn answer(ticket: u64, body: &[u8], context: &mut Context) -> Result {
    let key = ticket.to_be_bytes();
    let Some(waiting) = context.state().get::<String>(key)? else {
        return Ok(());
    };
    context.state().remove(key);
    let (address, id) = waiting.split_once('\n').ok_or("no address was kept")?;
    let mut answer = Outgoing::new(body);
    if !id.is_empty() {
        answer = answer.header(CORRELATION_ID, id);
    }
    context.send(address, answer)
}

hivewire_sdk::worker!(Asker);
