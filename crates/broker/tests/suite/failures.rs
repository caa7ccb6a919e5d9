//! A disk that fails or is full.

use broker::{AckMode, AppendError, Commit, PublishError, QueueSettings, Settings};
use journal::testing::{Loss, MemoryStorage};

use crate::rig::{
    GatedStorage, Reader, Rig, bodies, name, numbered, publication, rule, small_journal, to_queue,
    to_topic, until, until_prepared,
};

#[tokio::test]
async fn after_a_failed_sync_durable_is_refused_and_transient_goes_on() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..5), true).await;
    rig.publish_all("t", &numbered(0..5), false).await;
    let reader = rig.subscribe("q", AckMode::Individual);
    let entries = reader.expect(5).await;
    rig.fail_next_sync().await;
    let doomed = rig
        .broker
        .publish(&to_queue("q"), publication("doomed", true));
    let position = doomed.unwrap().unwrap();
    assert!(rig.broker.journal().wait(position).await.is_err());

    let refused = rig.broker.publish(&to_queue("q"), publication("no", true));
    assert!(
        matches!(refused, Err(PublishError::Journal(AppendError::Failed(_)))),
        "{refused:?}"
    );
    // In a mixed batch the transient ones before the first durable one are taken.
    let mut batch = vec![
        publication("yes", false),
        publication("no", true),
        publication("left", false),
    ];
    let published = rig.channel("t").publish(&mut batch);
    assert_eq!((published.accepted, batch.len()), (1, 2));
    assert!(published.refused.is_some());
    let mut expected = numbered(0..5);
    expected.push("yes".into());
    assert_eq!(rig.drain_bodies("t").await, expected);

    // Answers do not harm, and are simply not permanent.
    assert_eq!(reader.acknowledge(entries[0].id, false).messages, 1);
    reader.retry(entries[1].id, "again");
    reader.kill(entries[2].id, "dead");
    assert_eq!(rig.broker.dead_letters(&Default::default(), 9).len(), 1);
    rig.broker.find_queue("q").unwrap().purge();
    rig.broker.tidy();
    let commit = Commit {
        sends: vec![(to_queue("q"), publication("x", true))],
        ..Commit::default()
    };
    assert!(rig.broker.commit(commit).is_err());
    drop(reader);

    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.drain_bodies("q").await, numbered(0..5));
}

#[tokio::test]
async fn what_a_lost_commit_sent_never_leaves_and_holds_up_nobody() {
    let rig = Rig::new();
    let queue = rig.subscribe("q", AckMode::Auto);
    let topic = rig.broker.channel(&to_topic("t")).unwrap();
    let topic_reader = Reader::new(&topic, AckMode::Auto, Default::default());
    rig.fail_next_sync().await;
    let commit = |text: &str, durable| Commit {
        sends: vec![
            (to_queue("q"), publication(text, durable)),
            (to_topic("t"), publication(text, false)),
        ],
        ..Commit::default()
    };
    let position = rig.broker.commit(commit("never", true)).unwrap().unwrap();
    assert!(rig.broker.journal().wait(position).await.is_err());
    rig.broker
        .publish(&to_queue("q"), publication("later", false))
        .unwrap();
    rig.broker.commit(commit("in memory", false)).unwrap();
    assert_eq!(bodies(&queue.expect(2).await), ["later", "in memory"]);
    assert_eq!(bodies(&topic_reader.expect(1).await), ["in memory"]);
    assert_eq!(rig.broker.counters().uncommitted.get(), 2);
    assert_eq!((rig.stats("q").bytes, rig.broker.memory_bytes()), (0, 0));
}

