//! Messages that could not be handled.

use broker::{AckMode, DEAD_LETTERS, DeadFilter, DeadLetter, QueueSettings, Settings};
use journal::testing::Loss;
use kernel::{Destination, Message};

use crate::rig::{
    Reader, Rig, bodies, name, numbered, publication, rule, to_queue, to_topic, until,
};

fn all(rig: &Rig) -> Vec<DeadLetter> {
    rig.broker.dead_letters(&DeadFilter::default(), 1_000)
}

fn texts(letters: &[DeadLetter]) -> Vec<String> {
    let text = |letter: &DeadLetter| String::from_utf8_lossy(&letter.message.body).into_owned();
    letters.iter().map(text).collect()
}

/// Rejects everything in a queue for good.
async fn kill_all(rig: &Rig, queue: &str, count: usize) {
    let reader = rig.subscribe(queue, AckMode::Individual);
    for entry in reader.expect(count).await {
        rig.broker.ready().await;
        reader.kill(entry.id, "no good");
    }
}

#[tokio::test]
async fn a_message_that_fails_too_often_becomes_a_dead_letter() {
    let rig = Rig::queues(QueueSettings {
        tries_max: 3,
        ..QueueSettings::default()
    });
    rig.publish("q", "poison", true).await;
    rig.publish("q", "fine", true).await;
    let reader = rig.subscribe("q", AckMode::Individual);
    let mut entries = reader.expect(2).await;
    let fine = entries.remove(1);
    for _ in 0..3 {
        let entry = match entries.pop() {
            Some(entry) => entry,
            None => reader.expect(1).await.remove(0),
        };
        assert_eq!(crate::rig::body(&entry), "poison");
        reader.retry(entry.id, "it exploded");
    }
    let stored = reader.acknowledge(fine.id, false).stored;
    rig.wait(stored.unwrap()).await;

    let rig = rig.crash(Loss::Unsynced);
    let dead = all(&rig);
    assert_eq!(texts(&dead), ["poison"]);
    assert_eq!(dead[0].origin, Some(to_queue("q")));
    let headers = &dead[0].message.headers;
    assert_eq!(headers.get(Message::DEAD_QUEUE), Some("q"));
    assert_eq!(
        headers.get(Message::DEAD_REASON),
        Some("it exploded (3 tries)")
    );
    assert_eq!(headers.get(Message::DEAD_TRIES), Some("3"));
    assert!(headers.get(Message::DEAD_AT).is_some());
    assert_eq!(rig.stats("q").waiting, 0, "it is in one place only");
}

#[tokio::test]
async fn replayed_letters_return_without_their_marks_and_only_once() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..5), true).await;
    rig.publish("other", "o", false).await;
    kill_all(&rig, "q", 5).await;
    kill_all(&rig, "other", 1).await;

    let from_q = DeadFilter {
        from: Some(name("q")),
        id: None,
        ..Default::default()
    };
    let one = DeadFilter {
        from: Some(name("q")),
        id: Some(all(&rig)[2].id),
        ..Default::default()
    };
    assert_eq!(rig.broker.replay_dead(&one).unwrap(), 1);
    assert_eq!(rig.broker.replay_dead(&from_q).unwrap(), 4);
    assert_eq!(rig.broker.replay_dead(&from_q).unwrap(), 0);
    assert_eq!(texts(&all(&rig)), ["o"]);
    rig.publish("sync", "x", true).await;

    let rig = rig.crash(Loss::Unsynced);
    let found = rig.drain("q").await;
    let expected = [2, 0, 1, 3, 4].map(|n| format!("message {n}"));
    assert_eq!(bodies(&found), expected);
    assert!(
        found
            .iter()
            .all(|entry| entry.redelivered && entry.tries == 0)
    );
    assert!(found.iter().all(|entry| entry.message.headers.is_empty()));
    assert!(
        all(&rig).is_empty(),
        "what was transient is gone, what was replayed too"
    );
}

