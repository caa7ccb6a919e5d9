//! Who has what, and what becomes of it when one leaves, dies or comes back.

use control::{Ended, HEARTBEATS, NodeState, Order};
use kernel::{Destination, Message, Name};

use crate::rig::*;

#[tokio::test(flavor = "multi_thread")]
async fn nodes_share_a_stage_and_hand_over_when_one_joins_and_one_is_drained() {
    let mut cluster = Cluster::new();
    cluster.define(0, "").await;
    let first = cluster.node("first").await;
    until("the first has all", || held(&[&first]) == [SHARES]).await;
    cluster.send_round().await;
    let second = cluster.node("second").await;
    sending_until(&mut cluster, "both have half", || {
        is_spread(&held(&[&first, &second]))
    })
    .await;
    let name = Name::new(first.name).unwrap();
    let drained = |order: &mut Order| {
        order.state = NodeState::Draining;
        order.stop = true;
    };
    second.agent.order(&name, drained).await.unwrap();
    sending_until(&mut cluster, "the second has all", || {
        held(&[&second, &first]) == [SHARES, 0]
    })
    .await;
    assert_eq!(first.agent.ended().await, Ended::Stopped);
    cluster.check().await;
    let turns = |node: &Node| node.runtime.flows()[0].stages[0].turns;
    assert!(turns(&first) > 0 && turns(&second) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_others_take_over_from_one_that_dies_and_it_gets_a_share_when_it_is_back() {
    let mut cluster = Cluster::new();
    cluster.define(0, "").await;
    let (first, second, third) = (
        cluster.node("first").await,
        cluster.node("second").await,
        cluster.node("third").await,
    );
    until("all three share", || {
        is_spread(&held(&[&first, &second, &third]))
    })
    .await;
    cluster.send_round().await;
    // It dies without a word: its heartbeats end, but what it has in hand goes on for a while.
    let Node { agent, runtime, .. } = third;
    drop(agent);
    sending_until(&mut cluster, "two share", || {
        is_spread(&held(&[&first, &second]))
    })
    .await;
    runtime.shutdown(PATIENCE).await;
    let third = cluster.node("third").await;
    sending_until(&mut cluster, "three share again", || {
        is_spread(&held(&[&first, &second, &third]))
    })
    .await;
    cluster.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn places_that_are_named_count_and_a_name_that_is_taken_ends_the_older() {
    let mut cluster = Cluster::new();
    cluster.define(0, "second").await;
    let (first, second) = (cluster.node("first").await, cluster.node("second").await);
    until("the second has all", || {
        held(&[&first, &second]) == [0, SHARES]
    })
    .await;
    cluster.send_round().await;
    cluster.define(1, "first").await;
    first.agent.definition_changed(&STAGE.parse().unwrap());
    sending_until(&mut cluster, "the first has all", || {
        held(&[&first, &second]) == [SHARES, 0]
    })
    .await;
    cluster.check().await;
    let again = cluster.node("second").await;
    assert_eq!(second.agent.ended().await, Ended::NameTaken);
    until("the newer one is heard", || {
        let heard = again.agent.nodes();
        heard.iter().any(|member| member.last.node == "second")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_paused_keeps_its_share_and_goes_on_later() {
    let mut cluster = Cluster::new();
    cluster.define(0, "").await;
    let (first, second) = (cluster.node("first").await, cluster.node("second").await);
    until("both share", || is_spread(&held(&[&first, &second]))).await;
    let name = Name::new(second.name).unwrap();
    let turns = |node: &Node| node.runtime.flows()[0].stages[0].turns;
    let state = |node: &Node| {
        let heard = node.agent.nodes();
        let second = heard.iter().find(|member| member.last.node == "second");
        second.map(|member| member.last.state)
    };
    let pause = |order: &mut Order| order.state = NodeState::Paused;
    first.agent.order(&name, pause).await.unwrap();
    until("it pauses", || state(&first) == Some(NodeState::Paused)).await;
    let before = (turns(&first), turns(&second));
    cluster.send_round().await;
    until("the other one works", || turns(&first) > before.0).await;
    let with_labels = |order: &mut Order| {
        order.labels = Some([("zone".to_owned(), "a".to_owned())].into());
        order.prefetch = Some(1);
    };
    first.agent.order(&name, with_labels).await.unwrap();
    until("its labels are heard", || {
        let heard = first.agent.nodes();
        heard
            .iter()
            .any(|member| member.last.labels.contains_key("zone"))
    })
    .await;
    assert_eq!(turns(&second), before.1, "it worked although it was paused");
    assert!(is_spread(&held(&[&first, &second])));
    let resume = |order: &mut Order| order.state = NodeState::Running;
    second.agent.order(&name, resume).await.unwrap();
    cluster.check().await;
    assert!(turns(&second) > before.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_hears_far_more_heartbeats_than_it_leaves_unacknowledged() {
    let cluster = Cluster::new();
    let node = cluster.node("first").await;
    let topic = Destination::Topic(Name::new(HEARTBEATS).unwrap());
    let heard = |number: u64| {
        let known = node.agent.nodes();
        known
            .iter()
            .any(|member| member.last.node == "talker" && member.last.number == number)
    };
    until("it hears itself", || !node.agent.nodes().is_empty()).await;
    let mut number = 0;
    for _ in 0..50 {
        let beat = |number| {
            let beat = serde_json::json!({ "node": "talker", "start": 1, "number": number });
            Message::new(beat.to_string())
        };
        let mut batch: Vec<Message> = (number + 1..=number + 100).map(beat).collect();
        number += 100;
        cluster
            .bus
            .publish(&topic, &mut batch, PATIENCE)
            .await
            .unwrap();
        until("it hears the last", || heard(number)).await;
    }
}
