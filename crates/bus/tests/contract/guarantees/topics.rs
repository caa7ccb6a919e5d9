//! Topics: every subscriber, nothing old.

use anyhow::{Result, ensure};
use kernel::Destination;

use crate::suite::{Guarantee, World, guarantee, numbered, texts};

pub const ALL: &[Guarantee] = &[
    guarantee!(
        Nothing,
        "a topic reaches every subscriber, in order",
        reaches_all
    ),
    guarantee!(Nothing, "a late subscriber gets nothing old", nothing_old),
    guarantee!(
        Nothing,
        "a topic and a queue of one name keep apart",
        keep_apart
    ),
];

async fn reaches_all(world: &World) -> Result<()> {
    let topic = world.topic();
    let mut subscribers = Vec::new();
    for _ in 0..3 {
        subscribers.push(world.subscribe(&topic, 200).await?);
    }
    let bodies = numbered("", 100);
    let parts: Vec<&str> = bodies.iter().map(String::as_str).collect();
    world.send(&topic, &parts).await?;
    for subscriber in &subscribers {
        let received = subscriber.receive(100).await?;
        ensure!(texts(&received) == bodies, "got {:?}", texts(&received));
        subscriber.acknowledge(&received).await?;
    }
    Ok(())
}

async fn nothing_old(world: &World) -> Result<()> {
    let topic = world.topic();
    let early = world.subscribe(&topic, 10).await?;
    world.send(&topic, &["old"]).await?;
    let late = world.subscribe(&topic, 10).await?;
    world.send(&topic, &["new"]).await?;
    let received = late.receive(1).await?;
    ensure!(texts(&received) == ["new"], "got {:?}", texts(&received));
    let received = early.receive(2).await?;
    ensure!(
        texts(&received) == ["old", "new"],
        "got {:?}",
        texts(&received)
    );
    Ok(())
}

async fn keep_apart(world: &World) -> Result<()> {
    let topic = world.topic();
    let queue = Destination::Queue(topic.name().clone());
    let of_topic = world.subscribe(&topic, 10).await?;
    world.send(&queue, &["to the queue"]).await?;
    world.send(&topic, &["to the topic"]).await?;
    let received = of_topic.receive(1).await?;
    ensure!(
        texts(&received) == ["to the topic"],
        "got {:?}",
        texts(&received)
    );
    let of_queue = world.subscribe(&queue, 10).await?;
    let received = of_queue.receive(1).await?;
    ensure!(
        texts(&received) == ["to the queue"],
        "got {:?}",
        texts(&received)
    );
    of_queue.acknowledge(&received).await?;
    drop(of_queue);
    world.expect_empty(&queue).await
}
