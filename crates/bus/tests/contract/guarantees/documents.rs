//! Documents: whoever changes one names the revision that he knows.

use anyhow::{Result, ensure};
use bus::{Document, Put};
use bytes::Bytes;
use kernel::Name;

use crate::suite::{Guarantee, STEP, World, guarantee};

pub const ALL: &[Guarantee] = &[
    guarantee!(
        Commit,
        "a document changes only from what is known",
        compare_and_swap
    ),
    guarantee!(Commit, "of many who change a document one wins", one_wins),
    guarantee!(Commit, "documents are listed in order", listed),
    guarantee!(CommitAndRestart, "documents survive a crash", survive),
];

fn document(revision: u64, body: Option<&'static str>) -> Document {
    Document {
        revision,
        body: body.map(|body| Bytes::from_static(body.as_bytes())),
    }
}

async fn compare_and_swap(world: &World) -> Result<()> {
    let name = world.name();
    let put = |expected, body: Option<&'static str>| {
        let body = body.map(str::as_bytes);
        world.bus.put_document(&name, expected, body, STEP)
    };
    let read = || world.bus.document(&name, STEP);
    ensure!(read().await? == Document::default(), "it is there already");
    ensure!(put(0, Some("one")).await? == Put::Stored(1), "not made");
    ensure!(read().await? == document(1, Some("one")), "not read back");
    let again = put(0, Some("two")).await?;
    ensure!(again == Put::Conflict(1), "made twice: {again:?}");
    ensure!(put(1, Some("")).await? == Put::Stored(2), "not changed");
    ensure!(read().await? == document(2, Some("")), "not empty");
    let late = put(1, Some("late")).await?;
    ensure!(
        late == Put::Conflict(2),
        "changed from an older revision: {late:?}"
    );
    ensure!(put(2, None).await? == Put::Stored(3), "not deleted");
    ensure!(read().await? == document(3, None), "still there");
    let late = put(2, Some("late")).await?;
    ensure!(
        late == Put::Conflict(3),
        "brought back by mistake: {late:?}"
    );
    ensure!(
        put(3, Some("again")).await? == Put::Stored(4),
        "not made again"
    );
    Ok(())
}

/// Several clients add to one number, each as often.
async fn one_wins(world: &World) -> Result<()> {
    const CLIENTS: usize = 4;
    const EACH: usize = 10;
    let name = world.name();
    let mut adding = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let bus = world.fixture.connect().await?;
        let name = name.clone();
        adding.spawn(async move {
            let mut added = 0;
            while added < EACH {
                let known = bus.document(&name, STEP).await?;
                let text = known.body.as_deref().map(String::from_utf8_lossy);
                let count: usize = text.as_deref().unwrap_or("0").parse()?;
                let next = (count + 1).to_string();
                let put = bus.put_document(&name, known.revision, Some(next.as_bytes()), STEP);
                if let Put::Stored(_) = put.await? {
                    added += 1;
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(added) = adding.join_next().await {
        added??;
    }
    let total = world.bus.document(&name, STEP).await?;
    let expected = (CLIENTS * EACH).to_string();
    ensure!(
        total.body.as_deref() == Some(expected.as_bytes()),
        "{CLIENTS} times {EACH} changes gave {total:?}"
    );
    Ok(())
}

async fn listed(world: &World) -> Result<()> {
    let prefix = format!("{}.", world.name());
    let name = |number: usize| Name::new(&format!("{prefix}{number:02}"));
    // In another order than they are listed in.
    for number in [7, 3, 0, 9, 5, 1, 2, 8, 4, 6] {
        let (name, body) = (name(number)?, number.to_string());
        let put = world
            .bus
            .put_document(&name, 0, Some(body.as_bytes()), STEP);
        ensure!(put.await? == Put::Stored(1));
    }
    ensure!(world.bus.put_document(&name(4)?, 1, None, STEP).await? == Put::Stored(2));
    let mut all: Vec<(Name, Document)> = Vec::new();
    loop {
        let after = all.last().map(|(name, _)| name.clone());
        let next = world
            .bus
            .documents(&prefix, after.as_ref(), 3, STEP)
            .await?;
        ensure!(next.len() <= 3, "more than asked for");
        if next.is_empty() {
            break;
        }
        all.extend(next);
    }
    ensure!(all.len() == 10, "{} of 10 are listed", all.len());
    for (number, (found, document)) in all.iter().enumerate() {
        ensure!(*found == name(number)?, "{found} stands at {number}");
        let expected = (number != 4).then(|| Bytes::from(number.to_string()));
        ensure!(document.body == expected, "{found} holds {document:?}");
    }
    Ok(())
}

async fn survive(world: &World) -> Result<()> {
    let (kept, deleted) = (world.name(), world.name());
    for (name, revision, body) in [
        (&kept, 0, Some(&b"first"[..])),
        (&kept, 1, Some(b"second")),
        (&deleted, 0, Some(b"short-lived")),
        (&deleted, 1, None),
    ] {
        let put = world.bus.put_document(name, revision, body, STEP).await?;
        ensure!(put == Put::Stored(revision + 1), "{name}: {put:?}");
    }
    let after = world.restarted().await?;
    let found = after.bus.document(&kept, STEP).await?;
    ensure!(found == document(2, Some("second")), "{found:?}");
    let found = after.bus.document(&deleted, STEP).await?;
    ensure!(found == document(2, None), "{found:?}");
    Ok(())
}
