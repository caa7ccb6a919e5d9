//! What survives loss of power, and what does not.

use broker::{AckMode, Durability, QueueSettings, Settings};
use journal::testing::{Loss, MemoryStorage};
use journal::{Options, Sync};
use kernel::{Headers, Message};

use crate::rig::{Rig, bodies, numbered, publication, small_journal, to_queue};

#[tokio::test]
async fn durable_messages_survive_and_transient_ones_do_not() {
    let rig = Rig::new();
    rig.publish_all("durable", &numbered(0..100), true).await;
    rig.publish_all("transient", &numbered(0..100), false).await;

    let rig = rig.crash(Loss::Unsynced);
    let found = rig.drain("durable").await;
    assert_eq!(bodies(&found), numbered(0..100));
    assert!(found.iter().all(|entry| entry.redelivered && entry.durable));
    assert_eq!(rig.drain_bodies("transient").await, numbered(0..0));
}

/// The control of everything here: without syncs the same steps lose messages.
#[tokio::test]
async fn without_syncs_messages_are_lost() {
    let options = Options {
        sync: Sync::Off,
        ..small_journal()
    };
    let rig = Rig::on(MemoryStorage::new(1), Settings::default(), options);
    rig.publish_all("durable", &numbered(0..100), true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert!(rig.drain("durable").await.len() < 100);
}

#[tokio::test]
async fn headers_and_time_survive() {
    let rig = Rig::new();
    let headers = Headers::from_pairs([("colour", "blue")]).unwrap();
    let message = Message::new("body")
        .with_headers(headers.clone())
        .published_at(kernel::Timestamp::from_micros(42));
    let publication = broker::Publication {
        message,
        durable: true,
    };
    let stored = rig.broker.publish(&to_queue("q"), publication).unwrap();
    rig.wait(stored.expect("it is durable")).await;

    let rig = rig.crash(Loss::Unsynced);
    let found = rig.drain("q").await;
    assert_eq!(found[0].message.headers, headers);
    assert_eq!(found[0].message.published_at.as_micros(), 42);
}

#[tokio::test]
async fn acknowledgements_survive_and_what_was_not_acknowledged_comes_again() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..10), true).await;
    let reader = rig.subscribe("q", AckMode::Individual);
    let entries = reader.expect(10).await;
    assert!(entries.iter().all(|entry| !entry.redelivered));
    let mut stored = None;
    for entry in entries.iter().filter(|entry| entry.id % 2 == 0) {
        stored = stored.max(reader.acknowledge(entry.id, false).stored);
    }
    rig.wait(stored.expect("it is written")).await;
    let unacknowledged = entries.iter().filter(|entry| entry.id % 2 == 1);
    let expected: Vec<String> = unacknowledged.map(crate::rig::body).collect();

    let rig = rig.crash(Loss::Unsynced);
    let found = rig.drain("q").await;
    assert_eq!(bodies(&found), expected);
    assert!(found.iter().all(|entry| entry.redelivered));
    drop(reader);
}

#[tokio::test]
async fn automatic_acknowledgements_survive() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..10), true).await;
    let reader = rig.subscribe("q", AckMode::Auto);
    reader.expect(10).await;
    // Whatever comes later in the journal is synced with or after the acknowledgements.
    rig.publish("q", "later", true).await;
    let written = reader.take_unwritten();
    assert_eq!(written.len(), 1);

    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.drain_bodies("q").await, ["later"]);
}

#[tokio::test]
async fn the_number_of_tries_survives() {
    let rig = Rig::new();
    rig.publish("q", "hard", true).await;
    let reader = rig.subscribe("q", AckMode::Individual);
    for tries in 0..3 {
        let entry = reader.expect(1).await.remove(0);
        assert_eq!((entry.tries, entry.redelivered), (tries, tries > 0));
        reader.retry(entry.id, "not now");
    }
    rig.publish("other", "later", true).await;

    let rig = rig.crash(Loss::Unsynced);
    let found = rig.drain("q").await;
    assert_eq!((found[0].tries, found[0].redelivered), (3, true));
}

#[tokio::test]
async fn the_settings_of_a_queue_decide_over_the_sender() {
    let rules = vec![
        crate::rig::rule(
            "always",
            QueueSettings {
                durability: Durability::Durable,
                ..QueueSettings::default()
            },
        ),
        crate::rig::rule(
            "never",
            QueueSettings {
                durability: Durability::Transient,
                ..QueueSettings::default()
            },
        ),
    ];
    let rig = Rig::with(Settings {
        queues: rules,
        ..Settings::default()
    });
    rig.publish("always", "kept", false).await;
    rig.publish("never", "lost", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.drain_bodies("always").await, ["kept"]);
    assert!(rig.drain("never").await.is_empty());
}

#[tokio::test]
async fn order_and_ids_go_on_after_a_restart() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..5), true).await;
    let rig = rig.crash(Loss::Unsynced);
    rig.publish_all("q", &numbered(5..10), true).await;
    let rig = rig.crash(Loss::Nothing);
    rig.publish_all("q", &numbered(10..15), false).await;
    let found = rig.drain("q").await;
    assert_eq!(bodies(&found), numbered(0..15));
    assert!(found.is_sorted_by(|a, b| a.id < b.id));
}

#[tokio::test]
async fn a_subscriber_that_leaves_gives_back_what_it_has() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..6), false).await;
    for mode in [AckMode::Auto, AckMode::Client, AckMode::Individual] {
        // Some were written, some taken from the outbox, some are still there.
        let credit = broker::Credit {
            messages: 2,
            ..broker::Credit::default()
        };
        let reader = crate::rig::Reader::new(&rig.channel("q"), mode, credit);
        let taken = reader.take_unwritten();
        let unsent = taken.into_iter().map(|d| d.entry).collect();
        reader.subscription.close(unsent, true);
        let stats = rig.stats("q");
        assert_eq!((stats.waiting, stats.unacknowledged), (6, 0));
    }
    let found = rig.drain("q").await;
    assert_eq!(bodies(&found), numbered(0..6));
    let marked = found.iter().filter(|entry| entry.redelivered).count();
    assert_eq!(marked, 2, "those that may have arrived");
    assert_eq!(rig.broker.memory_bytes(), 0);
    assert_eq!(rig.stats("q").bytes, 0);
}

#[tokio::test]
async fn a_broker_that_is_dropped_lets_go_of_its_journal() {
    let storage = std::sync::Arc::new(MemoryStorage::new(1));
    let clock = std::sync::Arc::new(broker::SystemClock);
    let started =
        broker::Broker::start(storage.clone(), small_journal(), Settings::default(), clock);
    let (broker, _) = started.unwrap();
    let stored = broker.publish(&to_queue("q"), publication("x", true));
    broker
        .journal()
        .wait(stored.unwrap().unwrap())
        .await
        .unwrap();
    drop(broker);
    let held = || std::sync::Arc::strong_count(&storage);
    crate::rig::until("the storage is free", || held() == 1).await;
}
