//! Queues that are longer than memory, and limits.

use broker::{AckMode, Credit, PublishError, QueueSettings, Settings, WhenFull};
use journal::testing::Loss;

use crate::rig::{Reader, Rig, bodies, name, numbered, publication, rule, until};

const MEMORY_BYTES_MAX: usize = 8 << 10;

fn small_memory() -> QueueSettings {
    QueueSettings {
        memory_bytes_max: MEMORY_BYTES_MAX,
        ..QueueSettings::default()
    }
}

#[tokio::test]
async fn a_long_queue_waits_on_disk_in_order() {
    let rig = Rig::queues(small_memory());
    rig.publish_all("q", &numbered(0..3_000), false).await;
    let stats = rig.stats("q");
    assert_eq!(stats.waiting, 3_000);
    assert!(stats.on_disk > 2_800, "{stats:?}");
    assert!(stats.memory_bytes <= MEMORY_BYTES_MAX);
    assert!(rig.broker.journal().segments().len() >= 3);

    let reader = Reader::new(
        &rig.channel("q"),
        AckMode::Client,
        Credit {
            messages: 50,
            ..Credit::default()
        },
    );
    let mut found = Vec::new();
    let mut memory_bytes = 0;
    until("all came", || {
        memory_bytes = memory_bytes.max(rig.stats("q").memory_bytes);
        let entries = reader.take();
        if let Some(last) = entries.last() {
            reader.acknowledge(last.id, true);
        }
        found.extend(entries);
        found.len() == 3_000
    })
    .await;
    assert_eq!(bodies(&found), numbered(0..3_000));
    assert!(memory_bytes <= MEMORY_BYTES_MAX, "{memory_bytes}");
    assert_eq!(rig.broker.memory_bytes(), 0);
    assert_eq!(rig.stats("q").bytes, 0);
    let segments = || rig.broker.journal().segments().len();
    until("the journal is short again", || segments() <= 2).await;
}

#[tokio::test]
async fn what_only_moved_out_of_memory_does_not_survive() {
    let rig = Rig::queues(small_memory());
    rig.publish_all("q", &numbered(0..500), false).await;
    rig.publish_all("q", &numbered(500..600), true).await;
    let rig = rig.crash(Loss::Nothing);
    assert_eq!(rig.drain_bodies("q").await, numbered(500..600));
}

#[tokio::test]
async fn nothing_is_read_back_without_a_subscriber() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..500), true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.broker.memory_bytes(), 0);
    assert_eq!(rig.stats("q").on_disk, 500);
    let queue = rig.broker.find_queue("q").unwrap();
    let page = queue.peek(0, 10);
    assert_eq!(bodies(&page), numbered(0..10));
    assert_eq!(bodies(&queue.peek(page[9].id, 10)), numbered(10..20));
    assert_eq!(rig.broker.memory_bytes(), 0);
}

#[tokio::test]
async fn all_queues_together_have_a_memory_limit() {
    let rig = Rig::with(Settings {
        memory_bytes_max: 20 << 10,
        ..Settings::default()
    });
    for queue in ["a", "b", "c"] {
        rig.publish_all(queue, &numbered(0..300), false).await;
        assert!(rig.broker.memory_bytes() <= 20 << 10);
    }
    assert_eq!(rig.stats("c").on_disk, 300);
    for queue in ["c", "b", "a"] {
        assert_eq!(rig.drain_bodies(queue).await, numbered(0..300));
    }
    assert_eq!(rig.broker.memory_bytes(), 0);
}

#[tokio::test]
async fn a_subscriber_that_never_acknowledges_holds_a_bounded_part() {
    let rig = Rig::queues(small_memory());
    rig.publish_all("q", &numbered(0..1_000), false).await;
    let credit = Credit {
        messages: u32::MAX,
        unsent_bytes: u32::MAX,
    };
    let reader = Reader::new(&rig.channel("q"), AckMode::Client, credit);
    let mut entries = Vec::new();
    until("it is full", || {
        entries.extend(reader.take());
        rig.stats("q").memory_bytes > 0
    })
    .await;
    let held_bytes: usize = entries.iter().map(|e| e.message.len_bytes() + 112).sum();
    assert!(held_bytes <= MEMORY_BYTES_MAX + 200, "{held_bytes}");
    // The rest comes when it answers.
    let last = entries.last().unwrap().id;
    assert_eq!(reader.acknowledge(last, true).messages, entries.len());
    until("more came", || !reader.take().is_empty()).await;
}

