//! Requests about epochs and state.

use hivewire_tests::hive::Hive;
use hivewire_tests::stomp_client::{Frame, TIMEOUT};

use crate::rig::{Node, outcome, pairs, reason, remove, set, state};

const MIB: usize = 1 << 20;

/// A node that has written these keys, each with its value.
fn written(hive: &Hive, writes: &[(&[u8], &[u8])]) -> (Node, u64) {
    let mut node = Node::connect(hive);
    let epoch = node.raise("b");
    for (key, value) in writes {
        let done = node.commit(&[state("b", epoch, &[set(key, value)])]);
        assert_eq!(outcome(&done), "done", "{done:?}");
    }
    (node, epoch)
}

fn scan(node: &mut Node, after: Option<&[u8]>, pairs_max: &str) -> Frame {
    let mut headers = vec![("bucket", "b"), ("pairs-max", pairs_max)];
    if after.is_none() {
        headers.push(("from-start", "true"));
    }
    node.ask("scan", &headers, after.unwrap_or_default())
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// All pairs, page by page; says how many pages it took.
fn scan_all(node: &mut Node, pairs_max: &str) -> (Vec<Pair>, usize) {
    let mut all: Vec<Pair> = Vec::new();
    let mut pages = 0;
    loop {
        let after = all.last().map(|(key, _)| key.clone());
        let answer = scan(node, after.as_deref(), pairs_max);
        pages += 1;
        all.extend(pairs(&answer.body));
        if answer.header("more") != Some("true") {
            return (all, pages);
        }
        assert!(!answer.body.is_empty(), "it would never end");
    }
}

#[test]
fn epochs_only_rise_and_survive_a_kill() {
    let mut hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    assert_eq!(
        (node.raise("b"), node.raise("b"), node.raise("c")),
        (1, 2, 1)
    );
    hive.kill9();
    hive.start_again().unwrap();
    let mut node = Node::connect(&hive);
    assert_eq!((node.raise("b"), node.raise("c")), (3, 2));
}

#[test]
fn values_are_read_back() {
    let hive = Hive::start().unwrap();
    let (mut node, epoch) = written(&hive, &[(b"k", b"v\0w"), (b"", b"of the empty key")]);
    assert_eq!(node.get("b", b"k").unwrap(), b"v\0w");
    assert_eq!(node.get("b", b"").unwrap(), b"of the empty key");
    assert_eq!(node.get("b", b"other"), None);
    assert_eq!(node.get("no-such-bucket", b"k"), None);
    let removal = state("b", epoch, &[remove(b"k"), set(b"l", b"")]);
    assert_eq!(outcome(&node.commit(&[removal])), "done");
    assert_eq!(node.get("b", b"k"), None);
    assert_eq!(node.get("b", b"l").unwrap(), b"");
}

#[test]
fn a_scan_is_cut_into_pages_by_count() {
    let hive = Hive::start().unwrap();
    let keys: Vec<String> = (0..10).map(|number| format!("key {number}")).collect();
    let writes: Vec<_> = keys
        .iter()
        .map(|key| (key.as_bytes(), key.as_bytes()))
        .collect();
    let (mut node, _) = written(&hive, &writes);
    for (pairs_max, expected_pages) in [("1", 10), ("3", 4), ("5", 2), ("10", 1), ("99999999", 1)] {
        let (all, pages) = scan_all(&mut node, pairs_max);
        let found: Vec<_> = all.iter().map(|(key, _)| key.as_slice()).collect();
        let expected: Vec<_> = keys.iter().map(|key| key.as_bytes()).collect();
        assert_eq!(found, expected);
        assert!(all.iter().all(|(key, value)| key == value));
        assert_eq!(pages, expected_pages, "with {pairs_max}");
    }
    let rest = scan(&mut node, Some(b"key 8"), "5");
    assert_eq!(pairs(&rest.body).len(), 1);
    assert_eq!(rest.header("more"), None);
    let none = scan(&mut node, Some(b"key 9"), "5");
    assert_eq!((outcome(&none), none.body.len()), ("none", 0));
}

#[test]
fn large_values_go_in_and_come_out_and_cut_a_scan() {
    let hive = Hive::start().unwrap();
    let value = |number: u8| vec![number; MIB];
    let values: Vec<_> = (0..4).map(value).collect();
    let keys = [[0], [1], [2], [3]];
    let writes: Vec<_> = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| (&key[..], value.as_slice()))
        .collect();
    let (mut node, epoch) = written(&hive, &writes);
    for (key, value) in &writes {
        assert!(node.get("b", key).unwrap() == *value);
    }
    let first = scan(&mut node, None, "100");
    assert_eq!(first.header("more"), Some("true"));
    assert_eq!(pairs(&first.body).len(), 1, "one always fits");
    let (all, pages) = scan_all(&mut node, "100");
    assert_eq!((all.len(), pages), (4, 4));
    assert!(
        all.iter()
            .zip(&values)
            .all(|((_, found), value)| found == value)
    );

    // Several in one commit, and small ones that fill a page up to its limit.
    let large: Vec<_> = (10..14).map(|key| set(&[key], &value(key))).collect();
    assert_eq!(outcome(&node.commit(&[state("b", epoch, &large)])), "done");
    let small: Vec<_> = (20..40).map(|key| set(&[key], &[key; MIB / 10])).collect();
    assert_eq!(outcome(&node.commit(&[state("b", epoch, &small)])), "done");
    let answer = scan(&mut node, Some(&[19]), "100");
    assert_eq!(pairs(&answer.body).len(), 9);
    assert!(answer.body.len() <= MIB);
    assert_eq!(answer.header("more"), Some("true"));
}

