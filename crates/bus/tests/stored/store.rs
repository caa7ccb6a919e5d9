//! The shared store by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bus::store::{
    ConsumedIds, MessageId, OutboxEntry, Position, PostgresSettings, PostgresStore, Store,
    StoreCommit,
};
use bus::{AckLevel, BusError, Document, Put, StateWrite};
use hivewire_tests::proxy::{Cut, Proxy};
use kernel::{Destination, Message, Name};

use crate::rig::{POSTGRES, STEP, name, store};

/// A store in a schema of its own, over a network that can be harmed.
async fn over_network(schema: &str) -> Result<(Arc<PostgresStore>, Proxy)> {
    let (uri, address) =
        tokio::task::spawn_blocking(|| (POSTGRES.uri(), POSTGRES.address())).await?;
    let proxy = Proxy::start(address)?;
    let uri = uri.replace(&address.to_string(), &proxy.address().to_string());
    let settings = PostgresSettings {
        reconnect_pause_ms_max: 100,
        ..PostgresSettings::new(format!("{uri}?schema={schema}"))
    };
    Ok((Arc::new(PostgresStore::start(&settings)?), proxy))
}

fn commit(bucket: &Name, epoch: u64, number: u64) -> StoreCommit {
    StoreCommit {
        bucket: bucket.clone(),
        epoch,
        number,
        token: token(number),
        writes: vec![],
        outbox: vec![],
        consumed: vec![],
        published: 0,
    }
}

