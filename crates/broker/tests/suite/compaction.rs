//! A journal that stays short although something old is still needed.

use broker::{AckMode, Commit, QueueSettings, Settings, StateCommit, StateWrite};
use bytes::Bytes;
use journal::testing::Loss;

use crate::rig::{Rig, bodies, name, numbered, rule, until};

/// Publishes and consumes enough to fill many segments.
async fn churn(rig: &Rig, rounds: usize) {
    for _ in 0..rounds {
        let bodies = vec!["x".repeat(300); 150];
        rig.publish_all("busy", &bodies, true).await;
        assert_eq!(rig.drain("busy").await.len(), 150);
    }
}

fn segments(rig: &Rig) -> usize {
    rig.broker.journal().segments().len()
}

#[tokio::test]
async fn old_messages_do_not_keep_the_whole_journal() {
    let small = QueueSettings {
        memory_bytes_max: 500,
        ..QueueSettings::default()
    };
    let rig = Rig::with(Settings {
        queues: vec![rule("spilled", small)],
        ..Settings::default()
    });
    rig.publish_all("waiting", &numbered(0..3), true).await;
    rig.publish_all("spilled", &numbered(0..10), true).await;
    rig.publish_all("unacknowledged", &numbered(0..3), true)
        .await;
    let reader = rig.subscribe("unacknowledged", AckMode::Individual);
    let entries = reader.expect(3).await;
    reader.retry(entries[1].id, "not yet");
    let again = reader.expect(1).await.remove(0);
    churn(&rig, 12).await;
    let before = segments(&rig);
    assert!(
        before > 8,
        "the control: they do keep it, {before} segments"
    );

    until("the journal is short", || {
        rig.broker.tidy();
        segments(&rig) <= 5
    })
    .await;
    // Moved ones can still be acknowledged.
    let stored = reader.acknowledge(entries[0].id, false).stored;
    rig.wait(stored.unwrap()).await;
    assert_eq!(again.tries, 1);
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(
        rig.stats("busy").waiting,
        0,
        "nothing came back from the dead"
    );
    assert_eq!(rig.drain_bodies("waiting").await, numbered(0..3));
    assert_eq!(rig.drain_bodies("spilled").await, numbered(0..10));
    let left = rig.drain("unacknowledged").await;
    assert_eq!(bodies(&left), numbered(1..3));
    assert_eq!(left[0].tries, 1, "the number of tries moved along");
    drop(reader);
}

/// The same without a restart: what moved is served from its new place and leaves nothing behind.
#[tokio::test]
async fn what_moved_is_served_from_its_new_place() {
    let rig = Rig::queues(QueueSettings {
        memory_bytes_max: 2_000,
        ..QueueSettings::default()
    });
    for durable in [true, false] {
        rig.publish_all("spilled", &numbered(0..50), durable).await;
        let reader = rig.subscribe("spilled", AckMode::Client);
        let held = reader.take();
        churn(&rig, 12).await;
        until("the journal is short", || {
            rig.broker.tidy();
            segments(&rig) <= 5
        })
        .await;
        let last = held.last().expect("some came").id;
        assert_eq!(reader.acknowledge(last, true).messages, held.len());
        drop(reader);
        let left = rig.drain_bodies("spilled").await;
        assert_eq!(left, numbered(held.len()..50));
        assert_eq!(rig.broker.counters().unreadable.get(), 0);
        rig.until_needed(0).await;
    }
}

#[tokio::test]
async fn state_and_epochs_move_too() {
    let rig = Rig::new();
    let (epoch, _) = rig.broker.raise_epoch(&name("b")).unwrap();
    let write = |key: usize, value: &str| StateWrite::Set {
        key: Bytes::from(key.to_string()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    let commit = |writes| {
        let bucket = name("b");
        let state = Some(StateCommit {
            bucket,
            epoch,
            writes,
        });
        let commit = Commit {
            state,
            ..Commit::default()
        };
        rig.broker.commit(commit).unwrap()
    };
    commit((0..50).map(|key| write(key, "old")).collect());
    commit((0..10).map(|key| write(key, "new")).collect());
    let gone = (40..50).map(|key| StateWrite::Remove {
        key: Bytes::from(key.to_string()),
    });
    commit(gone.collect());
    churn(&rig, 12).await;
    until("the journal is short", || {
        rig.broker.tidy();
        segments(&rig) <= 5
    })
    .await;
    rig.publish("sync", "x", true).await;

    let rig = rig.crash(Loss::Unsynced);
    let pairs = rig.broker.scan_state(&name("b"), None, 100).unwrap();
    assert_eq!(pairs.len(), 40);
    assert_eq!(pairs.iter().filter(|(_, value)| value == "new").count(), 10);
    let (next, _) = rig.broker.raise_epoch(&name("b")).unwrap();
    assert_eq!(next, epoch + 1);
}

#[tokio::test]
async fn what_was_replayed_or_moved_is_not_there_twice_at_any_restart() {
    let mut rig = Rig::new();
    rig.publish_all("waiting", &numbered(0..3), true).await;
    for round in 0..5 {
        churn(&rig, 4).await;
        rig.broker.tidy();
        let loss = [Loss::Nothing, Loss::Unsynced, Loss::Torn][round % 3];
        rig = rig.crash(loss);
        assert_eq!(rig.stats("waiting").waiting, 3);
        assert_eq!(rig.stats("busy").waiting, 0);
    }
    assert_eq!(rig.drain_bodies("waiting").await, numbered(0..3));
}

/// More acknowledgements than fit into one record.
#[tokio::test]
async fn a_very_long_queue_can_be_purged() {
    let rig = Rig::on(
        journal::testing::MemoryStorage::new(1),
        Settings::default(),
        journal::Options {
            segment_bytes: 4 << 20,
            record_bytes_max: 24 << 10,
            ..journal::Options::default()
        },
    );
    let channel = rig.channel("q");
    let total = 100_000;
    for _ in 0..total / 500 {
        let mut batch = vec![crate::rig::publication("x", true); 500];
        while !batch.is_empty() {
            rig.broker.ready().await;
            channel.publish(&mut batch);
        }
    }
    assert_eq!(rig.broker.find_queue("q").unwrap().purge(), total);
    rig.publish("sync", "x", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.stats("q").waiting, 0);
    until("the journal is short", || segments(&rig) <= 2).await;
}