#[tokio::test]
async fn purged_letters_do_not_come_again() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..600), true).await;
    kill_all(&rig, "q", 600).await;
    let first = DeadFilter {
        from: None,
        id: Some(all(&rig)[0].id),
        ..Default::default()
    };
    assert_eq!(rig.broker.purge_dead(&first), 1);
    assert_eq!(rig.broker.purge_dead(&first), 0);
    rig.until_needed(599).await;
    rig.publish("sync", "x", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(texts(&all(&rig)), numbered(1..600));
    assert_eq!(rig.broker.dead_letters(&DeadFilter::default(), 0).len(), 0);
    assert_eq!(rig.broker.dead_letters(&DeadFilter::default(), 7).len(), 7);
    assert_eq!(rig.broker.purge_dead(&DeadFilter::default()), 599);
    rig.until_needed(1).await;
    rig.publish("sync", "x", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert!(all(&rig).is_empty());
    assert_eq!(rig.stats("q").waiting, 0);
}

#[tokio::test]
async fn a_full_target_refuses_the_replay_and_loses_nothing() {
    let rig = Rig::with(Settings {
        queues: vec![rule(
            "q",
            QueueSettings {
                messages_max: 3,
                ..QueueSettings::default()
            },
        )],
        ..Settings::default()
    });
    rig.publish_all("q", &numbered(0..3), true).await;
    kill_all(&rig, "q", 3).await;
    rig.publish("q", "new", true).await;
    let refused = rig.broker.replay_dead(&DeadFilter::default());
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(texts(&all(&rig)), ["message 2"]);
    assert_eq!(
        rig.drain_bodies("q").await,
        ["new", "message 0", "message 1"]
    );
}

#[tokio::test]
async fn the_dead_letters_are_bounded_and_the_oldest_go_first() {
    for durable in [false, true] {
        let rig = Rig::with(Settings {
            queues: vec![rule(
                DEAD_LETTERS,
                QueueSettings {
                    messages_max: 10,
                    memory_bytes_max: 1_000,
                    ..QueueSettings::default()
                },
            )],
            ..Settings::default()
        });
        rig.publish_all("q", &numbered(0..30), durable).await;
        kill_all(&rig, "q", 30).await;
        assert_eq!(texts(&all(&rig)), numbered(20..30));
        assert_eq!(rig.broker.counters().dead_dropped.get(), 20);
        assert_eq!(rig.broker.counters().dead.get(), 30);
        let stats = rig.stats(DEAD_LETTERS);
        assert!(stats.memory_bytes <= 1_000, "{stats:?}");
        assert!(stats.on_disk > 0);
        rig.publish("sync", "x", true).await;
        let rig = rig.crash(Loss::Unsynced);
        let expected = if durable {
            numbered(20..30)
        } else {
            numbered(0..0)
        };
        assert_eq!(texts(&all(&rig)), expected);
        assert_eq!(rig.stats("q").waiting, 0);
    }
}

#[tokio::test]
async fn dead_letters_can_be_consumed_like_a_queue() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..4), true).await;
    kill_all(&rig, "q", 4).await;
    let reader = rig.subscribe(DEAD_LETTERS, AckMode::Individual);
    let entries = reader.expect(4).await;
    reader.kill(entries[0].id, "not even here");
    assert_eq!(rig.broker.counters().dead_dropped.get(), 1);
    for entry in &entries[1..] {
        reader.acknowledge(entry.id, false);
    }
    rig.publish("sync", "x", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert!(all(&rig).is_empty());
}

#[tokio::test]
async fn a_rejected_message_of_a_topic_comes_again_and_then_dies() {
    let rig = Rig::new();
    let topic = rig.broker.channel(&to_topic("t")).unwrap();
    let first = Reader::new(&topic, AckMode::Individual, Default::default());
    let second = Reader::new(&topic, AckMode::Individual, Default::default());
    topic.publish(&mut vec![publication("news", false)]);
    for tries in 0..5 {
        let entry = first.expect(1).await.remove(0);
        assert_eq!((entry.tries, entry.redelivered), (tries, tries > 0));
        first.retry(entry.id, "cannot read it");
    }
    assert!(first.take().is_empty());
    assert_eq!(second.take().len(), 1, "the other one is not concerned");
    let dead = all(&rig);
    assert_eq!(dead[0].origin, Some(Destination::Topic(name("t"))));
    assert_eq!(rig.broker.replay_dead(&DeadFilter::default()).unwrap(), 1);
    let again = first.expect(1).await.remove(0);
    assert!(again.message.headers.is_empty());
    assert!(all(&rig).is_empty());
}

#[tokio::test]
async fn long_reasons_and_crowded_headers_still_say_where_it_came_from() {
    let rig = Rig::new();
    let pairs = [("filler", "x".repeat(60_000))];
    let headers = kernel::Headers::from_pairs(pairs.iter().map(|(n, v)| (*n, v.as_str())));
    let message = Message::new("b").with_headers(headers.unwrap());
    let publication = broker::Publication {
        message,
        durable: false,
    };
    rig.broker.publish(&to_queue("q"), publication).unwrap();
    let reader = rig.subscribe("q", AckMode::Individual);
    let entry = reader.expect(1).await.remove(0);
    reader.kill(entry.id, &"ü".repeat(40_000));
    until("it is dead", || !all(&rig).is_empty()).await;
    let dead = all(&rig);
    let headers = &dead[0].message.headers;
    assert_eq!(headers.get(Message::DEAD_QUEUE), Some("q"));
    assert!(headers.get(Message::DEAD_REASON).unwrap().len() <= 1_024);
}

/// A subscriber that crashes over its first message again and again takes nothing with it that it
/// was merely sent ahead.
#[tokio::test]
async fn a_lost_subscriber_is_blamed_on_its_oldest_message_alone() {
    let rig = Rig::queues(QueueSettings {
        tries_max: 3,
        ..QueueSettings::default()
    });
    rig.publish_all("q", &numbered(0..4), true).await;
    for lost in 0..3 {
        let reader = rig.subscribe("q", AckMode::Individual);
        let entries = reader.expect(4).await;
        assert!(entries.iter().all(|e| e.redelivered == (lost > 0)));
    }
    assert_eq!(texts(&all(&rig)), numbered(0..1));
    let left = rig.subscribe("q", AckMode::Individual).expect(3).await;
    assert_eq!(bodies(&left), numbered(1..4));
    assert!(left.iter().all(|e| e.redelivered && e.tries == 0));
}
