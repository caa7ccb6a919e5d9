//! A store in a folder.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crawl::store::{Place, Reader, Settings, Store, StoreError};

use super::contract::{self, pages};

fn place(folder: &Path) -> Place {
    Place::Folder(folder.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_a_folder_does_what_stores_do() {
    let folder = tempfile::tempdir().unwrap();
    contract::holds(&place(&folder.path().join("made/if/need/be"))).await;
}

#[tokio::test]
async fn without_bodies_there_is_all_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        keeps_bodies: false,
        ..Settings::default()
    };
    let mut store = Store::open(&place(folder.path()), settings).await.unwrap();
    store.write(&pages(0..3), &[]).await.unwrap();
    let mut reader = Reader::open(&place(folder.path())).await.unwrap();
    let url = contract::page(1).url;
    assert!(reader.page(&url).await.unwrap().unwrap().text.is_some());
    assert_eq!(reader.body(&url, 1 << 20).await.unwrap(), None);
}

/// What the readers see is whole batches, while it is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn readers_read_beside_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    let mut store = Store::open(&place, Settings::default()).await.unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (place, is_done) = (place.clone(), is_done.clone());
        readers.spawn(async move {
            let mut reader = Reader::open(&place).await.unwrap();
            let mut last = 0;
            while !is_done.load(Ordering::Relaxed) {
                let pages = reader.counts().await.unwrap().pages;
                assert!(
                    pages >= last && pages.is_multiple_of(50),
                    "{pages} after {last}"
                );
                last = pages;
            }
            reader.counts().await.unwrap().pages
        });
    }
    for batch in 0..40 {
        store
            .write(&pages(batch * 50..(batch + 1) * 50), &[])
            .await
            .unwrap();
    }
    is_done.store(true, Ordering::Relaxed);
    while let Some(pages) = readers.join_next().await {
        assert_eq!(pages.unwrap(), 2_000);
    }
}

#[tokio::test]
async fn what_is_no_store_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let (file, place) = (folder.path().join("crawl.db"), place(folder.path()));
    let both = async || {
        let write = Store::open(&place, Settings::default())
            .await
            .err()
            .unwrap();
        let read = Reader::open(&place).await.err().unwrap();
        [write, read]
    };

    std::fs::write(&file, "this is a text, and no database at all".repeat(100)).unwrap();
    for error in both().await {
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("crawl anew"));
    }

    std::fs::remove_file(&file).unwrap();
    let other = rusqlite::Connection::open(&file).unwrap();
    other
        .execute_batch("CREATE TABLE mine (a); INSERT INTO mine VALUES (1)")
        .unwrap();
    for error in both().await {
        assert!(matches!(error, StoreError::Foreign(_)), "{error}");
    }
    // It was left as it was.
    let kept: i64 = other
        .query_row("SELECT a FROM mine", (), |row| row.get(0))
        .unwrap();
    assert_eq!(kept, 1);

    drop(other);
    std::fs::remove_file(&file).unwrap();
    drop(Store::open(&place, Settings::default()).await.unwrap());
    let newer = rusqlite::Connection::open(&file).unwrap();
    newer
        .execute_batch("UPDATE schema SET version = 99")
        .unwrap();
    for error in both().await {
        assert!(
            matches!(error, StoreError::Newer { found: 99, .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn damage_in_the_middle_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (file, place) = (folder.path().join("crawl.db"), place(folder.path()));
    let mut store = Store::open(&place, Settings::default()).await.unwrap();
    store.write(&pages(0..2_000), &[]).await.unwrap();
    drop(store);
    let mut bytes = std::fs::read(&file).unwrap();
    let length = bytes.len();
    bytes[8_192..length].fill(0xab);
    std::fs::write(&file, bytes).unwrap();
    let problem = match Reader::open(&place).await {
        Ok(mut reader) => reader.counts().await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(problem, StoreError::Damaged { .. }), "{problem}");
}
