//! Documents that change by compare-and-swap.

use broker::{
    AppendError, Commit, CommitError, DOCUMENT_BYTES_MAX, DOCUMENTS, DocumentError, PublishError,
    Settings, StateCommit, StateWrite,
};
use bytes::Bytes;
use journal::testing::{Fault, Loss, MemoryStorage, Operation};

use crate::rig::{Rig, name, small_journal, until};

/// A change that has to succeed, and be permanent.
async fn change(rig: &Rig, document: &str, expected: u64, content: Option<&str>) -> u64 {
    let content = content.map(|text| Bytes::copy_from_slice(text.as_bytes()));
    let changed = rig
        .broker
        .change_document(&name(document), expected, content);
    let (revision, stored) = changed.expect("a change");
    rig.wait(stored.expect("it is stored")).await;
    revision
}

fn content(rig: &Rig, document: &str) -> (u64, Option<String>) {
    let document = rig.broker.document(&name(document));
    let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    (document.revision, document.content.map(text))
}

/// The revision that a refused change was told.
fn conflict(outcome: Result<(u64, Option<broker::Position>), DocumentError>) -> u64 {
    match outcome {
        Err(DocumentError::Conflict { current, .. }) => current.revision,
        other => panic!("no conflict but {other:?}"),
    }
}

#[tokio::test]
async fn of_two_who_know_the_same_revision_one_wins() {
    let rig = Rig::new();
    assert_eq!(content(&rig, "flow"), (0, None));
    assert_eq!(change(&rig, "flow", 0, Some("first")).await, 1);
    let known = rig.broker.document(&name("flow")).revision;
    assert_eq!(change(&rig, "flow", known, Some("mine")).await, 2);
    let late = rig
        .broker
        .change_document(&name("flow"), known, Some("yours".into()));
    assert_eq!(conflict(late), 2);
    let new = rig
        .broker
        .change_document(&name("flow"), 0, Some("yours".into()));
    assert_eq!(conflict(new), 2, "it is there already");
    assert_eq!(content(&rig, "flow"), (2, Some("mine".into())));
    // Whoever reads it again can go on.
    assert_eq!(change(&rig, "flow", 2, Some("yours")).await, 3);
}

/// The control: plain state has no such comparison, and the first of the two is overwritten.
#[tokio::test]
async fn control_of_two_writes_of_state_one_is_lost() {
    let rig = Rig::new();
    let (epoch, _) = rig.broker.raise_epoch(&name("b")).unwrap();
    for value in ["mine", "yours"] {
        let write = StateWrite::Set {
            key: "flow".into(),
            value: value.into(),
        };
        let written = rig.broker.commit(Commit {
            state: Some(StateCommit {
                bucket: name("b"),
                epoch,
                writes: vec![write],
            }),
            ..Commit::default()
        });
        assert!(written.is_ok());
    }
    assert_eq!(
        rig.broker.state(&name("b"), b"flow").unwrap().unwrap(),
        "yours"
    );
}

