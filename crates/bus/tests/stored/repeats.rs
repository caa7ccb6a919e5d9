//! Repeats that no crash of ours causes: senders that send twice, and copies in several hands.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bus::{Bus, BusError, Commit, Reject, StoredBus, Subscription};
use kernel::{Destination, Message, Name};

use crate::rig::{
    QUIET, STEP, consumed, engine, handled, message, name, own, queue, receive, store, text, turn,
};

async fn bus() -> Result<StoredBus> {
    Ok(StoredBus::new(engine().await?, store("repeats").await?))
}

async fn publish(bus: &dyn Bus, to: &Destination, messages: &[Message]) -> Result<()> {
    bus.publish(to, &mut messages.to_vec(), STEP).await?;
    Ok(())
}

/// Nothing comes until that many repeats were dropped in all.
async fn expect_dropped(
    bus: &StoredBus,
    subscription: &dyn Subscription,
    repeats: u64,
) -> Result<()> {
    let deadline = Instant::now() + STEP;
    loop {
        let more = subscription.next_batch(10, QUIET).await?;
        ensure!(more.is_empty(), "{} came again", text(&more[0]));
        let dropped = bus.counts().repeats_dropped;
        if dropped == repeats {
            return Ok(());
        }
        ensure!(
            dropped < repeats && Instant::now() < deadline,
            "{dropped} repeats were counted instead of {repeats}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_twice_is_handled_once_and_counted() -> Result<()> {
    let bus = bus().await?;
    let input = queue("input");
    let owner = own(&bus, &name("bucket")).await?;
    for id in ["an outside id", "hw:sender.1.65537.1"] {
        let before = bus.counts().repeats_dropped;
        let one = message(id, Some(id));
        publish(&bus, &input, &[one.clone(), one.clone()]).await?;
        let subscription = bus.subscribe(&input, 10, STEP).await?;
        let got = receive(subscription.as_ref(), 1).await?;
        turn(&bus, Some(&owner), subscription.as_ref(), &got, None).await?;
        publish(&bus, &input, std::slice::from_ref(&one)).await?;
        expect_dropped(&bus, subscription.as_ref(), before + 2).await?;
        drop(subscription);
        // Another subscriber, which has not seen the first one.
        publish(&bus, &input, &[one]).await?;
        let subscription = bus.subscribe(&input, 10, STEP).await?;
        expect_dropped(&bus, subscription.as_ref(), before + 3).await?;
    }
    let counts = handled(&bus, &owner.bucket).await?;
    ensure!(
        counts.len() == 2 && counts.values().all(|count| *count == 1),
        "handled {counts:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_copies_in_two_hands_one_is_refused() -> Result<()> {
    let (one, other) = (bus().await?, bus().await?);
    let input = queue("input");
    let here = one.subscribe(&input, 1, STEP).await?;
    let there = other.subscribe(&input, 1, STEP).await?;
    let copy = message("x", Some("the same id"));
    publish(&one, &input, &[copy.clone(), copy]).await?;
    let first = receive(here.as_ref(), 1).await?;
    let second = receive(there.as_ref(), 1).await?;
    // Two workers of a pool, each with its own state.
    let owner = own(&one, &name("bucket")).await?;
    let other_owner = own(&other, &name("bucket")).await?;
    turn(&one, Some(&owner), here.as_ref(), &first, None).await?;
    let refused = turn(&other, Some(&other_owner), there.as_ref(), &second, None).await;
    let error = refused.err().and_then(|error| error.downcast().ok());
    ensure!(
        matches!(error, Some(BusError::NotHeld { .. })),
        "got {error:?}"
    );
    ensure!(
        handled(&other, &other_owner.bucket).await?.is_empty(),
        "state was written twice"
    );
    // Whoever subscribes next finds out at once.
    drop(there);
    let again = other.subscribe(&input, 1, STEP).await?;
    ensure!(
        again.next_batch(1, QUIET).await?.is_empty(),
        "it came again"
    );
    ensure!(other.counts().repeats_dropped == 1, "it was not counted");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_no_repeat() -> Result<()> {
    let bus = bus().await?;
    let input = queue("input");
    publish(&bus, &input, &[message("x", Some("tried again"))]).await?;
    let subscription = bus.subscribe(&input, 10, STEP).await?;
    let owner = own(&bus, &name("bucket")).await?;
    for tries in 0..3 {
        let got = receive(subscription.as_ref(), 1).await?;
        ensure!(got[0].tries == tries, "{} tries", got[0].tries);
        let reason = "not now".to_owned();
        let reject = Reject::Retry { reason };
        subscription.reject(&got[0], reject, STEP).await?;
    }
    let got = receive(subscription.as_ref(), 1).await?;
    turn(&bus, Some(&owner), subscription.as_ref(), &got, None).await?;
    ensure!(bus.counts().repeats_dropped == 0, "a retry was dropped");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_messages_with_a_header_that_was_passed_on_all_arrive() -> Result<()> {
    let bus = bus().await?;
    let (input, output) = (queue("input"), queue("output"));
    publish(&bus, &input, &[message("x", Some("an id"))]).await?;
    let subscription = bus.subscribe(&input, 10, STEP).await?;
    let got = receive(subscription.as_ref(), 1).await?;
    let owner = own(&bus, &name("bucket")).await?;
    // A worker that answers with what it got, twice.
    let send = |body: &str| (output.clone(), message(body, got[0].message_id()));
    let commit = Commit {
        owner: Some(owner),
        consumed: consumed(subscription.as_ref(), &got),
        sends: vec![send("a"), send("b")],
        ..Commit::default()
    };
    bus.commit(&commit, STEP).await?;
    let subscription = bus.subscribe(&output, 10, STEP).await?;
    let got = receive(subscription.as_ref(), 2).await?;
    let texts: Vec<String> = got.iter().map(text).collect();
    ensure!(texts == ["a", "b"], "got {texts:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_engine_refuses_goes_to_the_dead_letters() -> Result<()> {
    let bus = bus().await?;
    let nowhere = Destination::Topic(Name::new("no.#.topic")?);
    let dead = Destination::Queue(Name::new(bus::DEAD_LETTERS)?);
    let letters = bus.subscribe(&dead, 10, STEP).await?;
    let commit = Commit {
        sends: vec![(nowhere, message("refused", None))],
        ..Commit::default()
    };
    bus.commit(&commit, STEP).await?;
    let got = receive(letters.as_ref(), 1).await?;
    ensure!(text(&got[0]) == "refused", "got {:?}", text(&got[0]));
    let topic = got[0].message.headers.get(Message::DEAD_TOPIC);
    ensure!(topic == Some("no.#.topic"), "it came from {topic:?}");
    ensure!(bus.counts().refused_sends == 1, "it was not counted");
    letters.acknowledge(&[got[0].receipt], STEP).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_commits_of_a_pool_lose_and_repeat_nothing() -> Result<()> {
    const MESSAGES: usize = 300;
    let bus = Arc::new(bus().await?);
    let (input, output) = (queue("input"), queue("output"));
    let bodies: Vec<String> = (0..MESSAGES).map(|n| n.to_string()).collect();
    let messages: Vec<Message> = bodies.iter().map(|body| message(body, None)).collect();
    publish(bus.as_ref(), &input, &messages).await?;
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (bus, input, output) = (bus.clone(), input.clone(), output.clone());
        workers.spawn(async move {
            let subscription = bus.subscribe(&input, 20, STEP).await?;
            loop {
                let got = subscription.next_batch(7, 3 * QUIET).await?;
                if got.is_empty() {
                    return anyhow::Ok(());
                }
                turn(
                    bus.as_ref(),
                    None,
                    subscription.as_ref(),
                    &got,
                    Some(&output),
                )
                .await?;
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let subscription = bus.subscribe(&output, 1_000, STEP).await?;
    let got = receive(subscription.as_ref(), MESSAGES).await?;
    let mut texts: Vec<String> = got.iter().map(text).collect();
    texts.sort();
    let mut expected: Vec<String> = bodies.iter().map(|body| format!("did {body}")).collect();
    expected.sort();
    ensure!(texts == expected, "some are missing or came twice");
    ensure!(
        subscription.next_batch(1, QUIET).await?.is_empty(),
        "more came than was sent"
    );
    Ok(())
}