#[test]
fn a_wrong_request_is_refused_and_the_connection_goes_on() {
    let hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    for (what, headers, word) in [
        ("epoch", &[][..], "header `bucket`"),
        ("epoch", &[("bucket", "a b")][..], "bad bucket"),
        (
            "epoch",
            &[("bucket", "hivewire.documents")],
            "hivewire.documents",
        ),
        ("get", &[], "header `bucket`"),
        ("scan", &[("bucket", "b")], "header `pairs-max`"),
        ("scan", &[("bucket", "b"), ("pairs-max", "0")], "at least 1"),
        (
            "scan",
            &[("bucket", "b"), ("pairs-max", "many")],
            "`many` is not a number",
        ),
        (
            "scan",
            &[("bucket", "b"), ("pairs-max", "99999999999999999999999")],
            "is not a number",
        ),
        ("document", &[("name", "d")], "header `revision`"),
        ("document-get", &[], "header `name`"),
        ("documents", &[("pairs-max", "-1")], "is not a number"),
        ("dance", &[], "no request /hivewire/dance"),
        (
            "get",
            &[("bucket", "b"), ("transaction", "t")],
            "cannot be part of a transaction",
        ),
    ] {
        let answer = node.ask(what, headers, b"");
        assert_eq!(outcome(&answer), "refused", "{what}: {answer:?}");
        assert!(reason(&answer).contains(word), "{what}: {answer:?}");
    }
    let answer = node.ask("documents", &[("pairs-max", "1")], b"\xff");
    assert!(reason(&answer).contains("UTF-8"), "{answer:?}");
    assert_eq!(node.raise("b"), 1, "the connection goes on");

    // Without an id there is nobody to answer to.
    let headers = [("destination", "/hivewire/get"), ("bucket", "b")];
    node.send(&Frame::new("SEND", &headers));
    let error = node.wait("an error", |frame| frame.command == "ERROR");
    assert!(String::from_utf8_lossy(&error.body).contains("`request`"));
}

#[test]
fn a_request_may_ask_for_a_receipt_as_well() {
    let hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    let headers = [("bucket", "b"), ("receipt", "mine")];
    let answer = node.ask("epoch", &headers, b"");
    assert_eq!(outcome(&answer), "done");
    assert_eq!(node.receipt("mine").header("ack-level"), Some("synced"));
}

/// Short questions with long answers, far more of them than may gather: the broker answers as fast as
/// the node reads, and keeps no more.
#[test]
fn a_node_that_does_not_read_its_answers_costs_little_memory() {
    const QUESTIONS: usize = 300;
    let hive = Hive::start().unwrap();
    let value = vec![7; MIB];
    let (mut node, _) = written(&hive, &[(b"k", &value)]);
    let before = hive.memory_bytes().unwrap();
    let requests = node.request_often(QUESTIONS, "b", b"k");
    // Others are served meanwhile.
    assert_eq!(Node::connect(&hive).raise("other"), 1);
    for request in &requests {
        assert!(node.answer(request).body == value);
    }
    let grown = hive.memory_bytes_peak().unwrap().saturating_sub(before);
    assert!(grown < 64 * MIB as u64, "{grown} bytes more");
    assert_eq!(node.raise("b"), 2, "it goes on");
    node.client.disconnect().unwrap();
}

/// The last requests of a node that hangs up its own end are still answered.
#[test]
fn answers_come_also_after_the_node_sends_no_more() {
    const QUESTIONS: usize = 20;
    let hive = Hive::start().unwrap();
    let value = vec![7; MIB];
    let (mut node, _) = written(&hive, &[(b"k", &value)]);
    let requests = node.request_often(QUESTIONS, "b", b"k");
    let end = std::net::Shutdown::Write;
    node.client.stream().shutdown(end).unwrap();
    for request in &requests {
        assert!(node.answer(request).body == value);
    }
    node.client.wait_closed(TIMEOUT).unwrap();
}
