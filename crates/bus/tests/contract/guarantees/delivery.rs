//! Queues: order, credit, acknowledgements, contents.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use bus::{AckLevel, Delivery, QueueSettings};
use kernel::{Destination, Headers, Message};

use crate::suite::{Guarantee, STEP, World, guarantee, message, numbered, texts};

pub const ALL: &[Guarantee] = &[
    guarantee!(Nothing, "what is published is received", is_received),
    guarantee!(Nothing, "order holds per sender", order_per_sender),
    guarantee!(
        Nothing,
        "competing subscribers get each message once",
        each_once
    ),
    guarantee!(
        InTurn,
        "subscribers in turn keep the order when one leaves",
        in_turn
    ),
    guarantee!(Nothing, "credit is never exceeded", credit),
    guarantee!(
        Nothing,
        "what is acknowledged is gone",
        acknowledged_is_gone
    ),
    guarantee!(
        Nothing,
        "what is not comes back, marked",
        unacknowledged_comes_back
    ),
    guarantee!(
        Nothing,
        "acknowledging one spares the others",
        acknowledges_only_these
    ),
    guarantee!(Nothing, "binary bodies and headers are unchanged", contents),
    guarantee!(Nothing, "an empty body arrives", empty_body),
    guarantee!(Nothing, "a body of 1 MiB arrives", large_body),
    guarantee!(Nothing, "many queues keep apart", many_queues),
    guarantee!(Nothing, "an acknowledgement says what it is worth", levels),
];

fn parts(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

async fn is_received(world: &World) -> Result<()> {
    let queue = world.queue();
    world.send(&queue, &["before"]).await?;
    let subscriber = world.subscribe(&queue, 100).await?;
    let bodies = numbered("", 50);
    world.send(&queue, &parts(&bodies)).await?;
    let received = subscriber.receive(51).await?;
    let mut expected = vec!["before".to_owned()];
    expected.extend(bodies);
    let got = texts(&received);
    ensure!(sorted(got.clone()) == sorted(expected), "got {got:?}");
    ensure!(
        received.iter().all(|d| !d.redelivered && d.tries == 0),
        "a first delivery was marked as another one"
    );
    subscriber.acknowledge(&received).await?;
    drop(subscriber);
    world.expect_empty(&queue).await
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts
}

async fn order_per_sender(world: &World) -> Result<()> {
    const MESSAGES: usize = 300;
    let queue = world.queue();
    let sender = |prefix: &'static str, at_a_time: usize| {
        let queue = &queue;
        async move {
            for some in numbered(prefix, MESSAGES).chunks(at_a_time) {
                world.send(queue, &parts(some)).await?;
            }
            anyhow::Ok(())
        }
    };
    let subscriber = world.subscribe(&queue, 50).await?;
    let receive = async {
        let mut received = Vec::new();
        while received.len() < 2 * MESSAGES {
            let next = subscriber.receive(1).await?;
            subscriber.acknowledge(&next).await?;
            received.extend(texts(&next));
        }
        anyhow::Ok(received)
    };
    let (a, b, received) = tokio::join!(sender("a", 64), sender("b", 7), receive);
    a?;
    b?;
    let received = received?;
    for prefix in ["a", "b"] {
        let of_sender: Vec<_> = received.iter().filter(|t| t.starts_with(prefix)).collect();
        let expected = numbered(prefix, MESSAGES);
        let first_wrong = of_sender
            .iter()
            .zip(&expected)
            .find(|(got, want)| *got != want);
        ensure!(
            of_sender.len() == MESSAGES && first_wrong.is_none(),
            "sender {prefix}: (got, expected) = {first_wrong:?}"
        );
    }
    Ok(())
}

