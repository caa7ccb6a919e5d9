//! Connections that are slow, cut, or dead without a word.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bus::BusError;
use hivewire_tests::proxy::{Cut, Proxy};

use crate::suite::{Guarantee, STEP, World, guarantee, message, numbered, texts};

pub const ALL: &[Guarantee] = &[
    guarantee!(
        Network,
        "cut connections lose nothing that was promised",
        cuts
    ),
    guarantee!(
        Network,
        "a connection that died silently is replaced",
        silent_death
    ),
    guarantee!(
        Network,
        "what was held over a cut is known to be lost",
        held_over_a_cut
    ),
    guarantee!(
        Network,
        "calls end in time while nothing answers",
        ends_in_time
    ),
];

/// When nothing new comes for that long, nothing more will.
const STALLED: Duration = Duration::from_secs(10);

fn network(world: &World) -> Result<&Proxy> {
    world.fixture.network().context("there is no network here")
}

async fn cuts(world: &World) -> Result<()> {
    const BATCHES: usize = 40;
    const BATCH: usize = 10;
    let network = network(world)?;
    let queue = world.queue();
    let bodies = numbered("", BATCHES * BATCH);
    let publish = async {
        for (index, some) in bodies.chunks(BATCH).enumerate() {
            let parts: Vec<&str> = some.iter().map(String::as_str).collect();
            let sent = world.send(&queue, &parts);
            if index % 8 == 3 {
                // The cut falls somewhere between the first byte and the last confirmation.
                let cut = async {
                    tokio::time::sleep(Duration::from_millis(index as u64 % 7)).await;
                    network.cut(Cut::Reset);
                };
                let (sent, ()) = tokio::join!(sent, cut);
                sent?;
            } else {
                sent.await?;
            }
        }
        anyhow::Ok(())
    };
    let subscriber = world.subscribe(&queue, 20).await?;
    let receive = async {
        let mut seen: HashSet<String> = HashSet::new();
        let mut ids: HashSet<String> = HashSet::new();
        let mut last_new = Instant::now();
        while seen.len() < BATCHES * BATCH {
            ensure!(last_new.elapsed() < STALLED, "only {} came", seen.len());
            let wait = Duration::from_millis(200);
            for delivery in subscriber.subscription.next_batch(20, wait).await? {
                let id = delivery.message_id().unwrap_or_default().to_owned();
                let text = texts(std::slice::from_ref(&delivery)).remove(0);
                let is_new_id = ids.insert(id.clone());
                if seen.insert(text.clone()) {
                    last_new = Instant::now();
                } else {
                    ensure!(
                        delivery.redelivered || !is_new_id,
                        "{text} came twice, neither marked nor under the same id"
                    );
                }
                match subscriber
                    .subscription
                    .acknowledge(&[delivery.receipt], STEP)
                    .await
                {
                    Ok(()) | Err(BusError::NotHeld { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(seen)
    };
    let (published, seen) = tokio::join!(publish, receive);
    published?;
    let missing = bodies
        .iter()
        .find(|body| !seen.as_ref().is_ok_and(|s| s.contains(*body)));
    seen?;
    ensure!(
        missing.is_none(),
        "{missing:?} was promised and did not come"
    );
    Ok(())
}

async fn silent_death(world: &World) -> Result<()> {
    let network = network(world)?;
    let queue = world.queue();
    let subscriber = world.subscribe(&queue, 10).await?;
    world.send(&queue, &["1"]).await?;
    let first = subscriber.receive(1).await?;
    subscriber.acknowledge(&first).await?;
    network.cut(Cut::Silent);
    world.send(&queue, &["2"]).await?;
    let received = subscriber.receive_until(|d| d.message.body == "2").await?;
    ensure!(received.len() <= 2, "got {:?}", texts(&received));
    Ok(())
}

async fn held_over_a_cut(world: &World) -> Result<()> {
    let network = network(world)?;
    let queue = world.queue();
    let subscriber = world.subscribe(&queue, 10).await?;
    world.send(&queue, &["x"]).await?;
    let held = subscriber.receive(1).await?;
    network.cut(Cut::Reset);
    let again = subscriber.receive(1).await?;
    ensure!(
        texts(&again) == ["x"] && again[0].redelivered,
        "it did not come again, marked"
    );
    let stale = subscriber
        .subscription
        .acknowledge(&[held[0].receipt], STEP)
        .await;
    ensure!(
        matches!(stale, Err(BusError::NotHeld { messages: 1 })),
        "acknowledging what was lost gave {stale:?}"
    );
    subscriber.acknowledge(&again).await?;
    drop(subscriber);
    world.expect_empty(&queue).await
}

async fn ends_in_time(world: &World) -> Result<()> {
    let network = network(world)?;
    let queue = world.queue();
    let subscriber = world.subscribe(&queue, 10).await?;
    network.refuse(true);
    network.cut(Cut::Reset);
    let timeout = Duration::from_millis(300);
    let began = Instant::now();
    let mut batch = vec![message("x")];
    let outcome = world.bus.publish(&queue, &mut batch, timeout).await;
    let nothing = subscriber.subscription.next_batch(1, timeout).await;
    let took = began.elapsed();
    network.refuse(false);
    let error = outcome.err().context("a publish to nobody succeeded")?;
    ensure!(
        error.can_retry(),
        "the error says that retrying is useless: {error}"
    );
    ensure!(batch.len() == 1, "the message was taken out of the batch");
    ensure!(nothing?.is_empty(), "something came from nobody");
    ensure!(took < 3 * timeout, "it took {took:?}");
    world.bus.publish(&queue, &mut batch, STEP).await?;
    let received = subscriber.receive(1).await?;
    ensure!(texts(&received) == ["x"], "got {:?}", texts(&received));
    Ok(())
}
