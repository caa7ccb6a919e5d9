//! Documents that several nodes change.

use hivewire_tests::hive::Hive;
use hivewire_tests::stomp_client::Frame;

use crate::rig::{Body, Node, outcome, reason, set, state};

/// Changes a document; gives the outcome and the revision.
fn change(node: &mut Node, name: &str, revision: u64, content: Option<&[u8]>) -> (String, u64) {
    let revision = revision.to_string();
    let mut headers = vec![("name", name), ("revision", revision.as_str())];
    if content.is_none() {
        headers.push(("remove", "true"));
    }
    let answer = node.ask("document", &headers, content.unwrap_or_default());
    (outcome(&answer).to_owned(), revision_of(&answer))
}

fn revision_of(answer: &Frame) -> u64 {
    let revision = answer.header("revision");
    let revision = revision.unwrap_or_else(|| panic!("no revision in {answer:?}"));
    revision.parse().unwrap()
}

fn read(node: &mut Node, name: &str) -> (u64, Option<Vec<u8>>) {
    let answer = node.ask("document-get", &[("name", name)], b"");
    let content = (outcome(&answer) == "found").then(|| answer.body.clone());
    (revision_of(&answer), content)
}

fn done(revision: u64) -> (String, u64) {
    ("done".into(), revision)
}

fn conflict(revision: u64) -> (String, u64) {
    ("conflict".into(), revision)
}

#[test]
fn of_two_writers_one_wins_and_the_other_is_told() {
    let mut hive = Hive::start().unwrap();
    let mut one = Node::connect(&hive);
    let mut two = Node::connect(&hive);
    assert_eq!(read(&mut one, "flow"), (0, None));
    assert_eq!(change(&mut one, "flow", 0, Some(b"first")), done(1));
    assert_eq!(
        change(&mut two, "flow", 0, Some(b"also first")),
        conflict(1)
    );
    assert_eq!(change(&mut two, "flow", 1, Some(b"second")), done(2));
    assert_eq!(change(&mut one, "flow", 1, Some(b"late")), conflict(2));
    assert_eq!(read(&mut one, "flow"), (2, Some(b"second".to_vec())));

    hive.kill9();
    hive.start_again().unwrap();
    let mut node = Node::connect(&hive);
    assert_eq!(read(&mut node, "flow"), (2, Some(b"second".to_vec())));
    assert_eq!(change(&mut node, "flow", 1, Some(b"late")), conflict(2));
    assert_eq!(change(&mut node, "flow", 2, Some(b"third")), done(3));
}

/// Both send before either reads an answer.
#[test]
fn of_two_at_the_same_time_exactly_one_wins() {
    let hive = Hive::start().unwrap();
    let mut nodes = [Node::connect(&hive), Node::connect(&hive)];
    for revision in 0..30_u64 {
        let text = revision.to_string();
        let headers = [("name", "flow"), ("revision", text.as_str())];
        let requests = nodes
            .each_mut()
            .map(|node| node.request("document", &headers, b"x"));
        let mut outcomes: Vec<_> = nodes
            .iter_mut()
            .zip(&requests)
            .map(|(node, request)| node.answer(request))
            .map(|answer| (outcome(&answer).to_owned(), revision_of(&answer)))
            .collect();
        outcomes.sort();
        assert_eq!(outcomes, [conflict(revision + 1), done(revision + 1)]);
    }
}

/// The control: two writes of state in one epoch both succeed, and the first is gone.
#[test]
fn control_of_two_writes_of_state_one_is_lost() {
    let hive = Hive::start().unwrap();
    let mut one = Node::connect(&hive);
    let mut two = Node::connect(&hive);
    let epoch = one.raise("b");
    for (node, value) in [(&mut one, b"mine "), (&mut two, b"yours")] {
        let write = state("b", epoch, &[set(b"flow", value)]);
        assert_eq!(outcome(&node.commit(&[write])), "done");
    }
    assert_eq!(one.get("b", b"flow").unwrap(), b"yours");
}

