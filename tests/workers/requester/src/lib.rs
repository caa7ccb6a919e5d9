//! Asks the address in its arguments, one question after another, each when the answer to the one
//! before has come. A message says how many times. A question to itself is answered with
//! `DONE WRONG MICROSECONDS`: how many answers came, how many were not the ones that were due, and
//! how long all took together; then the count begins anew.

use std::time::{Duration, UNIX_EPOCH};

use hivewire_sdk::{Context, Kind, Message, Result, Worker};

const TIMEOUT: Duration = Duration::from_secs(60);
const BODY_BYTES: usize = 64;

#[derive(Default)]
struct Requester {
    address: String,
    left: u32,
    done: u32,
    wrong: u32,
    asked_at: u64,
    micros: u64,
}

impl Worker for Requester {
    fn init(&mut self, args: &[u8], _: &mut Context) -> Result {
        self.address = std::str::from_utf8(args)?.to_owned();
        Ok(())
    }

    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        if message.expects_reply {
            return self.tell(message, context);
        }
        match message.kind {
            Kind::Reply(_) => self.take(&message.body, context),
            Kind::TimedOut(_) => self.wrong += 1,
            _ => self.left = message.text()?.parse()?,
        }
        self.ask(context)
    }
}

impl Requester {
    fn ask(&mut self, context: &mut Context) -> Result {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        self.asked_at = now(context);
        context.ask(&self.address, &self.question()[..], TIMEOUT)?;
        Ok(())
    }

    fn question(&self) -> [u8; BODY_BYTES] {
        let mut body = [b'x'; BODY_BYTES];
        let number = self.asked_at.to_le_bytes();
        body[..number.len()].copy_from_slice(&number);
        body
    }

    fn take(&mut self, answer: &[u8], context: &Context) {
        self.done += 1;
        self.wrong += u32::from(answer != self.question());
        self.micros += now(context).saturating_sub(self.asked_at);
    }

    fn tell(&mut self, message: &Message, context: &mut Context) -> Result {
        let answer = format!("{} {} {}", self.done, self.wrong, self.micros);
        (self.done, self.wrong, self.micros) = (0, 0, 0);
        context.reply(message, answer)
    }
}

fn now(context: &Context) -> u64 {
    let since = context.now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

hivewire_sdk::worker!(Requester);
