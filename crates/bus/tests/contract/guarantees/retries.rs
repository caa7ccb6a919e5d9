//! Messages that fail: tries, dead letters, order.

use anyhow::{Result, ensure};
use bus::{DEAD_LETTERS, Delivery, Reject};
use kernel::{Destination, Headers, Message, Name};

use crate::suite::{Guarantee, STEP, Subscriber, World, guarantee, message, texts};

pub const ALL: &[Guarantee] = &[
    guarantee!(
        Nothing,
        "a retry comes again and is counted",
        retry_is_counted
    ),
    guarantee!(Nothing, "used-up tries end in the dead letters", tries_end),
    guarantee!(
        Nothing,
        "a dead letter keeps contents and reason",
        dead_at_once
    ),
    guarantee!(
        OrderAfterRetry,
        "a retry keeps its place",
        retry_keeps_its_place
    ),
    guarantee!(
        CountsLostSubscribers,
        "a lost subscriber counts as a try",
        lost_subscriber_counts
    ),
];

fn retry(reason: &str) -> Reject {
    Reject::Retry {
        reason: reason.into(),
    }
}

async fn reject_next(subscriber: &Subscriber, reject: Reject) -> Result<Delivery> {
    let next = subscriber.receive(1).await?.remove(0);
    subscriber.subscription.reject(&next, reject, STEP).await?;
    Ok(next)
}

/// The dead letters that came from `queue`; others are acknowledged on the way.
async fn next_dead_letter(world: &World, queue: &Destination) -> Result<Message> {
    let dead = Destination::Queue(Name::new(DEAD_LETTERS)?);
    let subscriber = world.subscribe(&dead, 10).await?;
    let origin = queue.name().as_str();
    let is_it = |d: &Delivery| d.message.headers.get(Message::DEAD_QUEUE) == Some(origin);
    let letters = subscriber.receive_until(is_it).await?;
    let last = letters.into_iter().next_back();
    Ok(last.map(|letter| letter.message).unwrap_or_default())
}

async fn retry_is_counted(world: &World) -> Result<()> {
    let queue = world.queue();
    world.send(&queue, &["x"]).await?;
    let subscriber = world.subscribe(&queue, 10).await?;
    for tries in 0..3 {
        let delivery = reject_next(&subscriber, retry("no")).await?;
        ensure!(
            delivery.tries == tries,
            "{} tries instead of {tries}",
            delivery.tries
        );
        ensure!(
            delivery.redelivered == (tries > 0),
            "wrongly marked at try {tries}"
        );
    }
    let last = subscriber.receive(1).await?;
    ensure!(texts(&last) == ["x"], "got {:?}", texts(&last));
    subscriber.acknowledge(&last).await?;
    drop(subscriber);
    world.expect_empty(&queue).await
}

async fn tries_end(world: &World) -> Result<()> {
    const TRIES_MAX: u32 = 3;
    let queue = world.declared(true, TRIES_MAX).await?;
    world.send(&queue, &["poison", "good"]).await?;
    let subscriber = world.subscribe(&queue, 1).await?;
    let mut rejected = 0;
    let mut seen_good = false;
    while rejected < TRIES_MAX || !seen_good {
        let next = subscriber.receive(1).await?.remove(0);
        if next.message.body == "good" {
            subscriber.acknowledge(&[next]).await?;
            seen_good = true;
        } else {
            ensure!(
                rejected < TRIES_MAX,
                "it was tried more than {TRIES_MAX} times"
            );
            let reject = retry("it is poison");
            subscriber.subscription.reject(&next, reject, STEP).await?;
            rejected += 1;
        }
    }
    let letter = next_dead_letter(world, &queue).await?;
    ensure!(letter.body == "poison", "another message died");
    let reason = letter.headers.get(Message::DEAD_REASON).unwrap_or_default();
    ensure!(
        reason.contains("it is poison"),
        "the reason became {reason:?}"
    );
    let tries = letter.headers.get(Message::DEAD_TRIES);
    ensure!(tries == Some("3"), "it says {tries:?} tries");
    drop(subscriber);
    world.expect_empty(&queue).await
}

async fn dead_at_once(world: &World) -> Result<()> {
    let queue = world.queue();
    let headers = Headers::from_pairs([("colour", "red")])?;
    let sent = message("x").with_headers(headers);
    world.send_messages(&queue, vec![sent]).await?;
    let subscriber = world.subscribe(&queue, 10).await?;
    let reason = "cannot be read".to_owned();
    reject_next(&subscriber, Reject::Dead { reason }).await?;
    let letter = next_dead_letter(world, &queue).await?;
    ensure!(letter.body == "x", "the body was changed");
    let header = |name| letter.headers.get(name);
    ensure!(header("colour") == Some("red"), "a header was lost");
    ensure!(
        header(Message::DEAD_REASON) == Some("cannot be read"),
        "{letter:?}"
    );
    ensure!(header(Message::DEAD_AT).is_some(), "it does not say when");
    drop(subscriber);
    world.expect_empty(&queue).await
}

async fn retry_keeps_its_place(world: &World) -> Result<()> {
    let queue = world.queue();
    world.send(&queue, &["1", "2", "3"]).await?;
    let subscriber = world.subscribe(&queue, 1).await?;
    reject_next(&subscriber, retry("not now")).await?;
    let received = subscriber.receive_until(|d| d.message.body == "3").await?;
    ensure!(
        texts(&received) == ["1", "2", "3"],
        "got {:?}",
        texts(&received)
    );
    Ok(())
}

async fn lost_subscriber_counts(world: &World) -> Result<()> {
    let queue = world.queue();
    world.send(&queue, &["deadly", "unseen"]).await?;
    // The default number of tries is five.
    for tries in 0..5 {
        let subscriber = world.subscribe(&queue, 10).await?;
        let next = subscriber.receive(1).await?;
        ensure!(
            texts(&next) == ["deadly"],
            "got {:?} at try {tries}",
            texts(&next)
        );
        ensure!(
            next[0].tries == tries,
            "{} tries instead of {tries}",
            next[0].tries
        );
    }
    let letter = next_dead_letter(world, &queue).await?;
    ensure!(letter.body == "deadly", "another message died");
    let subscriber = world.subscribe(&queue, 10).await?;
    let next = subscriber.receive(1).await?;
    ensure!(
        texts(&next) == ["unseen"] && next[0].tries == 0 && !next[0].redelivered,
        "what nobody was handed counted as tried"
    );
    subscriber.acknowledge(&next).await
}
