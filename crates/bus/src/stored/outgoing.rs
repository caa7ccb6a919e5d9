//! Publishing what was committed, until the engine has confirmed it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kernel::{Destination, Message, Name};
use tokio::task::{JoinError, JoinSet};

use super::Shared;
use crate::dead_letter::dead_letter;
use crate::error::BusError;
use crate::store::{OutboxEntry, Position};

const PUBLISH_TIMEOUT: Duration = Duration::from_secs(10);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How many destinations are published to at the same time.
const DESTINATIONS_MAX: usize = 32;
/// How many commits of an outbox are read at once.
const COMMITS_MAX: usize = 16;

/// Publishes everything, in order for each destination, however long that takes.
pub(super) async fn publish(shared: &Arc<Shared>, entries: Vec<OutboxEntry>) {
    let mut groups: Vec<(Destination, Vec<Message>)> = Vec::new();
    let mut places: HashMap<Destination, usize> = HashMap::new();
    for OutboxEntry { to, message } in entries {
        let place = *places.entry(to).or_insert_with_key(|to| {
            groups.push((to.clone(), Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(message);
    }
    if groups.len() == 1 {
        for (to, messages) in groups {
            publish_to(shared, &to, messages).await;
        }
        return;
    }
    // Confirmations of many queues are waited for together.
    let mut publishing = JoinSet::new();
    for (to, messages) in groups {
        if publishing.len() >= DESTINATIONS_MAX {
            expect_done(publishing.join_next().await);
        }
        let shared = shared.clone();
        publishing.spawn(async move { publish_to(&shared, &to, messages).await });
    }
    while let Some(outcome) = publishing.join_next().await {
        expect_done(Some(outcome));
    }
}

/// A panic goes on here: what it interrupted must not count as published.
fn expect_done(outcome: Option<Result<(), JoinError>>) {
    if let Some(Err(error)) = outcome
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

pub(super) async fn publish_to(shared: &Shared, to: &Destination, mut messages: Vec<Message>) {
    if publish_until_taken(shared, to, &mut messages).await.is_ok() {
        return;
    }
    // Some are refused for good: which ones shows one by one.
    for message in messages {
        let mut single = vec![message];
        let Err(error) = publish_until_taken(shared, to, &mut single).await else {
            continue;
        };
        shared.refused_sends.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%to, %error, "what was committed cannot be published; it goes to the dead letters");
        let letters = single.iter();
        let letters = letters.map(|message| dead_letter(to, message, &error.to_string(), 0));
        let mut letters = letters.collect();
        let Ok(name) = Name::new(crate::DEAD_LETTERS) else {
            continue;
        };
        let dead = Destination::Queue(name);
        if let Err(error) = publish_until_taken(shared, &dead, &mut letters).await {
            tracing::error!(%to, %error, "a dead letter is lost, since the engine refuses it");
        }
    }
}

/// Publishes until the engine takes it, or refuses it for good.
async fn publish_until_taken(
    shared: &Shared,
    to: &Destination,
    messages: &mut Vec<Message>,
) -> Result<(), BusError> {
    let mut pause = PAUSE_MIN;
    loop {
        let error = match shared.engine.publish(to, messages, PUBLISH_TIMEOUT).await {
            Ok(_) => return Ok(()),
            Err(error @ BusError::Refused { .. }) => return Err(error),
            Err(error) => error,
        };
        tracing::warn!(%to, %error, "what was committed is not published yet; trying again");
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Publishes what is left in the outbox of a bucket, and marks it.
pub(super) async fn take_over(
    shared: &Arc<Shared>,
    bucket: &Name,
    timeout: Duration,
) -> Result<(), BusError> {
    let mut after = Position::default();
    loop {
        let store = &shared.store;
        let commits = store.outbox(bucket, after, COMMITS_MAX, timeout).await?;
        let Some(last) = commits.last() else {
            return Ok(());
        };
        after = last.position;
        let entries: Vec<OutboxEntry> = commits.into_iter().flat_map(|c| c.entries).collect();
        let count = entries.len() as u64;
        publish(shared, entries).await;
        store.published(bucket, after, timeout).await?;
        shared.taken_over.fetch_add(count, Ordering::Relaxed);
        tracing::info!(%bucket, count, "published what was committed before");
    }
}
