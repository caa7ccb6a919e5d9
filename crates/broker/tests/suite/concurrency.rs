//! Many threads at once, with an oracle and a watchdog.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use broker::{
    AckMode, Broker, Commit, Consumed, Credit, DeadFilter, Outbox, QueueSettings, Settings,
    WhenFull,
};
use journal::testing::{Loss, MemoryStorage};
use parking_lot::Mutex;

use crate::rig::{Rig, body, publication, rule, small_journal, to_queue};

/// Runs `work` on threads of its own; a deadlock ends the test instead of hanging it.
fn with_watchdog(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let (sender, receiver) = mpsc::channel();
    let count = threads.len();
    for thread in threads {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(thread));
            let _ = sender.send(done.is_ok());
        });
    }
    for _ in 0..count {
        let done = receiver.recv_timeout(Duration::from_secs(60));
        assert!(done.expect("a deadlock"), "a thread panicked");
    }
}

const PUBLISHERS: usize = 3;
const CONSUMERS: usize = 4;
const EACH: usize = 4_000;

/// What consumers saw: how often each message came unmarked and marked.
#[derive(Default)]
struct Oracle {
    acknowledged: Mutex<HashMap<String, usize>>,
    unmarked_again: AtomicUsize,
    seen: Mutex<HashMap<String, ()>>,
}

