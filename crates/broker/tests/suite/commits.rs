//! Several changes as one step.

use std::sync::Arc;

use broker::{
    AckMode, Commit, CommitError, Consumed, DeadFilter, PublishError, QueueSettings, Settings,
    StateCommit, StateWrite, WhenFull,
};
use bytes::Bytes;
use journal::testing::{Fault, Loss, MemoryStorage, Operation};

use crate::rig::{
    GatedStorage, Reader, Rig, bodies, name, numbered, publication, rule, small_journal, to_queue,
    to_topic,
};

fn set(key: &str, value: &str) -> StateWrite {
    StateWrite::Set {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

fn remove(key: &str) -> StateWrite {
    StateWrite::Remove {
        key: Bytes::copy_from_slice(key.as_bytes()),
    }
}

fn state(bucket: &str, epoch: u64, writes: Vec<StateWrite>) -> Option<StateCommit> {
    Some(StateCommit {
        bucket: name(bucket),
        epoch,
        writes,
    })
}

const TURNS: usize = 6;

/// Each turn counts in the state, consumes an input and sends an output. Ends when the disk
/// crashes; says how many turns were confirmed.
async fn run_turns(rig: &Rig, in_one_step: bool) -> usize {
    let Ok((epoch, _)) = rig.broker.raise_epoch(&name("b")) else {
        return 0;
    };
    let reader = rig.subscribe("in", AckMode::Individual);
    let mut confirmed = 0;
    let inputs = reader.expect(TURNS).await;
    for (turn, input) in inputs.iter().enumerate() {
        let number = turn + 1;
        let state = state("b", epoch, vec![set("count", &number.to_string())]);
        let output = (
            to_queue("out"),
            publication(&format!("output {number}"), true),
        );
        let done = if in_one_step {
            let consumed = Consumed {
                subscription: &reader.subscription,
                id: input.id,
                through: false,
            };
            rig.broker.commit(Commit {
                state,
                consumed: vec![consumed],
                sends: vec![output],
            })
        } else {
            // The control: the same in three steps, each synced before the next.
            let steps = [
                Commit {
                    state,
                    ..Commit::default()
                },
                Commit {
                    sends: vec![output],
                    ..Commit::default()
                },
            ];
            for step in steps {
                let Ok(Some(position)) = rig.broker.commit(step) else {
                    return confirmed;
                };
                if rig.broker.journal().wait(position).await.is_err() {
                    return confirmed;
                }
            }
            Ok(reader.acknowledge(input.id, false).stored)
        };
        let Ok(Some(position)) = done else {
            return confirmed;
        };
        if rig.broker.journal().wait(position).await.is_err() {
            return confirmed;
        }
        confirmed = number;
    }
    confirmed
}

/// How many turns state, output and input each say were done.
async fn turns_done(rig: &Rig) -> [usize; 3] {
    let count = rig.broker.state(&name("b"), b"count").unwrap();
    let count = count.map_or(0, |text| {
        std::str::from_utf8(&text).unwrap().parse().unwrap()
    });
    let outputs = rig.drain_bodies("out").await;
    let expected: Vec<_> = (1..=outputs.len()).map(|n| format!("output {n}")).collect();
    assert_eq!(outputs, expected);
    let inputs = rig.drain_bodies("in").await;
    assert_eq!(inputs, numbered(TURNS - inputs.len()..TURNS));
    [count, outputs.len(), TURNS - inputs.len()]
}

/// Crashes at every operation of the disk in turn; says how often the three disagreed.
async fn crash_everywhere(in_one_step: bool) -> (usize, usize) {
    let (mut crashes, mut torn_apart) = (0, 0);
    for operation in 0.. {
        let storage = MemoryStorage::new(operation);
        let rig = Rig::on(storage, Settings::default(), small_journal());
        rig.publish_all("in", &numbered(0..TURNS), true).await;
        rig.storage.fail(Operation::Any, operation, Fault::Crash);
        let confirmed = run_turns(&rig, in_one_step).await;
        let crashed = rig.storage.is_crashed();
        let loss = [Loss::Torn, Loss::Unsynced, Loss::Nothing][operation as usize % 3];
        let rig = rig.crash(loss);
        let done = turns_done(&rig).await;
        assert!(
            done.iter().all(|done| *done >= confirmed),
            "{done:?}, {confirmed}"
        );
        torn_apart += usize::from(done != [done[0]; 3]);
        if !crashed {
            return (crashes, torn_apart);
        }
        crashes += 1;
    }
    unreachable!("it ends when nothing crashes any more")
}

#[tokio::test]
async fn a_commit_is_whole_or_nothing_at_every_crash() {
    let (crashes, torn_apart) = crash_everywhere(true).await;
    assert!(crashes >= 2 * TURNS, "{crashes}");
    assert_eq!(torn_apart, 0);
}

/// The control: in several steps, some crash leaves a part.
#[tokio::test]
async fn several_steps_are_torn_apart_by_some_crash() {
    let (_, torn_apart) = crash_everywhere(false).await;
    assert!(torn_apart > 0);
}

#[tokio::test]
async fn an_old_epoch_is_fenced_also_after_a_restart() {
    let rig = Rig::new();
    let (first, _) = rig.broker.raise_epoch(&name("b")).unwrap();
    let write = |value| vec![set("k", value)];
    rig.broker
        .commit(Commit {
            state: state("b", first, write("first")),
            ..Commit::default()
        })
        .unwrap();
    let (second, position) = rig.broker.raise_epoch(&name("b")).unwrap();
    assert_eq!(second, first + 1);
    rig.wait(position).await;
    rig.publish("in", "x", true).await;
    let reader = rig.subscribe("in", AckMode::Individual);
    let input = reader.expect(1).await.remove(0);
    let old = Commit {
        state: state("b", first, write("stale")),
        consumed: vec![Consumed {
            subscription: &reader.subscription,
            id: input.id,
            through: false,
        }],
        sends: vec![(to_queue("out"), publication("x", true))],
    };
    let refused = rig.broker.commit(old).unwrap_err();
    assert!(
        matches!(&refused, CommitError::Fenced { given, current, .. } if (*given, *current) == (first, second)),
        "{refused}"
    );
    assert_eq!(rig.broker.counters().fenced.get(), 1);
    assert_eq!(rig.stats("out").waiting, 0);
    assert_eq!(rig.stats("in").unacknowledged, 1);
    drop(reader);

    let rig = rig.crash(Loss::Unsynced);
    let write = |value, epoch| Commit {
        state: state("b", epoch, vec![set("k", value)]),
        ..Commit::default()
    };
    assert!(rig.broker.commit(write("stale", first)).is_err());
    assert_eq!(
        rig.broker.state(&name("b"), b"k").unwrap().unwrap(),
        "first"
    );
    rig.broker.commit(write("second", second)).unwrap();
    assert_eq!(
        rig.broker.state(&name("b"), b"k").unwrap().unwrap(),
        "second"
    );
}

#[tokio::test]
async fn state_is_read_back_in_order() {
    let rig = Rig::new();
    let (epoch, _) = rig.broker.raise_epoch(&name("b")).unwrap();
    let writes = vec![
        set("c", "3"),
        set("a", "1"),
        set("b", "2"),
        set("a", "4"),
        remove("b"),
    ];
    let commit = Commit {
        state: state("b", epoch, writes),
        ..Commit::default()
    };
    let position = rig.broker.commit(commit).unwrap().unwrap();
    rig.wait(position).await;
    let rig = rig.crash(Loss::Unsynced);
    let pairs = rig.broker.scan_state(&name("b"), None, 10).unwrap();
    assert_eq!(
        pairs,
        [("a".into(), "4".into()), ("c".into(), Bytes::from("3"))]
    );
    assert_eq!(
        rig.broker
            .scan_state(&name("b"), Some(b"a"), 10)
            .unwrap()
            .len(),
        1
    );
    assert_eq!(rig.broker.scan_state(&name("b"), None, 1).unwrap().len(), 1);
    assert_eq!(rig.broker.state(&name("b"), b"b").unwrap(), None);
    assert_eq!(rig.broker.state(&name("unknown"), b"b").unwrap(), None);
}

#[tokio::test]
async fn the_limit_of_state_cannot_be_passed_by_writing_a_key_twice() {
    let rig = Rig::with(Settings {
        bucket_bytes_max: 2_000,
        buckets_max: 2,
        ..Settings::default()
    });
    let (epoch, _) = rig.broker.raise_epoch(&name("b")).unwrap();
    let commit = |writes| {
        rig.broker.commit(Commit {
            state: state("b", epoch, writes),
            ..Commit::default()
        })
    };
    commit(vec![set("k", &"x".repeat(1_500))]).unwrap();
    let twice = vec![set("k", "x"), set("k", &"x".repeat(1_999))];
    let refused = commit(twice).unwrap_err();
    assert!(
        matches!(refused, CommitError::StateTooLarge { .. }),
        "{refused}"
    );
    commit(vec![remove("k"), set("l", &"x".repeat(1_500))]).unwrap();
    rig.broker.raise_epoch(&name("c")).unwrap();
    let refused = rig.broker.raise_epoch(&name("d")).unwrap_err();
    assert!(matches!(
        refused,
        CommitError::TooManyBuckets { buckets_max: 2 }
    ));
}

/// With the syncs held back: what a commit sends stays, what is merely published goes.
#[tokio::test]
async fn sends_leave_only_when_the_commit_is_permanent() {
    let storage = GatedStorage::new(MemoryStorage::new(1));
    let broker = storage.start(Settings::default());
    let channel = |to| broker.channel(&to).unwrap();
    let queue = Reader::new(&channel(to_queue("q")), AckMode::Auto, Default::default());
    let transient = Reader::new(&channel(to_queue("r")), AckMode::Auto, Default::default());
    let topic = Reader::new(&channel(to_topic("t")), AckMode::Auto, Default::default());
    let control = Reader::new(&channel(to_queue("c")), AckMode::Auto, Default::default());
    storage.syncs.close();
    let sends = vec![
        (to_queue("q"), publication("held", true)),
        (to_queue("r"), publication("held", false)),
        (to_topic("t"), publication("held", false)),
    ];
    let commit = Commit {
        sends,
        ..Commit::default()
    };
    let position = broker.commit(commit).unwrap().unwrap();
    // The control: this one goes at once. So the others would have been there too.
    broker
        .publish(&to_queue("c"), publication("free", true))
        .unwrap();
    assert_eq!(control.take().len(), 1);
    // Behind those that are held, order keeps others back as well.
    broker
        .publish(&to_queue("r"), publication("behind", false))
        .unwrap();
    for reader in [&queue, &transient, &topic] {
        assert!(reader.take().is_empty());
    }
    storage.syncs.open();
    broker.journal().wait(position).await.unwrap();
    assert_eq!(bodies(&queue.expect(1).await), ["held"]);
    assert_eq!(bodies(&topic.expect(1).await), ["held"]);
    assert_eq!(bodies(&transient.expect(2).await), ["held", "behind"]);
}

#[tokio::test]
async fn a_commit_in_memory_is_done_at_once() {
    let rig = Rig::new();
    rig.publish("in", "x", false).await;
    let input = rig.subscribe("in", AckMode::Individual);
    let output = rig.subscribe("out", AckMode::Auto);
    let entry = input.expect(1).await.remove(0);
    let commit = Commit {
        consumed: vec![Consumed {
            subscription: &input.subscription,
            id: entry.id,
            through: false,
        }],
        sends: vec![(to_queue("out"), publication("y", false))],
        ..Commit::default()
    };
    assert_eq!(rig.broker.commit(commit).unwrap(), None);
    assert_eq!(bodies(&output.take()), ["y"]);
    assert_eq!(rig.stats("in").unacknowledged, 0);
    assert_eq!(rig.broker.counters().commits.get(), 1);
}

#[tokio::test]
async fn a_refused_commit_changes_nothing() {
    let rig = Rig::with(Settings {
        queues: vec![rule(
            "small",
            QueueSettings {
                messages_max: 2,
                ..QueueSettings::default()
            },
        )],
        ..Settings::default()
    });
    rig.publish_all("in", &numbered(0..2), true).await;
    let input = rig.subscribe("in", AckMode::Individual);
    let entries = input.expect(2).await;
    let (epoch, _) = rig.broker.raise_epoch(&name("b")).unwrap();
    let consumed = |id| Consumed {
        subscription: &input.subscription,
        id,
        through: false,
    };
    let send = || (to_queue("small"), publication("x", true));
    let too_many = Commit {
        state: state("b", epoch, vec![set("k", "v")]),
        consumed: vec![consumed(entries[0].id)],
        sends: vec![send(), send(), send()],
    };
    let refused = rig.broker.commit(too_many).unwrap_err();
    assert!(
        matches!(&refused, CommitError::Send(PublishError::Full { .. })),
        "{refused}"
    );
    let not_held = Commit {
        state: state("b", epoch, vec![set("k", "v")]),
        consumed: vec![consumed(entries[0].id), consumed(12_345)],
        sends: vec![send()],
    };
    let refused = rig.broker.commit(not_held).unwrap_err();
    assert!(
        matches!(&refused, CommitError::NotHeld { id: 12_345, .. }),
        "{refused}"
    );
    assert_eq!(rig.stats("small").waiting, 0);
    assert_eq!(rig.stats("in").unacknowledged, 2);
    assert_eq!(rig.broker.state(&name("b"), b"k").unwrap(), None);
}

#[tokio::test]
async fn a_commit_makes_room_for_all_that_it_sends() {
    let settings = QueueSettings {
        messages_max: 4,
        when_full: WhenFull::OldestToDeadLetters,
        ..QueueSettings::default()
    };
    let rig = Rig::with(Settings {
        queues: vec![rule("q", settings)],
        ..Settings::default()
    });
    rig.publish_all("q", &numbered(0..4), true).await;
    let send = |text: &str| (to_queue("q"), publication(text, true));
    let commit = Commit {
        sends: vec![send("a"), send("b"), send("c")],
        ..Commit::default()
    };
    rig.broker.commit(commit).unwrap();
    assert_eq!(rig.drain_bodies("q").await, ["message 3", "a", "b", "c"]);
    assert_eq!(rig.broker.dead_letters(&DeadFilter::default(), 9).len(), 3);
}

#[tokio::test]
async fn many_sends_in_one_record_are_read_back_in_order() {
    let settings = QueueSettings {
        memory_bytes_max: 1_000,
        ..QueueSettings::default()
    };
    let rig = Rig::queues(settings);
    let texts = numbered(0..300);
    let sends = texts
        .iter()
        .map(|text| (to_queue("q"), publication(text, true)));
    let commit = Commit {
        sends: sends.collect(),
        ..Commit::default()
    };
    let position = rig.broker.commit(commit).unwrap().unwrap();
    rig.wait(position).await;
    assert!(rig.stats("q").on_disk > 290);
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.drain_bodies("q").await, texts);
    rig.until_needed(0).await;
}

#[tokio::test]
async fn a_commit_can_consume_from_a_topic() {
    let rig = Rig::new();
    let topic = rig.broker.channel(&to_topic("t")).unwrap();
    let reader = Reader::new(&topic, AckMode::Client, Default::default());
    topic.publish(&mut vec![publication("a", false), publication("b", false)]);
    let entries = reader.expect(2).await;
    let commit = || Commit {
        consumed: vec![Consumed {
            subscription: &reader.subscription,
            id: entries[1].id,
            through: true,
        }],
        sends: vec![(to_queue("q"), publication("c", true))],
        ..Commit::default()
    };
    rig.broker.commit(commit()).unwrap();
    assert!(
        rig.broker.commit(commit()).is_err(),
        "it is consumed already"
    );
    assert_eq!(rig.drain_bodies("q").await, ["c"]);
}

/// Housekeeping locks all names; a commit that looked one up with queues locked would wait for it
/// forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_and_housekeeping_do_not_wait_for_each_other() {
    let rig = Arc::new(Rig::new());
    let other = rig.clone();
    let tidying = tokio::task::spawn_blocking(move || {
        for _ in 0..20_000 {
            other.broker.tidy();
        }
    });
    for _ in 0..20_000 {
        let sends = vec![
            (to_queue("a"), publication("x", false)),
            (to_queue("b"), publication("x", false)),
        ];
        rig.broker
            .commit(Commit {
                sends,
                ..Commit::default()
            })
            .unwrap();
    }
    let finished = tokio::time::timeout(crate::rig::TIMEOUT, tidying).await;
    finished.expect("no deadlock").unwrap();
}