/// Tokens only have to differ.
fn token(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn set(key: &str, value: &str) -> StateWrite {
    StateWrite::Set {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
    }
}

fn ours(number: u64) -> MessageId {
    MessageId::parse(&format!("hw:sender.1.65537.{number}"))
}

fn consumed(queue: &Name, ids: Vec<MessageId>) -> Vec<ConsumedIds> {
    let queue = queue.clone();
    vec![ConsumedIds { queue, ids }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_commit_happens_once_and_another_of_its_number_never() -> Result<()> {
    let store = store("alone").await?;
    let bucket = name("bucket");
    let epoch = store.raise_epoch(&bucket, STEP).await?;
    ensure!(store.level() == AckLevel::Synced, "{}", store.level());
    let mut first = commit(&bucket, epoch, 1);
    first.writes = vec![set("k", "1")];
    store.commit(&first, STEP).await?;
    store.commit(&first, STEP).await?;
    let other = StoreCommit {
        token: 1,
        ..first.clone()
    };
    let refused = store.commit(&other, STEP).await;
    ensure!(
        matches!(refused, Err(BusError::Fenced { .. })),
        "got {refused:?}"
    );
    let gap = store.commit(&commit(&bucket, epoch, 3), STEP).await;
    ensure!(matches!(gap, Err(BusError::Fenced { .. })), "got {gap:?}");
    let position = store.position(&bucket, STEP).await?;
    ensure!(position == Position { epoch, number: 1 }, "{position:?}");
    store.raise_epoch(&bucket, STEP).await?;
    let fenced = store.commit(&first, STEP).await;
    let expected = BusError::Fenced {
        bucket: bucket.clone(),
        given: epoch,
        current: epoch + 1,
    };
    ensure!(fenced == Err(expected), "got {fenced:?}");
    let nobody = store.position(&name("bucket"), STEP).await?;
    ensure!(nobody == Position::default(), "{nobody:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_stays_until_it_is_published() -> Result<()> {
    let store = store("alone").await?;
    let bucket = name("bucket");
    let epoch = store.raise_epoch(&bucket, STEP).await?;
    let entry = |body: &str| OutboxEntry {
        to: Destination::Queue(name("to")),
        message: Message::new(body.to_owned()),
    };
    let mut entries = Vec::new();
    for number in 1..=4 {
        let mut commit = commit(&bucket, epoch, number);
        commit.outbox = vec![entry("a"), entry("b")];
        // The first one is published when the third is committed.
        commit.published = if number == 3 { 1 } else { 0 };
        entries.push(commit.outbox.clone());
        store.commit(&commit, STEP).await?;
    }
    let numbers = async |after: Position| {
        let outbox = store.outbox(&bucket, after, 10, STEP).await?;
        for commit in &outbox {
            let number = commit.position.number as usize;
            ensure!(commit.entries == entries[number - 1], "commit {number}");
        }
        anyhow::Ok(outbox.iter().map(|c| c.position.number).collect::<Vec<_>>())
    };
    ensure!(numbers(Position::default()).await? == [2, 3, 4]);
    ensure!(numbers(Position { epoch, number: 3 }).await? == [4]);
    let third = Position { epoch, number: 3 };
    store.published(&bucket, third, STEP).await?;
    ensure!(numbers(Position::default()).await? == [4]);

    // What waits too long is found by one, once in a while.
    let age = Duration::from_millis(400);
    let deadline = Instant::now() + STEP;
    loop {
        let (one, other) = tokio::join!(store.abandoned(age, STEP), store.abandoned(age, STEP));
        let found = [one?, other?].concat();
        let count = found.iter().filter(|found| **found == bucket).count();
        ensure!(count <= 1, "two found it");
        if count == 1 {
            break;
        }
        ensure!(Instant::now() < deadline, "nobody found it");
        tokio::time::sleep(age / 8).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumed_ids_are_a_mark_with_gaps_and_never_grow_without_bound() -> Result<()> {
    let store = store("alone").await?;
    let (bucket, queue) = (name("bucket"), name("queue"));
    let epoch = store.raise_epoch(&bucket, STEP).await?;
    let mut number = 0;
    let mut consume = async |ids: Vec<MessageId>| {
        let mut commit = commit(&bucket, epoch, number + 1);
        commit.consumed = consumed(&queue, ids);
        let outcome = store.commit(&commit, STEP).await;
        number += u64::from(outcome.is_ok());
        outcome
    };
    consume(vec![ours(1), ours(2), ours(5), MessageId::parse("x")]).await?;
    for repeated in [ours(5), MessageId::parse("x")] {
        let refused = consume(vec![ours(9), repeated, MessageId::parse("y")]).await;
        ensure!(
            matches!(refused, Err(BusError::NotHeld { .. })),
            "got {refused:?}"
        );
    }
    consume(vec![ours(3), ours(4), ours(7)]).await?;
    let asked = [ours(1), ours(4), ours(6), ours(7), ours(9)];
    let found = store.consumed(&queue, &asked, STEP).await?;
    ensure!(found == [true, true, false, true, false], "{found:?}");
    let asked = ["x", "y"].map(MessageId::parse);
    let found = store.consumed(&queue, &asked, STEP).await?;
    ensure!(found == [true, false], "{found:?}");
    let elsewhere = store.consumed(&name("queue"), &[ours(1)], STEP).await?;
    ensure!(elsewhere == [false], "another queue has the same ids");

    // With too many gaps the oldest are forgotten, never the others.
    let many: Vec<MessageId> = (10..2_000).step_by(2).map(ours).collect();
    consume(many).await?;
    let asked = [ours(1), ours(1_998), ours(1_997)];
    let found = store.consumed(&queue, &asked, STEP).await?;
    ensure!(found == [false, true, false], "{found:?}");
    store.tidy(STEP).await?;
    let found = store.consumed(&queue, &[ours(1_998)], STEP).await?;
    ensure!(found == [true], "tidying forgot what is new");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_change_by_compare_and_swap() -> Result<()> {
    let store = store("alone").await?;
    let document = name("flows/a");
    ensure!(store.document(&document, STEP).await? == Document::default());
    let mut racing = tokio::task::JoinSet::new();
    for racer in 0..8 {
        let (store, document) = (store.clone(), document.clone());
        racing.spawn(async move {
            let body = format!("racer {racer}");
            let body = Some(body.as_bytes());
            store.put_document(&document, 0, body, STEP).await
        });
    }
    let mut stored = 0;
    while let Some(put) = racing.join_next().await {
        match put?? {
            Put::Stored(revision) => {
                ensure!(revision == 1, "it got revision {revision}");
                stored += 1;
            }
            Put::Conflict(revision) => ensure!(revision == 1, "it had {revision}"),
        }
    }
    ensure!(stored == 1, "{stored} racers won");

    let put = async |expected: u64, body: Option<&'static [u8]>| {
        store.put_document(&document, expected, body, STEP).await
    };
    ensure!(put(1, Some(&b"two"[..])).await? == Put::Stored(2));
    ensure!(put(1, Some(&b"late"[..])).await? == Put::Conflict(2));
    ensure!(put(2, None).await? == Put::Stored(3));
    let deleted = Document {
        revision: 3,
        body: None,
    };
    ensure!(store.document(&document, STEP).await? == deleted);
    ensure!(put(0, Some(&b"anew"[..])).await? == Put::Conflict(3));
    ensure!(put(3, Some(&b"anew"[..])).await? == Put::Stored(4));

    let other = Name::new(&format!("{document}%b"))?;
    store.put_document(&other, 0, Some(b"x"), STEP).await?;
    let prefix = document.as_str();
    let found = store.documents(prefix, None, 10, STEP).await?;
    let names: Vec<&Name> = found.iter().map(|(name, _)| name).collect();
    ensure!(names == [&document, &other], "found {names:?}");
    ensure!(found[0].1.body.as_deref() == Some(&b"anew"[..]));
    let page = store.documents(prefix, Some(&document), 1, STEP).await?;
    ensure!(page.len() == 1 && page[0].0 == other, "found {page:?}");
    let none = store
        .documents(&format!("{prefix}_"), None, 10, STEP)
        .await?;
    ensure!(none.is_empty(), "an underscore stood for any letter");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_nodes_may_make_the_schema_at_once() -> Result<()> {
    let uri = tokio::task::spawn_blocking(|| POSTGRES.uri()).await?;
    let settings = PostgresSettings {
        connections: 2,
        ..PostgresSettings::new(format!("{uri}?schema=made_at_once"))
    };
    let bucket = name("bucket");
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let store = PostgresStore::start(&settings)?;
        let bucket = bucket.clone();
        nodes.spawn(async move { store.raise_epoch(&bucket, STEP).await });
    }
    let mut epochs = Vec::new();
    while let Some(epoch) = nodes.join_next().await {
        epochs.push(epoch??);
    }
    epochs.sort_unstable();
    ensure!(epochs == [1, 2, 3, 4, 5, 6], "epochs {epochs:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_whose_answer_was_lost_happen_once() -> Result<()> {
    const COMMITS: u64 = 120;
    let (store, proxy) = over_network("lost_answers").await?;
    proxy.set_delay(Duration::from_millis(1));
    let bucket = name("bucket");
    let epoch = store.raise_epoch(&bucket, STEP).await?;
    for number in 1..=COMMITS {
        let mut commit = commit(&bucket, epoch, number);
        commit.writes = vec![set("last", &number.to_string())];
        commit.consumed = consumed(&bucket, vec![ours(number)]);
        let committing = store.commit(&commit, STEP);
        let cutting = async {
            if number % 3 == 0 {
                let wait = Duration::from_micros(number % 10 * 700);
                tokio::time::sleep(wait).await;
                proxy.cut(Cut::Reset);
            }
        };
        let (committed, ()) = tokio::join!(committing, cutting);
        committed.with_context(|| format!("commit {number}"))?;
    }
    let position = store.position(&bucket, STEP).await?;
    ensure!(position.number == COMMITS, "{position:?}");
    let last = store.state(&bucket, b"last", STEP).await?;
    ensure!(last.as_deref() == Some(COMMITS.to_string().as_bytes()));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_end_in_time_while_nothing_answers() -> Result<()> {
    let (store, proxy) = over_network("nothing_answers").await?;
    let bucket = name("bucket");
    let epoch = store.raise_epoch(&bucket, STEP).await?;
    let timeout = Duration::from_millis(300);

    // It was sent, and nobody knows.
    proxy.pause(true);
    let began = Instant::now();
    let outcome = store.commit(&commit(&bucket, epoch, 1), timeout).await;
    ensure!(began.elapsed() < 3 * timeout, "took {:?}", began.elapsed());
    ensure!(
        matches!(outcome, Err(BusError::InDoubt { .. })),
        "got {outcome:?}"
    );
    proxy.pause(false);
    store.commit(&commit(&bucket, epoch, 1), STEP).await?;

    // It cannot even be sent.
    proxy.refuse(true);
    proxy.cut(Cut::Reset);
    let deadline = Instant::now() + STEP;
    loop {
        let began = Instant::now();
        let outcome = store.raise_epoch(&bucket, timeout).await;
        ensure!(began.elapsed() < 3 * timeout, "took {:?}", began.elapsed());
        match outcome {
            Err(BusError::Timeout { .. }) => break,
            // Until the connection is known to be lost.
            Err(BusError::InDoubt { .. }) if Instant::now() < deadline => {}
            other => anyhow::bail!("got {other:?}"),
        }
    }
    proxy.refuse(false);
    store.raise_epoch(&bucket, STEP).await?;
    Ok(())
}
