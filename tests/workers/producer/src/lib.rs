//! Emits numbered messages to `out`. A message `FIRST END BYTES` says which numbers, and how long the
//! bodies are; some are sent in a turn, and the rest is a message of the worker to itself.

use hivewire_sdk::{Context, Message, Result, Worker};

const TURN_MESSAGES: u32 = 256;
const NUMBER_BYTES: usize = 4;

#[derive(Default)]
struct Producer;

impl Worker for Producer {
    fn receive(&mut self, message: &Message, context: &mut Context) -> Result {
        let mut words = message.text()?.split(' ');
        let mut next = || words.next().ok_or("a number is missing");
        let (first, end, bytes) = (
            next()?.parse::<u32>()?,
            next()?.parse::<u32>()?,
            next()?.parse::<usize>()?,
        );
        let mut body = vec![b'x'; bytes.max(NUMBER_BYTES)];
        let last = end.min(first.saturating_add(TURN_MESSAGES));
        for number in first..last {
            body[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
            context.emit("out", &body);
        }
        match last < end {
            true => context.send(&context.address(), format!("{last} {end} {bytes}")),
            false => Ok(()),
        }
    }
}

hivewire_sdk::worker!(Producer);
