//! kameo's actors, driven as its README does, with the mailbox that its documentation takes for high rates.

use std::time::{Duration, Instant};

use kameo::Actor;
use kameo::actor::{ActorRef, Spawn};
use kameo::mailbox;
use kameo::message::{Context, Message};

use super::native::check;
use super::rig::in_task;
use super::{Body, Result, Tally, body, refused, tokio_runtime};

#[derive(Actor)]
struct Sink(Tally);

struct Tell(Body);

struct Ask(Body);

impl Message<Tell> for Sink {
    type Reply = ();

    async fn handle(&mut self, message: Tell, _context: &mut Context<Self, ()>) {
        self.0.take(&message.0);
    }
}

/// An answer.
#[derive(kameo::Reply)]
struct Answer(Body);

impl Message<Ask> for Sink {
    type Reply = Answer;

    async fn handle(&mut self, message: Ask, _context: &mut Context<Self, Answer>) -> Answer {
        Answer(message.0)
    }
}

/// Sends so many messages from one task to one actor. How long it took until the last one was
/// handled.
pub fn tell(messages: u32) -> Result<Duration> {
    let tokio = tokio_runtime()?;
    let (tally, verdict) = Tally::new(messages);
    in_task(&tokio, async move {
        let actor = Sink::spawn_with_mailbox(Sink(tally), mailbox::unbounded());
        let began = Instant::now();
        for number in 0..messages {
            let sent = actor.tell(Tell(body(number))).await;
            sent.map_err(refused("tell"))?;
        }
        let ended = verdict.wait().await?;
        stop(&actor).await?;
        Ok(ended - began)
    })
}

/// Asks so many times, one after another, from a task. How long it took.
pub fn ask_from_task(asks: u32) -> Result<Duration> {
    in_task(&tokio_runtime()?, ask(asks))
}

async fn ask(asks: u32) -> Result<Duration> {
    let (tally, _) = Tally::new(asks);
    let actor = Sink::spawn(Sink(tally));
    let began = Instant::now();
    for number in 0..asks {
        let answer = actor.ask(Ask(body(number))).await;
        check(number, &answer.map_err(refused("ask"))?.0, asks)?;
    }
    let elapsed = began.elapsed();
    stop(&actor).await?;
    Ok(elapsed)
}

async fn stop(actor: &ActorRef<Sink>) -> Result<()> {
    let stopped = actor.stop_gracefully().await;
    stopped.map_err(refused("stop an actor"))
}
