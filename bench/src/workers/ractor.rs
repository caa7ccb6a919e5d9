//! ractor's actors, driven as its README and its own benchmarks do.

use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::native::check;
use super::rig::in_task;
use super::{Body, Result, Tally, body, in_time, refused, tokio_runtime};

/// What the actor takes.
enum Message {
    Tell(Body),
    Ask(Body, RpcReplyPort<Body>),
}

struct Sink;

impl Actor for Sink {
    type Msg = Message;
    type State = Tally;
    type Arguments = Tally;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        tally: Tally,
    ) -> std::result::Result<Tally, ActorProcessingErr> {
        Ok(tally)
    }

    async fn handle(
        &self,
        _myself: ActorRef<Message>,
        message: Message,
        tally: &mut Tally,
    ) -> std::result::Result<(), ActorProcessingErr> {
        match message {
            Message::Tell(body) => tally.take(&body),
            Message::Ask(body, reply) => reply.send(body)?,
        }
        Ok(())
    }
}

async fn start(tally: Tally) -> Result<ActorRef<Message>> {
    let (actor, _) = Actor::spawn(None, Sink, tally)
        .await
        .map_err(refused("spawn an actor of ractor"))?;
    Ok(actor)
}

/// Sends so many messages from one task to one actor. How long it took until the last one was
/// handled.
pub fn tell(messages: u32) -> Result<Duration> {
    let tokio = tokio_runtime()?;
    let (tally, verdict) = Tally::new(messages);
    in_task(&tokio, async move {
        let actor = start(tally).await?;
        let began = Instant::now();
        for number in 0..messages {
            let sent = actor.cast(Message::Tell(body(number)));
            sent.map_err(refused("cast"))?;
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

/// Asks so many times, one after another, from the main thread. How long it took.
pub fn ask_from_main(asks: u32) -> Result<Duration> {
    tokio_runtime()?.block_on(ask(asks))
}

async fn ask(asks: u32) -> Result<Duration> {
    let (tally, _) = Tally::new(asks);
    let actor = start(tally).await?;
    let began = Instant::now();
    for number in 0..asks {
        let answer = ractor::call!(actor, Message::Ask, body(number));
        check(number, &answer.map_err(refused("call"))?, asks)?;
    }
    let elapsed = began.elapsed();
    stop(&actor).await?;
    Ok(elapsed)
}

/// Spawns so many actors from the main thread, one after another, as its own benchmark does. How
/// long it took.
pub fn spawn_from_main(actors: u32) -> Result<Duration> {
    tokio_runtime()?.block_on(async move {
        let began = Instant::now();
        let spawned = spawn(actors).await?;
        let elapsed = began.elapsed();
        stop_all(spawned);
        Ok(elapsed)
    })
}

/// Spawns so many actors, from as many tasks as there are cores. How long it took.
pub fn spawn_from_tasks(actors: u32) -> Result<Duration> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
    let share = move |task: u32| actors / cores + u32::from(task < actors % cores);
    tokio_runtime()?.block_on(async move {
        let began = Instant::now();
        let tasks: Vec<_> = (0..cores)
            .map(|task| tokio::spawn(spawn(share(task))))
            .collect();
        let mut spawned = Vec::with_capacity(actors as usize);
        for task in tasks {
            spawned.extend(task.await.map_err(refused("finish a task"))??);
        }
        let elapsed = began.elapsed();
        stop_all(spawned);
        Ok(elapsed)
    })
}

async fn spawn(actors: u32) -> Result<Vec<ActorRef<Message>>> {
    let (tally, _) = Tally::new(1);
    let mut spawned = Vec::with_capacity(actors as usize);
    for _ in 0..actors {
        spawned.push(start(tally.clone()).await?);
    }
    Ok(spawned)
}

fn stop_all(actors: Vec<ActorRef<Message>>) {
    for actor in actors {
        actor.stop(None);
    }
}

async fn stop(actor: &ActorRef<Message>) -> Result<()> {
    let stopped = in_time("the end of an actor", actor.stop_and_wait(None, None)).await?;
    stopped.map_err(refused("stop an actor"))
}