fn publisher(broker: Arc<Broker>, number: usize) {
    let channel = broker.channel(&to_queue("q")).unwrap();
    let mut random = fastrand::Rng::with_seed(number as u64);
    let mut next = 0;
    let mut batch = Vec::new();
    while next < EACH || !batch.is_empty() {
        while next < EACH && batch.len() < 20 {
            batch.push(publication(&format!("{number} {next}"), random.bool()));
            next += 1;
        }
        channel.publish(&mut batch);
        if !broker.journal().is_ready() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

fn consumer(broker: Arc<Broker>, oracle: Arc<Oracle>, number: usize, done: Arc<AtomicBool>) {
    let channel = broker.channel(&to_queue("q")).unwrap();
    let mut random = fastrand::Rng::with_seed(100 + number as u64);
    let modes = [AckMode::Auto, AckMode::Client, AckMode::Individual];
    while !done.load(Ordering::Relaxed) {
        let mode = modes[random.usize(..3)];
        let credit = Credit {
            messages: random.u32(1..200),
            unsent_bytes: random.u32(100..20_000),
        };
        let outbox = Arc::new(Outbox::default());
        let subscription = channel.subscribe(1, mode, credit, outbox.clone());
        let mut unsent = Vec::new();
        for _ in 0..random.usize(1..40) {
            let mut deliveries = Vec::new();
            outbox.take(&mut deliveries);
            if deliveries.is_empty() {
                std::thread::sleep(Duration::from_micros(100));
                continue;
            }
            if random.usize(..20) == 0 {
                unsent = deliveries;
                break;
            }
            for delivery in &deliveries {
                let text = body(&delivery.entry);
                let marked = delivery.entry.redelivered;
                let again = oracle.seen.lock().insert(text.clone(), ()).is_some();
                oracle
                    .unmarked_again
                    .fetch_add(usize::from(again && !marked), Ordering::Relaxed);
            }
            subscription.sent(&deliveries);
            let count = |entries: &[broker::Delivery]| {
                let mut acknowledged = oracle.acknowledged.lock();
                for delivery in entries {
                    *acknowledged.entry(body(&delivery.entry)).or_default() += 1;
                }
            };
            match mode {
                AckMode::Auto => count(&deliveries),
                AckMode::Client => {
                    let at = random.usize(..deliveries.len());
                    subscription.acknowledge(deliveries[at].entry.id, true);
                    count(&deliveries[..=at]);
                    if at + 1 < deliveries.len() {
                        // The rest is never answered: it comes again when this one leaves.
                        break;
                    }
                }
                AckMode::Individual => {
                    random.shuffle(&mut deliveries);
                    for delivery in &deliveries {
                        let id = delivery.entry.id;
                        if random.usize(..50) == 0 {
                            let reason = "by chance".to_owned();
                            let retry = broker::Reject::Retry { reason };
                            assert_eq!(subscription.reject(id, false, &retry).messages, 1);
                        } else {
                            assert_eq!(subscription.acknowledge(id, false).messages, 1);
                            count(std::slice::from_ref(delivery));
                        }
                    }
                }
            }
        }
        let maybe_seen = random.bool();
        let unsent = unsent.into_iter().map(|d| d.entry).collect();
        subscription.close(unsent, maybe_seen);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_is_acknowledged_once() {
    let settings = QueueSettings {
        memory_bytes_max: 20_000,
        tries_max: u32::MAX,
        ..QueueSettings::default()
    };
    let rig = Rig::queues(settings);
    let oracle = Arc::new(Oracle::default());
    let done = Arc::new(AtomicBool::new(false));
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for number in 0..PUBLISHERS {
        let broker = rig.broker.clone();
        threads.push(Box::new(move || publisher(broker, number)));
    }
    for number in 0..CONSUMERS {
        let (broker, oracle, done) = (rig.broker.clone(), oracle.clone(), done.clone());
        threads.push(Box::new(move || consumer(broker, oracle, number, done)));
    }
    let (broker, seen) = (rig.broker.clone(), oracle.clone());
    threads.push(Box::new(move || {
        while seen.acknowledged.lock().len() < PUBLISHERS * EACH {
            broker.tidy();
            broker.queues();
            std::thread::sleep(Duration::from_millis(5));
        }
        done.store(true, Ordering::Relaxed);
    }));
    tokio::task::spawn_blocking(move || with_watchdog(threads))
        .await
        .unwrap();

    let acknowledged = oracle.acknowledged.lock().clone();
    assert_eq!(acknowledged.len(), PUBLISHERS * EACH, "all came");
    let doubled = acknowledged.values().filter(|count| **count > 1).count();
    assert_eq!(doubled, 0, "none was acknowledged twice");
    assert_eq!(
        oracle.unmarked_again.load(Ordering::Relaxed),
        0,
        "repeated means marked"
    );
    let stats = rig.stats("q");
    assert_eq!(
        (stats.waiting, stats.unacknowledged, stats.bytes),
        (0, 0, 0)
    );
    assert_eq!(rig.broker.memory_bytes(), 0);
    rig.publish("sync", "x", true).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(
        rig.stats("q").waiting,
        0,
        "acknowledged means gone for good"
    );
}

/// One consumer gets each sender's messages in their order, also while the queue goes to disk and
/// back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_per_sender() {
    let settings = QueueSettings {
        memory_bytes_max: 20_000,
        ..QueueSettings::default()
    };
    let rig = Rig::queues(settings);
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for number in 0..PUBLISHERS {
        let broker = rig.broker.clone();
        threads.push(Box::new(move || publisher(broker, number)));
    }
    let publishing = tokio::task::spawn_blocking(move || with_watchdog(threads));
    let reader = rig.subscribe("q", AckMode::Auto);
    let entries = reader.expect(PUBLISHERS * EACH).await;
    publishing.await.unwrap();
    let mut next = [0; PUBLISHERS];
    for entry in &entries {
        let text = body(entry);
        let (sender, sequence) = text.split_once(' ').unwrap();
        let expected = &mut next[sender.parse::<usize>().unwrap()];
        assert_eq!(sequence.parse::<usize>().unwrap(), *expected);
        *expected += 1;
        assert!(!entry.redelivered);
    }
}

/// Commits across queues in both orders, with rejections, replays and closing in between. Small
/// limits make the oldest go to the dead letters all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_ever() {
    let settings = QueueSettings {
        messages_max: 50,
        memory_bytes_max: 4_000,
        tries_max: 2,
        when_full: WhenFull::OldestToDeadLetters,
        ..QueueSettings::default()
    };
    let settings = Settings {
        queues: vec![rule("*", settings)],
        idle_seconds_max: 0,
        ..Settings::default()
    };
    let rig = Rig::on(MemoryStorage::new(5), settings, small_journal());
    let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for (number, pair) in [["a", "b"], ["b", "a"], ["a", "c"], ["c", "b"]]
        .into_iter()
        .enumerate()
    {
        let broker = rig.broker.clone();
        threads.push(Box::new(move || forward(&broker, pair, number as u64)));
    }
    let broker = rig.broker.clone();
    threads.push(Box::new(move || {
        for round in 0..300 {
            let _ = broker.replay_dead(&DeadFilter::default());
            if round % 20 == 0 {
                broker.purge_dead(&DeadFilter::default());
                broker.queue(&crate::rig::name("c")).unwrap().close();
            }
            broker.tidy();
            std::thread::sleep(Duration::from_millis(1));
        }
    }));
    tokio::task::spawn_blocking(move || with_watchdog(threads))
        .await
        .unwrap();
    for queue in ["a", "b", "c", broker::DEAD_LETTERS] {
        let stats = rig.stats(queue);
        assert!(
            stats.waiting + stats.unacknowledged <= 50,
            "{queue}: {stats:?}"
        );
        rig.drain(queue).await;
        assert_eq!(rig.stats(queue).bytes, 0, "{queue}");
    }
    assert_eq!(rig.broker.memory_bytes(), 0);
}

fn forward(broker: &Arc<Broker>, [from, to]: [&str; 2], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..60 {
        let channel = broker.channel(&to_queue(from)).unwrap();
        let outbox = Arc::new(Outbox::default());
        let credit = Credit {
            messages: 10,
            ..Credit::default()
        };
        let subscription = channel.subscribe(1, AckMode::Individual, credit, outbox.clone());
        for _ in 0..20 {
            let mut batch = vec![publication("x", random.bool())];
            channel.publish(&mut batch);
            let mut deliveries = Vec::new();
            outbox.take(&mut deliveries);
            subscription.sent(&deliveries);
            for delivery in &deliveries {
                let id = delivery.entry.id;
                if random.usize(..4) == 0 {
                    let reason = "by chance".to_owned();
                    subscription.reject(id, false, &broker::Reject::Retry { reason });
                    continue;
                }
                let consumed = vec![Consumed {
                    subscription: &subscription,
                    id,
                    through: false,
                }];
                let text = body(&delivery.entry);
                let sends = vec![
                    (to_queue(to), publication(&text, random.bool())),
                    (to_queue(from), publication(&text, random.bool())),
                    (
                        to_queue(broker::DEAD_LETTERS),
                        publication(&text, random.bool()),
                    ),
                ];
                // May be refused: a queue was closed, or the journal is busy.
                let _ = broker.commit(Commit {
                    consumed,
                    sends,
                    ..Commit::default()
                });
            }
        }
    }
}