#[test]
fn a_removal_is_a_revision_and_keeps_its_number() {
    let mut hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    let missing = node.ask(
        "document",
        &[("name", "flow"), ("revision", "0"), ("remove", "true")],
        b"",
    );
    assert_eq!(outcome(&missing), "refused");
    assert!(reason(&missing).contains("no document flow"));
    assert_eq!(change(&mut node, "flow", 0, Some(b"x")), done(1));
    assert_eq!(change(&mut node, "flow", 1, None), done(2));
    assert_eq!(read(&mut node, "flow"), (2, None));
    hive.kill9();
    hive.start_again().unwrap();
    let mut node = Node::connect(&hive);
    assert_eq!(read(&mut node, "flow"), (2, None));
    for late in [0, 1] {
        assert_eq!(change(&mut node, "flow", late, Some(b"late")), conflict(2));
    }
    assert_eq!(change(&mut node, "flow", 2, Some(b"again")), done(3));
}

/// Name, revision and content of each document, and whether there are more.
fn list(
    node: &mut Node,
    prefix: &str,
    after: Option<&str>,
    pairs_max: &str,
) -> (Vec<String>, bool) {
    let mut headers = vec![("pairs-max", pairs_max)];
    headers.extend(after.map(|after| ("after", after)));
    let answer = node.ask("documents", &headers, prefix.as_bytes());
    let mut body = Body(&answer.body);
    let mut found = Vec::new();
    while !body.0.is_empty() {
        let is_there = body.number::<1>() == 1;
        let name = String::from_utf8(body.bytes().to_vec()).unwrap();
        let revision = body.number::<8>();
        let content = if is_there { body.bytes() } else { b"-" };
        let content = String::from_utf8_lossy(content);
        found.push(format!("{name}@{revision}:{content}"));
    }
    let expected = if found.is_empty() { "none" } else { "found" };
    assert_eq!(outcome(&answer), expected);
    (found, answer.header("more") == Some("true"))
}

#[test]
fn documents_are_listed_by_prefix_and_in_pages() {
    let hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    for name in ["flow/b", "flow/a", "other", "flow/c"] {
        assert_eq!(change(&mut node, name, 0, Some(b"1")), done(1));
    }
    change(&mut node, "flow/b", 1, None);
    change(&mut node, "flow/c", 1, Some(b"2"));
    let all = ["flow/a@1:1", "flow/b@2:-", "flow/c@2:2"];
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    assert_eq!(list(&mut node, "flow/", None, "9"), (texts(&all), false));
    assert_eq!(
        list(&mut node, "flow/", None, "2"),
        (texts(&all[..2]), true)
    );
    let rest = list(&mut node, "flow/", Some("flow/b"), "2");
    assert_eq!(rest, (texts(&all[2..]), false));
    assert_eq!(list(&mut node, "", None, "9").0.len(), 4);
    assert_eq!(list(&mut node, "x", None, "9"), (Vec::new(), false));

    // Pages end before they are too long.
    for name in ["large/1", "large/2", "large/3"] {
        assert_eq!(change(&mut node, name, 0, Some(&[b'x'; 500_000])), done(1));
    }
    let (found, more) = list(&mut node, "large/", None, "9");
    assert_eq!((found.len(), more), (2, true));
}

#[test]
fn a_document_has_a_limit() {
    let hive = Hive::start().unwrap();
    let mut node = Node::connect(&hive);
    let full = vec![b'x'; 1 << 20];
    assert_eq!(change(&mut node, "flow", 0, Some(&full)), done(1));
    assert_eq!(read(&mut node, "flow"), (1, Some(full)));
    let headers = [("name", "flow"), ("revision", "1")];
    let answer = node.ask("document", &headers, &vec![b'x'; (1 << 20) + 1]);
    assert_eq!(outcome(&answer), "refused");
    assert!(reason(&answer).contains("1048576"), "{answer:?}");
}
