//! Crashes of the engine.

use anyhow::{Result, ensure};
use bus::AckLevel;

use crate::suite::{Guarantee, STEP, World, guarantee, numbered, texts};

pub const ALL: &[Guarantee] = &[
    guarantee!(
        Restart,
        "what is promised as synced survives a crash",
        survives
    ),
    guarantee!(
        ReconnectAndRestart,
        "clients outlive a crash of the engine",
        clients_outlive
    ),
];

async fn survives(world: &World) -> Result<()> {
    let (queue, held) = tokio::join!(world.settled_queue(), world.settled_queue());
    let (queue, held) = (queue?, held?);
    let bodies = numbered("", 100);
    for some in bodies.chunks(30) {
        let parts: Vec<&str> = some.iter().map(String::as_str).collect();
        let level = world.send(&queue, &parts).await?;
        ensure!(level >= AckLevel::Synced, "only {level} was promised");
    }
    world.send(&held, &["held"]).await?;
    let holder = world.subscribe(&held, 10).await?;
    holder.receive(1).await?;
    let world = world.restarted().await?;
    // Where clients outlive the engine, this one would hold the message again.
    drop(holder);
    let subscriber = world.subscribe(&queue, 200).await?;
    let received = subscriber.receive(100).await?;
    ensure!(texts(&received) == bodies, "the order was changed");
    subscriber.acknowledge(&received).await?;
    let subscriber = world.subscribe(&held, 10).await?;
    let again = subscriber.receive(1).await?;
    ensure!(texts(&again) == ["held"], "got {:?}", texts(&again));
    subscriber.acknowledge(&again).await
}

async fn clients_outlive(world: &World) -> Result<()> {
    let queue = world.settled_queue().await?;
    let topic = world.topic();
    let subscriber = world.subscribe(&queue, 10).await?;
    let listener = world.subscribe(&topic, 10).await?;
    world.send(&queue, &["held"]).await?;
    let held = subscriber.receive(1).await?;
    world.fixture.restart().await?;
    world.send(&queue, &["after"]).await?;
    let stale = subscriber.acknowledge(&held).await;
    ensure!(
        stale.is_err(),
        "it took an acknowledgement of before the crash"
    );
    let mut received = texts(&subscriber.receive(2).await?);
    received.sort();
    ensure!(received == ["after", "held"], "got {received:?}");
    // The topic's subscription is made again some time after the crash: send until it hears.
    let deadline = std::time::Instant::now() + STEP;
    loop {
        world.send(&topic, &["news"]).await?;
        let wait = std::time::Duration::from_millis(100);
        if !listener.subscription.next_batch(1, wait).await?.is_empty() {
            return Ok(());
        }
        ensure!(
            std::time::Instant::now() < deadline,
            "the topic stays silent"
        );
    }
}