#[tokio::test]
async fn purging_takes_what_is_being_read_too() {
    let rig = Rig::queues(small_memory());
    for round in 0..50 {
        rig.publish_all("q", &numbered(0..300), round % 2 == 0)
            .await;
        let reader = rig.subscribe("q", AckMode::Client);
        // Somewhere in the middle of reading.
        until("some came", || !reader.take_unwritten().is_empty()).await;
        let before = rig.stats("q");
        let purged = rig.broker.find_queue("q").unwrap().purge();
        assert!(purged <= before.waiting);
        assert_eq!(rig.stats("q").waiting, 0);
        rig.publish("q", "after", false).await;
        drop(reader);
        let found = rig.drain_bodies("q").await;
        assert_eq!(found.last().map(String::as_str), Some("after"));
        let stats = rig.stats("q");
        assert_eq!((stats.bytes, stats.memory_bytes), (0, 0));
    }
    assert_eq!(rig.broker.memory_bytes(), 0);
    // Nothing keeps an old segment, and nothing purged comes again.
    rig.publish("other", "x", true).await;
    rig.until_needed(1).await;
    rig.publish("other", "x", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.stats("q").waiting, 0);
}

#[tokio::test]
async fn a_full_queue_refuses_and_the_rest_stays_with_the_sender() {
    let rig = Rig::queues(QueueSettings {
        messages_max: 3,
        ..QueueSettings::default()
    });
    let channel = rig.channel("q");
    for durable in [false, true] {
        let mut batch: Vec<_> = (0..5)
            .map(|n| publication(&n.to_string(), durable))
            .collect();
        let published = channel.publish(&mut batch);
        assert_eq!(published.accepted, 3);
        assert_eq!(published.stored.is_some(), durable);
        assert_eq!(&batch[0].message.body[..], b"3");
        assert_eq!(batch.len(), 2);
        let Some(PublishError::Full { queue, limit }) = published.refused else {
            panic!("{published:?}");
        };
        assert_eq!((queue, limit.as_str()), (name("q"), "at most 3 messages"));
        assert_eq!(rig.drain_bodies("q").await, ["0", "1", "2"]);
    }
    assert_eq!(rig.stats("q").totals.refused, 2);
}

#[tokio::test]
async fn the_limit_of_bytes_counts_what_is_unacknowledged() {
    let rig = Rig::queues(QueueSettings {
        bytes_max: 1_000,
        ..QueueSettings::default()
    });
    let channel = rig.channel("q");
    let large = "x".repeat(600);
    assert_eq!(
        channel
            .publish(&mut vec![publication(&large, false)])
            .accepted,
        1
    );
    let reader = rig.subscribe("q", AckMode::Individual);
    let entry = reader.expect(1).await.remove(0);
    let refused = channel
        .publish(&mut vec![publication(&large, false)])
        .refused;
    assert!(
        matches!(refused, Some(PublishError::Full { .. })),
        "{refused:?}"
    );
    reader.acknowledge(entry.id, false);
    assert_eq!(
        channel
            .publish(&mut vec![publication(&large, false)])
            .accepted,
        1
    );
}

#[tokio::test]
async fn the_oldest_goes_to_the_dead_letters_where_that_is_wanted() {
    let settings = QueueSettings {
        messages_max: 10,
        bytes_max: 5_000,
        memory_bytes_max: 600,
        when_full: WhenFull::OldestToDeadLetters,
        ..QueueSettings::default()
    };
    let rig = Rig::with(Settings {
        queues: vec![rule("q", settings)],
        ..Settings::default()
    });
    rig.publish_all("q", &numbered(0..15), false).await;
    rig.publish_all("q", &numbered(15..25), true).await;
    // It would never fit, so nothing is thrown out for it.
    let huge = publication(&"x".repeat(6_000), false);
    assert!(rig.channel("q").publish(&mut vec![huge]).refused.is_some());

    let dead = rig.broker.dead_letters(&Default::default(), 100);
    let dead_bodies: Vec<_> = dead.iter().map(|d| d.message.body.clone()).collect();
    assert_eq!(dead_bodies, numbered(0..15));
    let reason = dead[0].message.headers.get("dead-reason").unwrap();
    assert!(reason.contains("full"), "{reason}");
    assert_eq!(rig.drain_bodies("q").await, numbered(15..25));
}

#[test]
fn a_rule_with_an_unknown_field_is_refused() {
    let settings = r#"{"queues": [{"name": "q", "tries_max": 3, "durability": "durable"}]}"#;
    let settings: Settings = serde_json::from_str(settings).unwrap();
    assert_eq!(settings.for_queue("q").tries_max, 3);
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    let typo = r#"{"queues": [{"name": "q", "trys_max": 3}]}"#;
    assert!(serde_json::from_str::<Settings>(typo).is_err());
}