#[tokio::test]
async fn every_success_of_many_writers_counts_once() {
    const WRITERS: usize = 4;
    const CHANGES: usize = 50;
    let rig = Rig::new();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let broker = rig.broker.clone();
            std::thread::spawn(move || {
                let mut changes = 0;
                while changes < CHANGES {
                    let known = broker.document(&name("flow"));
                    let count: u64 = known.content.map_or(0, |text| {
                        String::from_utf8(text.to_vec()).unwrap().parse().unwrap()
                    });
                    let next = (count + 1).to_string().into();
                    match broker.change_document(&name("flow"), known.revision, Some(next)) {
                        Ok(_) => changes += 1,
                        Err(DocumentError::Conflict { .. }) => {}
                        Err(DocumentError::Commit(CommitError::Send(PublishError::Journal(
                            AppendError::NotReady,
                        )))) => std::thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        let joined = tokio::task::spawn_blocking(|| writer.join());
        joined.await.unwrap().unwrap();
    }
    let all = (WRITERS * CHANGES) as u64;
    assert_eq!(content(&rig, "flow"), (all, Some(all.to_string())));
}

#[tokio::test]
async fn a_removal_is_a_revision_and_keeps_its_number() {
    let rig = Rig::new();
    let missing = rig.broker.change_document(&name("flow"), 0, None);
    assert!(matches!(missing, Err(DocumentError::Missing { .. })));
    change(&rig, "flow", 0, Some("first")).await;
    assert_eq!(change(&rig, "flow", 1, None).await, 2);
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(content(&rig, "flow"), (2, None));
    for late in [0, 1] {
        let again = rig
            .broker
            .change_document(&name("flow"), late, Some("late".into()));
        assert_eq!(conflict(again), 2, "who knows revision {late} is late");
    }
    let again = rig.broker.change_document(&name("flow"), 2, None);
    assert!(matches!(again, Err(DocumentError::Missing { .. })));
    assert_eq!(change(&rig, "flow", 2, Some("again")).await, 3);
}

const CHANGES: u64 = 6;

/// Crashes at every operation of the disk in turn: what was confirmed is there, and at most the next
/// one besides.
#[tokio::test]
async fn a_confirmed_change_survives_every_crash() {
    let mut crashes = 0;
    for operation in 0.. {
        let storage = MemoryStorage::new(operation);
        let rig = Rig::on(storage, Settings::default(), small_journal());
        rig.publish("other", "x", true).await;
        rig.storage.fail(Operation::Any, operation, Fault::Crash);
        let mut confirmed = 0;
        for revision in 0..CHANGES {
            let text = (revision + 1).to_string();
            let changed = rig
                .broker
                .change_document(&name("flow"), revision, Some(text.into()));
            let Ok((_, Some(stored))) = changed else {
                break;
            };
            if rig.broker.journal().wait(stored).await.is_err() {
                break;
            }
            confirmed = revision + 1;
        }
        let crashed = rig.storage.is_crashed();
        let loss = [Loss::Torn, Loss::Unsynced, Loss::Nothing][operation as usize % 3];
        let rig = rig.crash(loss);
        let (revision, text) = content(&rig, "flow");
        assert!(
            (confirmed..=confirmed + 1).contains(&revision),
            "{confirmed} were confirmed, {revision} are there"
        );
        let expected = (revision > 0).then(|| revision.to_string());
        assert_eq!(text, expected);
        assert_eq!(
            change(&rig, "flow", revision, Some("on")).await,
            revision + 1
        );
        if !crashed {
            break;
        }
        crashes += 1;
    }
    assert!(crashes >= CHANGES, "{crashes}");
}

#[tokio::test]
async fn a_list_goes_by_prefix_and_in_pages() {
    let rig = Rig::new();
    for document in ["b/2", "a/1", "b/1", "b/3", "c", "b"] {
        change(&rig, document, 0, Some(document)).await;
    }
    change(&rig, "b/2", 1, None).await;
    let list = |prefix, after, documents_max| -> Vec<String> {
        let documents = rig.broker.documents(prefix, after, documents_max);
        let shown = |(name, document): (kernel::Name, broker::Document)| {
            let removed = if document.content.is_none() { "-" } else { "" };
            format!("{removed}{name}@{}", document.revision)
        };
        documents.into_iter().map(shown).collect()
    };
    assert_eq!(list("b/", None, 9), ["b/1@1", "-b/2@2", "b/3@1"]);
    assert_eq!(list("b/", None, 2), ["b/1@1", "-b/2@2"]);
    assert_eq!(list("b/", Some("b/2"), 2), ["b/3@1"]);
    assert_eq!(
        list("b/", Some("a"), 1),
        ["b/1@1"],
        "it begins at the prefix"
    );
    assert_eq!(list("b/", Some("c"), 9), [""; 0]);
    assert_eq!(list("", None, 9).len(), 6);
    assert_eq!(list("x", None, 9), [""; 0]);
    assert!(Rig::new().broker.documents("", None, 9).is_empty());
}

#[tokio::test]
async fn nobody_else_writes_where_documents_are_kept() {
    let rig = Rig::new();
    change(&rig, "flow", 0, Some("first")).await;
    let raised = rig.broker.raise_epoch(&name(DOCUMENTS));
    assert!(matches!(raised, Err(CommitError::Reserved { .. })));
    let write = StateWrite::Remove { key: "flow".into() };
    let written = rig.broker.commit(Commit {
        state: Some(StateCommit {
            bucket: name(DOCUMENTS),
            epoch: 0,
            writes: vec![write],
        }),
        ..Commit::default()
    });
    assert!(matches!(written, Err(CommitError::Reserved { .. })));
    assert_eq!(content(&rig, "flow"), (1, Some("first".into())));
}

#[tokio::test]
async fn limits_hold_and_a_refused_change_leaves_the_document_as_it_was() {
    let rig = Rig::with(Settings {
        bucket_bytes_max: 1_000,
        ..Settings::default()
    });
    change(&rig, "flow", 0, Some("first")).await;
    let too_long = Bytes::from(vec![b'x'; DOCUMENT_BYTES_MAX + 1]);
    let refused = rig.broker.change_document(&name("flow"), 1, Some(too_long));
    assert!(matches!(refused, Err(DocumentError::TooLarge { .. })));
    let too_much = Bytes::from(vec![b'x'; 1_000]);
    let refused = rig.broker.change_document(&name("flow"), 1, Some(too_much));
    assert!(matches!(
        refused,
        Err(DocumentError::Commit(CommitError::StateTooLarge { .. }))
    ));
    assert_eq!(content(&rig, "flow"), (1, Some("first".into())));
    assert_eq!(change(&rig, "flow", 1, Some("second")).await, 2);
}

/// A document that nobody changes moves along when the journal is made short.
#[tokio::test]
async fn documents_do_not_keep_the_whole_journal() {
    let rig = Rig::new();
    change(&rig, "flow", 0, Some("old")).await;
    let segments = |rig: &Rig| rig.broker.journal().segments().len();
    for _ in 0..12 {
        rig.publish_all("busy", &vec!["x".repeat(300); 150], true)
            .await;
        assert_eq!(rig.drain("busy").await.len(), 150);
    }
    assert!(segments(&rig) > 8, "the control: it does keep it");
    until("the journal is short", || {
        rig.broker.tidy();
        segments(&rig) <= 5
    })
    .await;
    let stored = rig.broker.document(&name("flow")).stored;
    rig.wait(stored.expect("it is stored")).await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(content(&rig, "flow"), (1, Some("old".into())));
}
