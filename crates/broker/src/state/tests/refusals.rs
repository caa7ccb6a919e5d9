//! A store that is damaged, lost, or another one is never served.

use std::fs;
use std::sync::Arc;

use journal::testing::{Loss, MemoryStorage};

use super::rig::{Rig, set, settings, start};
use crate::StartError;

/// A rig that has moved state to disk several times.
async fn moved() -> Rig {
    let rig = Rig::new(settings(2_000));
    for number in 0..60 {
        rig.commit("b", 0, vec![set(&[number], &[0; 100])]).await;
        if number % 10 == 0 {
            rig.until_moved().await;
        }
    }
    rig.until_moved().await;
    assert!(rig.generation() > 2);
    rig
}

fn refused(rig: &Rig, storage: &MemoryStorage) -> String {
    let started = start(storage, &rig.state_folder(), &rig.settings, &Arc::default());
    match started {
        Ok(_) => panic!("it started"),
        Err(error @ (StartError::State(_) | StartError::OtherState(_))) => error.to_string(),
        Err(error) => panic!("another error: {error}"),
    }
}

#[tokio::test]
async fn control_an_intact_store_is_served() {
    let rig = moved().await;
    let rig = rig.crash(Loss::Unsynced);
    assert_eq!(rig.pairs("b", 10).len(), 60);
}

#[tokio::test]
async fn a_lost_store_is_refused() {
    let rig = moved().await;
    let storage = rig.end(Loss::Nothing);
    fs::remove_dir_all(rig.state_folder()).unwrap();
    let reason = refused(&rig, &storage);
    assert!(reason.contains("on disk are 0"), "{reason}");
}

#[tokio::test]
async fn an_older_store_is_refused() {
    let rig = moved().await;
    rig.end(Loss::Nothing);
    let kept = rig.state_folder().with_extension("kept");
    copy(&rig.state_folder(), &kept);
    let rig = rig.crash(Loss::Nothing);
    for number in 0..60 {
        rig.commit("b", 0, vec![set(&[number], &[1; 100])]).await;
    }
    rig.until_moved().await;
    let storage = rig.end(Loss::Nothing);
    fs::remove_dir_all(rig.state_folder()).unwrap();
    fs::rename(kept, rig.state_folder()).unwrap();
    let reason = refused(&rig, &storage);
    assert!(reason.contains("do not belong together"), "{reason}");
}

#[tokio::test]
async fn a_store_without_its_journal_is_refused() {
    let rig = moved().await;
    rig.end(Loss::Nothing);
    let reason = refused(&rig, &MemoryStorage::new(8));
    assert!(reason.contains("0 times"), "{reason}");
    let other = moved().await;
    let storage = other.end(Loss::Nothing);
    let reason = refused(&rig, &storage);
    assert!(reason.contains("another store"), "{reason}");
}

/// Damage in what is read at the start refuses the start; damage elsewhere fails the read. Nothing wrong is served.
#[tokio::test]
async fn a_damaged_store_is_never_read_as_whole() {
    let rig = moved().await;
    let before = rig.pairs("b", 100);
    let storage = rig.end(Loss::Nothing);
    let kept = rig.state_folder().with_extension("kept");
    copy(&rig.state_folder(), &kept);
    let (mut starts, mut refusals) = (0, 0);
    for file in files(&kept) {
        for at in [0.1, 0.5, 0.9] {
            fs::remove_dir_all(rig.state_folder()).unwrap();
            copy(&kept, &rig.state_folder());
            let file = rig.state_folder().join(file.strip_prefix(&kept).unwrap());
            let mut bytes = fs::read(&file).unwrap();
            let place = (bytes.len() as f64 * at) as usize;
            bytes[place] ^= 0x55;
            fs::write(&file, bytes).unwrap();
            let storage = storage.copy();
            let started = start(
                &storage,
                &rig.state_folder(),
                &rig.settings,
                &Arc::default(),
            );
            let Ok(broker) = started else {
                refusals += 1;
                continue;
            };
            starts += 1;
            match broker.scan_state(&super::rig::name("b"), None, 100) {
                Ok(pairs) => assert!(pairs == before, "damage in {file:?} was served"),
                Err(_) => refusals += 1,
            }
        }
    }
    assert!(refusals > 0, "no damage was found in {starts} starts");
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).unwrap();
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
}
