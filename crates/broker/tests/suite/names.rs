//! Names that come and go, and queues that are closed.

use std::time::Duration;

use broker::{AckMode, DEAD_LETTERS, Settings};
use journal::testing::Loss;

use crate::rig::{Rig, numbered, publication, to_queue, to_topic, until};

#[tokio::test]
async fn unused_names_are_forgotten_but_not_while_somebody_holds_them() {
    let rig = Rig::new();
    let held = rig.channel("held");
    let held_topic = rig.broker.channel(&to_topic("held")).unwrap();
    rig.channel("gone");
    rig.broker.channel(&to_topic("gone")).unwrap();
    rig.publish("full", "x", false).await;
    let subscriber = rig.subscribe("subscribed", AckMode::Auto);

    rig.clock.advance(Duration::from_secs(299));
    rig.broker.tidy();
    assert!(
        rig.broker.find_queue("gone").is_some(),
        "it is not time yet"
    );
    rig.clock.advance(Duration::from_secs(2));
    rig.broker.tidy();
    assert!(rig.broker.find_queue("gone").is_none());
    assert!(rig.broker.find_topic("gone").is_none());
    for name in ["held", "full", "subscribed", DEAD_LETTERS] {
        assert!(rig.broker.find_queue(name).is_some(), "{name}");
    }
    assert!(rig.broker.find_topic("held").is_some());

    // What goes through a channel that was kept reaches those who come now.
    held.publish(&mut vec![publication("x", false)]);
    assert_eq!(rig.drain_bodies("held").await, ["x"]);
    drop((held, held_topic, subscriber));
    assert_eq!(rig.drain_bodies("full").await, ["x"]);
    rig.broker.tidy();
    rig.clock.advance(Duration::from_secs(301));
    until("all are gone", || {
        rig.broker.tidy();
        rig.broker.queues().len() == 1 && rig.broker.topics().is_empty()
    })
    .await;
}

#[tokio::test]
async fn there_is_a_limit_of_names() {
    let rig = Rig::with(Settings {
        names_max: 3,
        ..Settings::default()
    });
    for queue in ["a", "b"] {
        rig.publish(queue, "x", true).await;
    }
    let refused = rig.broker.channel(&to_queue("c")).err().unwrap();
    assert_eq!(refused.names_max, 3);
    assert!(rig.broker.channel(&to_queue("a")).is_ok());
    for topic in ["a", "b", "c"] {
        assert!(rig.broker.channel(&to_topic(topic)).is_ok());
    }
    assert!(rig.broker.channel(&to_topic("d")).is_err());
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.drain_bodies("b").await, ["x"]);
}

#[tokio::test]
async fn a_closed_queue_forgets_everything_and_can_be_used_again() {
    for mode in [AckMode::Auto, AckMode::Client, AckMode::Individual] {
        for durable in [false, true] {
            let rig = Rig::new();
            rig.publish_all("q", &numbered(0..10), durable).await;
            let credit = broker::Credit {
                messages: 4,
                ..broker::Credit::default()
            };
            let reader = crate::rig::Reader::new(&rig.channel("q"), mode, credit);
            let taken = reader.take_unwritten();
            assert_eq!(taken.len(), 4);
            let queue = rig.broker.find_queue("q").unwrap();
            let gone = queue.close();
            // With `Auto`, what the session took already is on its way.
            let expected = if mode == AckMode::Auto { 6 } else { 10 };
            assert_eq!(gone, expected);
            let stats = rig.stats("q");
            assert_eq!(
                (stats.waiting, stats.unacknowledged, stats.bytes),
                (0, 0, 0)
            );
            assert_eq!(stats.subscribers, 0);

            rig.publish("q", "new", durable).await;
            assert!(reader.take_unwritten().is_empty(), "it gets nothing more");
            reader.subscription.sent(&taken[..2]);
            assert_eq!(reader.acknowledge(taken[0].entry.id, false).messages, 0);
            let unsent = taken[2..].iter().map(|d| d.entry.clone()).collect();
            reader.subscription.close(unsent, true);
            assert_eq!(rig.stats("q").waiting, 1);

            rig.publish("sync", "x", true).await;
            let rig = rig.crash(Loss::Unsynced);
            let expected = if durable { vec!["new"] } else { vec![] };
            assert_eq!(rig.drain_bodies("q").await, expected);
            assert_eq!(rig.stats("q").bytes, 0);
        }
    }
}

#[tokio::test]
async fn what_lies_in_the_outbox_of_a_closed_queue_goes_too() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..10), true).await;
    let reader = rig.subscribe("q", AckMode::Auto);
    assert_eq!(rig.broker.find_queue("q").unwrap().close(), 10);
    assert!(reader.take_unwritten().is_empty());
    rig.publish("sync", "x", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert!(rig.drain("q").await.is_empty());
}

#[tokio::test]
async fn statistics_add_up() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..10), false).await;
    let reader = rig.subscribe("q", AckMode::Individual);
    let entries = reader.expect(10).await;
    for entry in &entries[..4] {
        reader.acknowledge(entry.id, false);
    }
    reader.retry(entries[4].id, "again");
    reader.kill(entries[5].id, "never");
    let totals = rig.stats("q").totals;
    assert_eq!((totals.published, totals.delivered), (10, 11));
    assert_eq!(
        (totals.acknowledged, totals.returned, totals.dead),
        (4, 1, 1)
    );
    assert_eq!(rig.stats("q").unacknowledged, 5);
    let mut registry = kernel::metrics::Registry::default();
    rig.broker.register(&mut registry);
    let text = kernel::metrics::to_text(&registry);
    assert!(text.contains("dead_letters_total 1"), "{text}");
}