#[tokio::test]
async fn a_full_disk_refuses_and_goes_on_by_itself() {
    let rig = Rig::new();
    rig.publish("q", "first", true).await;
    rig.storage.set_capacity_bytes(Some(300 << 10));
    let channel = rig.channel("q");
    let text = "x".repeat(1_000);
    let mut accepted = 0;
    let refused = loop {
        rig.broker.ready().await;
        let published = channel.publish(&mut vec![publication(&text, true)]);
        accepted += published.accepted;
        match published.refused {
            None | Some(PublishError::Journal(AppendError::NotReady)) => {}
            Some(refused) => break refused,
        }
        assert!(accepted < 1_000, "the disk never fills");
    };
    assert!(
        matches!(refused, PublishError::Journal(AppendError::DiskFull { .. })),
        "{refused}"
    );
    rig.publish("transient", "goes on", false).await;
    assert_eq!(rig.drain_bodies("transient").await, ["goes on"]);

    // Consuming frees the space. Acknowledgements are taken from the reserve.
    assert_eq!(rig.drain("q").await.len(), accepted + 1);
    until("it goes on", || rig.broker.journal().is_ready()).await;
    rig.publish_all("q", &numbered(0..100), true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.drain_bodies("q").await, numbered(0..100));
}

const MESSAGES: usize = 100;

/// Publishes and then fills the journal, whose next segment is held back, to the last byte. Epochs
/// are raised without asking whether the journal is ready, so they do that.
async fn publish_and_fill(broker: &broker::Broker, queue: &broker::Channel) {
    let mut batch = vec![publication("x", true); MESSAGES];
    assert_eq!(queue.publish(&mut batch).accepted, MESSAGES);
    until("the journal is full", || {
        let full = (0..1_000).find_map(|_| broker.raise_epoch(&name("b")).err());
        full.is_some() && broker.journal().segments().len() == 2
    })
    .await;
}

/// How many records are needed; the epoch is one of them.
fn keepers(broker: &broker::Broker) -> u64 {
    broker.journal().segments().iter().map(|s| s.keepers).sum()
}

async fn sync(broker: &broker::Broker) {
    broker.ready().await;
    let last = broker.publish(&to_queue("other"), publication("x", true));
    broker.journal().wait(last.unwrap().unwrap()).await.unwrap();
}

#[tokio::test]
async fn acknowledgements_that_the_journal_cannot_take_now_are_written_later() {
    let memory = MemoryStorage::new(3);
    let storage = GatedStorage::new(memory.clone());
    let broker = storage.start(Settings::default());
    let queue = broker.channel(&to_queue("q")).unwrap();
    until_prepared(&broker, &storage).await;
    storage.creations.close();
    publish_and_fill(&broker, &queue).await;
    let reader = Reader::new(&queue, AckMode::Individual, Default::default());
    let mut unwritten = 0;
    for entry in reader.expect(MESSAGES).await {
        unwritten += usize::from(reader.acknowledge(entry.id, false).stored.is_none());
    }
    assert!(unwritten > 0, "all were written: the test shows nothing");
    storage.creations.open();
    until("all are written", || {
        broker.tidy();
        keepers(&broker) == 1
    })
    .await;
    sync(&broker).await;
    drop((broker, queue, reader));
    let restarted = memory.restart(Loss::Unsynced);
    let rig = Rig::on(restarted, Settings::default(), small_journal());
    assert_eq!(rig.stats("q").waiting, 0);
}

#[tokio::test]
async fn dead_letters_that_the_journal_cannot_take_now_are_stored_later() {
    let memory = MemoryStorage::new(4);
    let storage = GatedStorage::new(memory.clone());
    let broker = storage.start(Settings::default());
    let queue = broker.channel(&to_queue("q")).unwrap();
    until_prepared(&broker, &storage).await;
    storage.creations.close();
    publish_and_fill(&broker, &queue).await;
    let reader = Reader::new(&queue, AckMode::Individual, Default::default());
    let entries = reader.expect(MESSAGES).await;
    for entry in &entries {
        reader.kill(entry.id, "no good");
    }
    // One is purged, and one is in somebody's hands, before the journal takes anything.
    let letters = broker.dead_letters(&Default::default(), 10_000);
    let first = broker::DeadFilter {
        from: None,
        id: Some(letters[0].id),
        ..Default::default()
    };
    assert_eq!(broker.purge_dead(&first), 1);
    let credit = broker::Credit {
        messages: 1,
        ..broker::Credit::default()
    };
    let dead = broker.channel(&to_queue(broker::DEAD_LETTERS)).unwrap();
    let dead_reader = Reader::new(&dead, AckMode::Individual, credit);
    assert_eq!(dead_reader.take().len(), 1);
    storage.creations.open();
    until("all are stored", || {
        broker.tidy();
        let queue = broker.find_queue(broker::DEAD_LETTERS).unwrap();
        let waiting = queue.peek(0, MESSAGES);
        keepers(&broker) == MESSAGES as u64 && waiting.iter().all(|entry| entry.durable)
    })
    .await;
    sync(&broker).await;
    drop((broker, queue, reader, dead, dead_reader));
    let restarted = memory.restart(Loss::Unsynced);
    let rig = Rig::on(restarted, Settings::default(), small_journal());
    assert_eq!(rig.stats("q").waiting, 0, "each is in one place only");
    assert_eq!(rig.drain(broker::DEAD_LETTERS).await.len(), MESSAGES - 1);
}

