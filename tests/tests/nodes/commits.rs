//! A commit across the network: all of it or nothing, and the connection goes on.

use std::time::Duration;

use hivewire_tests::hive::Hive;
use hivewire_tests::soak;
use hivewire_tests::stomp_client::{Frame, Stomp, TIMEOUT};

use crate::rig::{Node, ack, held, outcome, output, reason, remove, set, state};

/// Long enough to notice a message that must not come.
const QUIET: Duration = Duration::from_millis(200);

/// A broker with messages in the queue `in`.
fn hive_with_input(messages: usize) -> Hive {
    let hive = Hive::start().unwrap();
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    for number in 0..messages {
        let body = number.to_string();
        client.send_durable("/queue/in", body.as_bytes()).unwrap();
    }
    hive
}

/// How many records the journal took since the start.
fn records(hive: &Hive) -> u64 {
    let metrics = hive.rest("GET", "/metrics", b"").unwrap();
    let text = String::from_utf8(metrics.body).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("hivewire_journal_records_total "));
    line.expect("a count of records").trim().parse().unwrap()
}

/// A turn: it consumes a message, counts it in the state and sends the count on.
fn turn(input: &Frame, epoch: u64, count: usize) -> [Frame; 3] {
    let text = count.to_string();
    [
        ack(input),
        state("b", epoch, &[set(b"count", text.as_bytes())]),
        output("out", text.as_bytes()),
    ]
}

fn count(node: &mut Node) -> usize {
    let value = node.get("b", b"count");
    value.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap())
}

#[test]
fn a_commit_is_one_record_and_takes_effect_as_a_whole() {
    let hive = hive_with_input(1);
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    let before = records(&hive);
    let done = node.commit(&turn(&input, epoch, 1));
    assert_eq!(outcome(&done), "done", "{done:?}");
    assert_eq!(done.header("ack-level"), Some("synced"));
    assert_eq!(records(&hive) - before, 1);
    assert_eq!(count(&mut node), 1);
    assert_eq!((held(&hive, "in"), held(&hive, "out")), (0, 1));

    // The control: the same in three steps takes three.
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    client.send_durable("/queue/in", b"x").unwrap();
    let input = node.message();
    let before = records(&hive);
    for part in turn(&input, epoch, 2) {
        assert_eq!(outcome(&node.commit(&[part])), "done");
    }
    assert_eq!(records(&hive) - before, 3);
}

/// Kills the broker while commits are on their way; state, output and input agree about how many
/// were done, and none that was confirmed is missing.
#[test]
fn after_a_kill_every_commit_happened_whole_or_not_at_all() {
    const TURNS: usize = 200;
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for _ in 0..soak::times(5) {
        let mut hive = hive_with_input(TURNS);
        let mut node = Node::connect(&hive);
        let epoch = node.raise("b");
        node.subscribe("in");
        let mut receipts = Vec::new();
        for number in 1..=TURNS {
            let input = node.message();
            receipts.push(node.submit(&turn(&input, epoch, number)));
        }
        let confirmed = rng.usize(1..TURNS);
        for receipt in &receipts[..confirmed] {
            assert_eq!(outcome(&node.receipt(receipt)), "done");
        }
        hive.kill9();
        hive.start_again().unwrap();
        let mut node = Node::connect(&hive);
        let done = count(&mut node);
        assert!(done >= confirmed, "{confirmed} were confirmed, {done} done");
        assert_eq!(held(&hive, "out") as usize, done);
        assert_eq!(held(&hive, "in") as usize, TURNS - done);
        assert_eq!(node.raise("b"), epoch + 1, "the epoch is still known");
    }
}

/// The control: in several steps a kill in between leaves a part.
#[test]
fn control_several_steps_are_torn_apart_by_a_kill() {
    let mut hive = hive_with_input(1);
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    let [_, state, _] = turn(&input, epoch, 1);
    assert_eq!(outcome(&node.commit(&[state])), "done");
    hive.kill9();
    hive.start_again().unwrap();
    let mut node = Node::connect(&hive);
    assert_eq!(count(&mut node), 1);
    assert_eq!((held(&hive, "in"), held(&hive, "out")), (1, 0));
}

/// After a commit that failed, nothing of it is there; the right one then succeeds on the same
/// connection, so the parts themselves were not the reason.
#[track_caller]
fn leaves_nothing(hive: &Hive, node: &mut Node, input: &Frame, epoch: u64) {
    assert_eq!(count(node), 0, "state was written");
    assert_eq!(held(hive, "out"), 0, "a message was sent");
    assert_eq!(held(hive, "in"), 1, "a message was consumed");
    let done = node.commit(&turn(input, epoch, 1));
    assert_eq!(outcome(&done), "done", "{done:?}");
    assert_eq!(count(node), 1);
    assert_eq!((held(hive, "in"), held(hive, "out")), (0, 1));
}