async fn each_once(world: &World) -> Result<()> {
    const MESSAGES: usize = 300;
    let queue = world.queue();
    let mut subscribers = Vec::new();
    for _ in 0..3 {
        subscribers.push(world.subscribe(&queue, 5).await?);
    }
    let bodies = numbered("", MESSAGES);
    world.send(&queue, &parts(&bodies)).await?;
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut served = [0; 3];
    while seen.values().sum::<usize>() < MESSAGES {
        let before = seen.len();
        for (subscriber, served) in subscribers.iter().zip(&mut served) {
            let wait = std::time::Duration::from_millis(100);
            let next = subscriber.subscription.next_batch(10, wait).await?;
            subscriber.acknowledge(&next).await?;
            *served += next.len();
            for text in texts(&next) {
                *seen.entry(text).or_default() += 1;
            }
        }
        ensure!(
            seen.len() > before,
            "only {before} of {MESSAGES} messages came"
        );
    }
    let twice = seen.iter().find(|(_, times)| **times > 1);
    ensure!(twice.is_none(), "a message came twice: {twice:?}");
    ensure!(
        served.iter().all(|s| *s > 0),
        "somebody got nothing: {served:?}"
    );
    for subscriber in &subscribers {
        subscriber.expect_quiet().await?;
    }
    drop(subscribers);
    world.expect_empty(&queue).await
}

/// The second gets nothing as long as the first is there, and then all that the first had not
/// acknowledged, before anything else.
async fn in_turn(world: &World) -> Result<()> {
    let queue = world.queue();
    let settings = QueueSettings {
        in_turn: true,
        ..QueueSettings::default()
    };
    let other = World::new(world.fixture.clone()).await?;
    for bus in [&world.bus, &other.bus] {
        bus.declare(queue.name(), &settings, STEP).await?;
    }
    let first = world.subscribe(&queue, 10).await?;
    let second = other.subscribe(&queue, 10).await?;
    let bodies = numbered("", 20);
    world.send(&queue, &parts(&bodies)).await?;
    let held = first.receive(10).await?;
    first.acknowledge(&held[..3]).await?;
    first.receive(3).await?;
    second.expect_quiet().await?;
    drop(first);
    let rest = second.receive(10).await?;
    second.acknowledge(&rest).await?;
    let last = second.receive(7).await?;
    second.acknowledge(&last).await?;
    let came = [texts(&held[..3]), texts(&rest), texts(&last)].concat();
    ensure!(came == bodies, "got {came:?}");
    Ok(())
}

async fn credit(world: &World) -> Result<()> {
    const CREDIT: usize = 3;
    let queue = world.queue();
    let bodies = numbered("", 12);
    world.send(&queue, &parts(&bodies)).await?;
    let subscriber = world.subscribe(&queue, CREDIT as u32).await?;
    let mut held: Vec<Delivery> = Vec::new();
    for _ in 0..3 {
        held.extend(subscriber.receive(CREDIT - held.len()).await?);
        subscriber.expect_quiet().await?;
        let done: Vec<Delivery> = held.drain(..2).collect();
        subscriber.acknowledge(&done).await?;
    }
    // Another subscriber gets what this one has no credit for.
    held.extend(subscriber.receive(CREDIT - held.len()).await?);
    let other = world.subscribe(&queue, 10).await?;
    let others = other.receive(12 - 6 - CREDIT).await?;
    other.expect_quiet().await?;
    ensure!(others.iter().all(|d| !d.redelivered), "they were nobody's");
    Ok(())
}

async fn acknowledged_is_gone(world: &World) -> Result<()> {
    let queue = world.queue();
    world.send(&queue, &["1", "2", "3"]).await?;
    let subscriber = world.subscribe(&queue, 10).await?;
    let received = subscriber.receive(3).await?;
    subscriber.acknowledge(&received).await?;
    drop(subscriber);
    world.expect_empty(&queue).await
}

async fn unacknowledged_comes_back(world: &World) -> Result<()> {
    let queue = world.queue();
    world.send(&queue, &["1", "2", "3"]).await?;
    let lost = world.subscribe(&queue, 10).await?;
    lost.receive(3).await?;
    drop(lost);
    let subscriber = world.subscribe(&queue, 10).await?;
    let again = subscriber.receive(3).await?;
    ensure!(texts(&again) == ["1", "2", "3"], "got {:?}", texts(&again));
    ensure!(
        again.iter().all(|d| d.redelivered),
        "it was not marked as redelivered"
    );
    subscriber.acknowledge(&again).await
}