#[tokio::test]
async fn without_a_journal_dead_letters_stay_in_bounded_memory() {
    let settings = QueueSettings {
        memory_bytes_max: 2_000,
        ..QueueSettings::default()
    };
    let rig = Rig::with(Settings {
        queues: vec![rule(broker::DEAD_LETTERS, settings)],
        ..Settings::default()
    });
    rig.publish_all("q", &numbered(0..100), true).await;
    let reader = rig.subscribe("q", AckMode::Individual);
    let entries = reader.expect(100).await;
    for entry in &entries[..30] {
        reader.kill(entry.id, "no good");
    }
    let on_disk = rig.stats(broker::DEAD_LETTERS).on_disk;
    assert!(on_disk > 0);
    rig.publish("sync", "x", true).await;
    rig.fail_next_sync().await;
    let doomed = rig
        .broker
        .publish(&to_queue("q"), publication("doomed", true));
    assert!(
        rig.broker
            .journal()
            .wait(doomed.unwrap().unwrap())
            .await
            .is_err()
    );
    for entry in &entries[30..] {
        reader.kill(entry.id, "no good");
    }
    let stats = rig.stats(broker::DEAD_LETTERS);
    assert!(stats.memory_bytes <= 2_000, "{stats:?}");
    // Each is listed once, in order, though some came to memory before older ones on disk.
    let dead = rig.broker.dead_letters(&Default::default(), 1_000);
    assert_eq!(dead.len(), stats.waiting);
    assert!(dead.is_sorted_by(|a, b| a.id < b.id));
    let dropped = rig.broker.counters().dead_dropped.get() as usize;
    assert_eq!(dropped + dead.len(), 100);
    drop(reader);
    assert_eq!(rig.drain(broker::DEAD_LETTERS).await.len(), dead.len());
}

#[tokio::test]
async fn what_moved_out_of_memory_is_still_served_after_a_failed_sync() {
    let settings = QueueSettings {
        memory_bytes_max: 2_000,
        ..QueueSettings::default()
    };
    let rig = Rig::queues(settings);
    rig.publish_all("q", &numbered(0..20), false).await;
    let synced = rig
        .broker
        .publish(&to_queue("other"), publication("x", true));
    rig.wait(synced.unwrap().unwrap()).await;
    rig.fail_next_sync().await;
    let mut batch: Vec<_> = numbered(20..30)
        .iter()
        .map(|t| publication(t, false))
        .collect();
    assert_eq!(rig.channel("q").publish(&mut batch).accepted, 10);
    until("it failed", || rig.broker.journal().durable().failed).await;
    assert_eq!(rig.drain_bodies("q").await, numbered(0..30));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_counted_and_the_others_go_on() {
    let rig = Rig::new();
    rig.publish_all("q", &numbered(0..50), true).await;
    let rig = rig.crash(Loss::Unsynced);
    // Damage behind the broker's back: the text of one message.
    let file = "00000001.journal";
    let contents = rig.storage.contents(file).unwrap();
    let needle = b"message 17";
    let at = contents
        .windows(needle.len())
        .position(|w| w == needle)
        .unwrap();
    rig.storage.flip_bit(file, at * 8);
    let found = rig.drain_bodies("q").await;
    let mut expected = numbered(0..50);
    expected.remove(17);
    assert_eq!(found, expected);
    assert_eq!(rig.broker.counters().unreadable.get(), 1);
    assert_eq!(rig.stats("q").bytes, 0);
}
