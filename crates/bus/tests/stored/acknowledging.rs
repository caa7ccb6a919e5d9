//! Many workers acknowledge over one subscription.

use std::sync::Arc;

use anyhow::{Result, ensure};
use bus::{Delivery, Subscription};
use tokio::task::JoinSet;

use crate::rig::{STEP, engine, message, queue, receipts};

const WORKERS: usize = 8;
const MESSAGES: usize = 16_000;

/// Acknowledges two at a time, as what it has to do with them ends.
async fn worker(subscription: Arc<dyn Subscription>, own: Vec<Delivery>) -> Result<()> {
    for some in own.chunks(2) {
        subscription.acknowledge(&receipts(some), STEP).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_that_was_acknowledged_comes_again() -> Result<()> {
    let bus = engine().await?;
    let from = queue("acknowledging");
    let mut batch = vec![message("x", None); MESSAGES];
    bus.publish(&from, &mut batch, STEP).await?;
    let subscription = bus.subscribe(&from, 4_096, STEP).await?;
    let subscription: Arc<dyn Subscription> = subscription.into();
    let (mut received, mut workers) = (0, JoinSet::new());
    while received < MESSAGES {
        let some = subscription.next_batch(256, STEP).await?;
        ensure!(!some.is_empty(), "only {received} came");
        ensure!(!some.iter().any(|one| one.redelivered), "some came again");
        received += some.len();
        let mut own = vec![Vec::new(); WORKERS];
        for (place, one) in some.into_iter().enumerate() {
            own[place % WORKERS].push(one);
        }
        for own in own {
            workers.spawn(worker(subscription.clone(), own));
        }
    }
    while let Some(done) = workers.join_next().await {
        done??;
    }
    Ok(())
}
