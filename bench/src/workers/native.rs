//! Hivewire's workers, linked in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use kernel::Message;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use runtime::{Delivery, Sender, StageSpec};

use super::rig::stage;
use super::{PATIENCE, Result, Rig, Tally, WorkerError, body, number_of, refused};

/// A message of this number.
pub fn message(number: u32) -> Message {
    Message::new(Bytes::copy_from_slice(&body(number)))
}

/// Counts what it gets.
struct Sink(Tally);

#[async_trait]
impl Worker for Sink {
    async fn receive(&mut self, message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        self.0.take(&message.message.body);
        Ok(())
    }
}

/// Answers with what it got.
struct Echo;

#[async_trait]
impl Worker for Echo {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        turn.reply(message, Message::new(message.message.body.clone()))
    }
}

/// The code of a worker that counts what it gets.
pub fn sink(tally: Tally) -> Arc<dyn Code> {
    native("sink", "1", move |_| Sink(tally.clone()))
}

/// The code of a worker that answers with what it got.
pub fn echo() -> Arc<dyn Code> {
    native("echo", "1", |_| Echo)
}

/// A stage of one worker whose messages are in memory.
pub fn memory_stage() -> StageSpec {
    StageSpec::new(stage()).delivery(Delivery::Memory)
}

/// Sends so many messages from one task to one worker. How long it took until the last one was
/// handled.
pub fn tell(messages: u32) -> Result<Duration> {
    let rig = Rig::in_memory()?;
    let (tally, verdict) = Tally::new(messages);
    rig.deploy(memory_stage(), sink(tally))?;
    let sender = rig.runtime.sender(&stage());
    rig.in_task(async move {
        let began = Instant::now();
        for number in 0..messages {
            let sent = sender.send(message(number)).await;
            sent.map_err(refused("send"))?;
        }
        Ok(verdict.wait().await? - began)
    })
}

/// Asks so many times, one after another, from a task. How long it took.
pub fn ask_from_task(asks: u32) -> Result<Duration> {
    let rig = Rig::in_memory()?;
    rig.deploy(memory_stage(), echo())?;
    let sender = rig.runtime.sender(&stage());
    rig.in_task(ask(sender, asks))
}

/// Asks so many times, one after another, from the main thread. How long it took.
pub fn ask_from_main(asks: u32) -> Result<Duration> {
    let rig = Rig::in_memory()?;
    rig.deploy(memory_stage(), echo())?;
    let sender = rig.runtime.sender(&stage());
    rig.block_on(ask(sender, asks))
}

/// Asks so many times, one after another.
pub(super) async fn ask(sender: Sender, asks: u32) -> Result<Duration> {
    let began = Instant::now();
    for number in 0..asks {
        let answer = sender.ask(message(number), PATIENCE).await;
        let answer = answer.map_err(refused("ask"))?;
        check(number, &answer.body, asks)?;
    }
    Ok(began.elapsed())
}

/// Whether an answer is the one that was due.
pub(super) fn check(number: u32, answer: &[u8], messages: u32) -> Result<()> {
    match number_of(answer) == number {
        true => Ok(()),
        false => Err(WorkerError::Wrong { wrong: 1, messages }),
    }
}