async fn acknowledges_only_these(world: &World) -> Result<()> {
    let queue = world.queue();
    world.send(&queue, &["1", "2", "3", "4", "5", "6"]).await?;
    let lost = world.subscribe(&queue, 10).await?;
    let received = lost.receive(6).await?;
    let some: Vec<Delivery> = [4, 1].map(|i: usize| received[i].clone()).into();
    lost.acknowledge(&some).await?;
    lost.acknowledge(&received[..1]).await?;
    drop(lost);
    let subscriber = world.subscribe(&queue, 10).await?;
    let again = subscriber.receive(3).await?;
    ensure!(texts(&again) == ["3", "4", "6"], "got {:?}", texts(&again));
    subscriber.acknowledge(&again).await?;
    drop(subscriber);
    world.expect_empty(&queue).await
}

async fn same_again(world: &World, sent: Vec<Message>) -> Result<()> {
    let queue = world.queue();
    let subscriber = world.subscribe(&queue, 10).await?;
    world.send_messages(&queue, sent.clone()).await?;
    let received = subscriber.receive(sent.len()).await?;
    for (got, want) in received.iter().zip(&sent) {
        ensure!(got.message.body == want.body, "the body was changed");
        let (got, want) = (&got.message.headers, &want.headers);
        ensure!(
            got == want,
            "the headers were changed from {want:?} to {got:?}"
        );
    }
    subscriber.acknowledge(&received).await
}

async fn contents(world: &World) -> Result<()> {
    let every_byte: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let long = "x".repeat(5000);
    let pairs: [&[(&str, &str)]; 5] = [
        &[("a", "1"), ("b", "2")],
        &[("z", ""), ("a", "äöü \r\n:\\ 漢")],
        &[("same", "1"), ("same", "2"), ("same", "1")],
        &[
            ("reply-to", "/queue/answers"),
            ("content-type", "text/plain"),
            ("message-id", "mine"),
        ],
        &[("long", &long)],
    ];
    let mut sent = vec![Message::new(every_byte.clone())];
    for pairs in pairs {
        let headers = Headers::from_pairs(pairs.iter().copied())?;
        sent.push(Message::new(every_byte.clone()).with_headers(headers));
    }
    same_again(world, sent).await
}

async fn empty_body(world: &World) -> Result<()> {
    same_again(world, vec![message(""), message("x"), message("")]).await
}

async fn large_body(world: &World) -> Result<()> {
    let body: Vec<u8> = (0..1 << 20).map(|i: u32| (i * 7 + i / 251) as u8).collect();
    same_again(
        world,
        vec![Message::new(body.clone()), message("x"), Message::new(body)],
    )
    .await
}

async fn many_queues(world: &World) -> Result<()> {
    let mut queues: Vec<Destination> = Vec::new();
    for index in 0..32 {
        queues.push(world.declared(index % 4 == 0, 5).await?);
    }
    let text = |index: usize, round: usize| format!("{index}-{round}");
    for round in 0..3 {
        for (index, queue) in queues.iter().enumerate() {
            world.send(queue, &[&text(index, round)]).await?;
        }
    }
    for (index, queue) in queues.iter().enumerate() {
        let subscriber = world.subscribe(queue, 10).await?;
        let received = subscriber.receive(3).await?;
        let expected: Vec<String> = (0..3).map(|round| text(index, round)).collect();
        ensure!(
            texts(&received) == expected,
            "{queue} got {:?}",
            texts(&received)
        );
        subscriber.acknowledge(&received).await?;
    }
    world.expect_empty(&queues[0]).await
}

async fn levels(world: &World) -> Result<()> {
    world.settled_queue().await?;
    let transient = world.declared(false, 5).await?;
    let level = world.send(&transient, &["x"]).await?;
    ensure!(level == AckLevel::Memory, "a transient queue gave {level}");
    let level = world.send(&world.topic(), &["x"]).await?;
    ensure!(level == AckLevel::Memory, "a topic gave {level}");
    Ok(())
}
