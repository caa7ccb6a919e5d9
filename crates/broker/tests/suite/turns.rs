//! Subscribers that take turns: one is served, the others wait.

use std::sync::Arc;

use broker::{AckMode, Credit, Outbox};

use crate::rig::{Reader, Rig, bodies, numbered};

fn in_turn(rig: &Rig, messages: u32) -> Reader {
    let outbox = Arc::new(Outbox::default());
    let credit = Credit {
        messages,
        ..Credit::default()
    };
    let channel = rig.channel("q");
    let subscription = channel.subscribe_in_turn(1, AckMode::Individual, credit, outbox.clone());
    Reader {
        subscription,
        outbox,
    }
}

#[tokio::test]
async fn the_next_gets_what_the_first_left_before_anything_else() {
    let rig = Rig::new();
    let first = in_turn(&rig, 4);
    let second = in_turn(&rig, 10);
    let third = in_turn(&rig, 10);
    for body in numbered(0..8) {
        rig.publish("q", &body, true).await;
    }
    let held = first.expect(4).await;
    first.acknowledge(held[1].id, false);
    assert_eq!(first.expect(1).await[0].id, held[3].id + 1);
    assert!(second.take().is_empty() && third.take().is_empty());
    drop(first);
    let came = second.expect(7).await;
    let expected: Vec<String> = numbered(0..8)
        .into_iter()
        .filter(|b| *b != bodies(&held)[1])
        .collect();
    assert_eq!(bodies(&came), expected);
    assert!(third.take().is_empty());
    for entry in &came {
        second.acknowledge(entry.id, false);
    }
    drop(second);
    rig.publish("q", "last", true).await;
    assert_eq!(bodies(&third.expect(1).await), ["last"]);
}

/// Whoever waits for its turn and leaves holds up nobody, and those who do not take turns are
/// served beside them.
#[tokio::test]
async fn only_those_who_take_turns_wait() {
    let rig = Rig::new();
    let first = in_turn(&rig, 10);
    let second = in_turn(&rig, 10);
    let third = in_turn(&rig, 10);
    drop(second);
    drop(first);
    rig.publish("q", "a", false).await;
    assert_eq!(bodies(&third.expect(1).await), ["a"]);
    let beside = rig.subscribe("q", AckMode::Individual);
    for body in ["b", "c"] {
        rig.publish("q", body, false).await;
    }
    let (one, other) = (third.expect(1).await, beside.expect(1).await);
    assert_ne!(bodies(&one), bodies(&other));
    // A queue that is closed forgets whose turn it was.
    rig.broker.find_queue("q").unwrap().close();
    let late = in_turn(&rig, 10);
    rig.publish("q", "d", false).await;
    assert_eq!(bodies(&late.expect(1).await), ["d"]);
}
