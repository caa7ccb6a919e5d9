//! Who may be a node, and what nobody else may do.

use hivewire_tests::gamq_client::Gamq;
use hivewire_tests::hive::Hive;
use hivewire_tests::stomp_client::{AckMode, Frame, Stomp, TIMEOUT};

use crate::rig::{Node, outcome, output, set, state};

const USERS: &str = "
[[users]]
name = \"alice\"
password = \"wonderland\"

[[users]]
name = \"hive2\"
password = \"honey\"
node = true

[gamq]
allow_anonymous = true
";

fn message(error: &Frame) -> &str {
    assert_eq!(error.command, "ERROR", "{error:?}");
    error.header("message").unwrap()
}

#[test]
fn with_users_a_node_is_who_is_said_to_be_one() {
    let hive = Hive::options().config(USERS).start().unwrap();
    let connect = |login, passcode, more: &[(&str, &str)]| {
        let mut headers = vec![("login", login), ("passcode", passcode)];
        headers.extend_from_slice(more);
        Node::try_connect(&hive, &headers)
    };
    let node = &[("node", "n2")][..];
    for (login, passcode) in [("alice", "wonderland"), ("hive2", "wonderland"), ("", "")] {
        let refused = connect(login, passcode, node).err();
        let refused = refused.unwrap_or_else(|| panic!("{login} became a node"));
        assert_eq!(message(&refused), "access refused", "{login}");
    }
    // The controls: alice may connect as a client, and hive2 as a node.
    assert!(connect("alice", "wonderland", &[]).is_ok());
    assert_eq!(connect("hive2", "honey", node).unwrap().raise("b"), 1);
    let refused = connect("hive2", "honey", &[("node", "a b")]).err().unwrap();
    assert_eq!(message(&refused), "bad node name");
}

#[test]
fn only_a_node_can_write_state_and_ask_for_it() {
    let hive = Hive::start().unwrap();
    let headers = [("destination", "/hivewire/get"), ("request", "1")];
    let get = Frame::new("SEND", &headers);
    for mut frame in [state("b", 0, &[set(b"k", b"v")]), get] {
        let mut client = Stomp::connect(hive.stomp_address()).unwrap();
        let begin = Frame::new("BEGIN", &[("transaction", "t")]);
        client.send_frame(&begin).unwrap();
        frame.headers.push(("transaction".into(), "t".into()));
        client.send_frame(&frame).unwrap();
        let error = client.receive_frame(TIMEOUT).unwrap();
        assert!(message(&error).ends_with("is no destination"), "{error:?}");
        client.wait_closed(TIMEOUT).unwrap();
    }
    assert_eq!(Node::connect(&hive).get("b", b"k"), None);
}

#[test]
fn names_of_our_own_are_for_nodes_only() {
    let hive = Hive::start().unwrap();
    let mut reader = Stomp::connect(hive.stomp_address()).unwrap();
    let topic = "/topic/hivewire.nodes";
    reader.subscribe("t", topic, AckMode::Auto, &[]).unwrap();
    for destination in [topic, "/queue/hivewire.nodes", "/topic/hivewire.dead"] {
        for transaction in [None, Some(("transaction", "t"))] {
            let mut client = Stomp::connect(hive.stomp_address()).unwrap();
            let begin = Frame::new("BEGIN", &[("transaction", "t")]);
            client.send_frame(&begin).unwrap();
            let headers: Vec<_> = transaction.into_iter().collect();
            client.send(destination, &headers, b"forged").unwrap();
            let error = client.receive_frame(TIMEOUT).unwrap();
            assert_eq!(message(&error), "access refused", "{destination}");
            client.wait_closed(TIMEOUT).unwrap();
        }
    }
    let mut gamq = Gamq::connect(hive.gamq_address()).unwrap();
    gamq.set_ack(true).unwrap();
    for name in ["topic:hivewire.nodes", "hivewire.nodes"] {
        gamq.publish(name, b"forged").unwrap();
        gamq.expect(b"PUBNACK\n", TIMEOUT).unwrap();
    }
    gamq.publish_acknowledged("hivewire.waiting.7", b"x")
        .unwrap();
    // What others legitimately send to: dead letters, answers, and what our own benchmark uses.
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    for queue in ["dead", "waiting.7", "waiting.7.1", "bench.99"] {
        let destination = format!("/queue/hivewire.{queue}");
        client.send_durable(&destination, b"x").unwrap();
    }
    // The control: a node may, also in a commit, and its message is the first to arrive.
    let mut node = Node::connect(&hive);
    let headers = [("destination", topic), ("receipt", "1")];
    node.send(&Frame::new("SEND", &headers).with_body(b"alive"));
    node.receipt("1");
    assert_eq!(
        outcome(&node.commit(&[output("hivewire.nodes", b"x")])),
        "done"
    );
    assert_eq!(reader.next_message(TIMEOUT).unwrap().body, b"alive");
}