#[test]
fn a_fenced_commit_leaves_nothing() {
    let hive = hive_with_input(1);
    let mut node = Node::connect(&hive);
    let old = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    let current = Node::connect(&hive).raise("b");
    assert_eq!(current, old + 1);
    let fenced = node.commit(&turn(&input, old, 1));
    assert_eq!(outcome(&fenced), "fenced", "{fenced:?}");
    assert_eq!(fenced.header("current"), Some(current.to_string().as_str()));
    // Also one that writes nothing.
    let fenced = node.commit(&[state("b", old, &[]), output("out", b"x")]);
    assert_eq!(outcome(&fenced), "fenced", "{fenced:?}");
    leaves_nothing(&hive, &mut node, &input, current);
}

#[test]
fn a_commit_of_a_message_that_is_not_held_leaves_nothing() {
    let hive = hive_with_input(1);
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    let id = input.header("ack").unwrap();
    let (number, token) = id.split_once('-').unwrap();
    // A message that never was delivered, and a subscription that never was.
    for id in [format!("{}9-{token}", number), format!("{number}-99")] {
        let mut parts = turn(&input, epoch, 1).to_vec();
        parts.push(Frame::new("ACK", &[("id", &id)]));
        let lost = node.commit(&parts);
        assert_eq!(outcome(&lost), "not-held", "{id}: {lost:?}");
    }
    leaves_nothing(&hive, &mut node, &input, epoch);
    // A message that is done already.
    let lost = node.commit(&turn(&input, epoch, 2));
    assert_eq!(outcome(&lost), "not-held", "{lost:?}");
    assert_eq!((count(&mut node), held(&hive, "out")), (1, 1));
}

#[test]
fn a_commit_after_the_subscription_ended_is_not_held() {
    let hive = hive_with_input(1);
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    node.send(&Frame::new(
        "UNSUBSCRIBE",
        &[("id", "in"), ("receipt", "u")],
    ));
    node.receipt("u");
    let lost = node.commit(&turn(&input, epoch, 1));
    assert_eq!(outcome(&lost), "not-held", "{lost:?}");
    node.subscribe("in");
    let again = node.message();
    assert!(again.is_redelivered());
    leaves_nothing(&hive, &mut node, &again, epoch);
}

#[test]
fn a_full_queue_is_told_and_leaves_nothing() {
    let config = "[[broker.queues]]\nname = \"small\"\nmessages_max = 1\n";
    let hive = Hive::options().config(config).start().unwrap();
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    client.send_durable("/queue/in", b"x").unwrap();
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    let mut parts = turn(&input, epoch, 1).to_vec();
    parts.extend([output("small", b"1"), output("small", b"2")]);
    let full = node.commit(&parts);
    assert_eq!(outcome(&full), "full", "{full:?}");
    assert!(reason(&full).contains("small"), "{full:?}");
    assert_eq!(held(&hive, "small"), 0);
    leaves_nothing(&hive, &mut node, &input, epoch);
}

fn state_with(headers: &[(&str, &str)], body: &[u8]) -> Frame {
    let mut all = vec![("destination", "/hivewire/state")];
    all.extend_from_slice(headers);
    Frame::new("SEND", &all).with_body(body)
}

#[test]
fn mistakes_are_refused_with_a_reason_and_leave_nothing() {
    let config = "[stomp]\ntransaction_bytes_max = 100000\n[broker]\nbucket_bytes_max = 50000\n";
    let hive = Hive::options().config(config).start().unwrap();
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    client.send_durable("/queue/in", b"x").unwrap();
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    let good = [("bucket", "b"), ("epoch", "1")];
    let many = remove(b"").repeat(20_000);
    let cases = [
        (state_with(&good, b"\x02"), "begins with 1 or 0"),
        (
            state_with(&good, b"\x01\0\0\0\x09k"),
            "9 bytes have to stand here",
        ),
        (
            state_with(&good, b"\x01\0\0\0\x01k\xff\xff\xff\xff"),
            "byte 10",
        ),
        (state_with(&[("bucket", "b")], b""), "header `epoch`"),
        (state_with(&[("epoch", "1")], b""), "header `bucket`"),
        (
            state_with(&[("bucket", "b"), ("epoch", "-1")], b""),
            "`-1` is not a number",
        ),
        (
            state_with(&[("bucket", "a b"), ("epoch", "1")], b""),
            "bad bucket",
        ),
        (state("b", epoch, &[set(b"k", &[0; 60_000])]), "bucket b"),
        (
            state("hivewire.documents", 0, &[set(b"k", b"v")]),
            "hivewire.documents",
        ),
        (state_with(&good, &many), "100000 bytes"),
        (output("out", &[0; 100_000]), "100000 bytes"),
        (
            Frame::new("SEND", &[("destination", "/exchange/x")]),
            "is no destination",
        ),
        (
            Frame::new("SEND", &[("destination", "/queue/a b")]),
            "bad destination",
        ),
        (Frame::new("SEND", &[]), "header `destination`"),
        (Frame::new("ACK", &[]), "header `id`"),
        (Frame::new("ACK", &[("id", "nonsense")]), "`nonsense`"),
    ];
    for (mistake, word) in cases {
        // Without a state of its own the turn can carry any that is wrong.
        let parts = [
            ack(&input),
            output("out", b"x"),
            mistake,
            output("out", b"y"),
        ];
        let refused = node.commit(&parts);
        assert_eq!(outcome(&refused), "refused", "{word}: {refused:?}");
        assert!(reason(&refused).contains(word), "{word}: {refused:?}");
    }
    let twice = [state("b", epoch, &[]), state("b", epoch, &[])];
    let refused = node.commit(&twice);
    assert!(reason(&refused).contains("one frame"), "{refused:?}");
    let headers = [("transaction", "never-begun"), ("receipt", "r")];
    node.send(&Frame::new("COMMIT", &headers));
    let refused = node.receipt("r");
    assert!(reason(&refused).contains("never-begun"), "{refused:?}");
    leaves_nothing(&hive, &mut node, &input, epoch);
}

#[test]
fn an_aborted_transaction_leaves_nothing_and_frees_its_name() {
    let hive = hive_with_input(1);
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    node.subscribe("in");
    let input = node.message();
    for round in ["1", "2"] {
        node.send(&Frame::new("BEGIN", &[("transaction", "t")]));
        for mut part in turn(&input, epoch, 1) {
            part.headers.push(("transaction".into(), "t".into()));
            node.send(&part);
        }
        let headers = [("transaction", "t"), ("receipt", round)];
        node.send(&Frame::new("ABORT", &headers));
        node.receipt(round);
    }
    leaves_nothing(&hive, &mut node, &input, epoch);
}

#[test]
fn a_commit_that_stores_nothing_is_done_in_memory() {
    let hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    let before = records(&hive);
    let done = node.commit(&[state("b", epoch, &[])]);
    assert_eq!(outcome(&done), "done");
    assert_eq!(done.header("ack-level"), Some("memory"));
    assert_eq!(records(&hive), before);
}

/// What a commit sends leaves when the commit is on disk, and reaches others.
#[test]
fn what_a_commit_sends_arrives_and_a_refused_one_sends_nothing() {
    let hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    let epoch = node.raise("b");
    let mut reader = Node::connect(&hive);
    reader.subscribe("out");
    let fenced = node.commit(&[state("b", epoch + 1, &[]), output("out", b"never")]);
    assert_eq!(outcome(&fenced), "fenced");
    assert!(!reader.has_message(QUIET));
    let done = node.commit(&[state("b", epoch, &[]), output("out", b"once")]);
    assert_eq!(outcome(&done), "done");
    assert_eq!(reader.message().body, b"once");
}

/// A client that is no node: receipts and errors as before.
#[test]
fn transactions_of_others_are_unchanged() {
    let hive = hive_with_input(1);
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    let headers = [
        ("id", "1"),
        ("destination", "/queue/in"),
        ("ack", "client-individual"),
    ];
    client
        .send_frame(&Frame::new("SUBSCRIBE", &headers))
        .unwrap();
    let input = client.next_message(TIMEOUT).unwrap();
    let commit = |client: &mut Stomp, receipt: &str| {
        let mut consume = ack(&input);
        consume.headers.push(("transaction".into(), "t".into()));
        let headers = [("transaction", "t"), ("receipt", receipt)];
        for frame in [
            Frame::new("BEGIN", &[("transaction", "t")]),
            consume,
            Frame::new("COMMIT", &headers),
        ] {
            client.send_frame(&frame).unwrap();
        }
        client.receive_frame(TIMEOUT).unwrap()
    };
    let done = commit(&mut client, "1");
    let headers = [("receipt-id", "1"), ("ack-level", "synced")];
    assert_eq!(done, Frame::new("RECEIPT", &headers));
    let error = commit(&mut client, "2");
    assert_eq!(error.command, "ERROR", "{error:?}");
    assert_eq!(error.header("receipt-id"), Some("2"));
    client.wait_closed(TIMEOUT).unwrap();
}
