//! Memory keeps to its bound, whatever the disk does.

use journal::testing::Loss;

use super::rig::{Fault, Rig, name, set, settings, until};
use crate::{Commit, CommitError, DOCUMENTS, Settings, StateCommit};

const BUDGET_BYTES: usize = 16 << 20;
const KEYS: u32 = 1_000_000;

/// Keys that have no order.
fn key(number: u32) -> [u8; 17] {
    let mut key = [b'u'; 17];
    let mixed = u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    key[1..].copy_from_slice(&mixed.to_be_bytes());
    key
}

#[tokio::test]
async fn a_million_keys_take_no_more_memory_than_allowed() {
    let mut rig = Rig::new(settings(BUDGET_BYTES));
    let mut most = 0;
    for first in (0..KEYS).step_by(500) {
        let writes = (first..first + 500).map(|number| set(&key(number), b""));
        rig.commit("seen", 0, writes.collect()).await;
        most = most.max(rig.broker.state_bytes().memory as usize);
    }
    // One commit comes on top, which was let in when there was room.
    assert!(
        most < BUDGET_BYTES + 500 * 200,
        "{most} bytes were in memory"
    );
    rig.until_moved().await;
    assert!(rig.broker.state_bytes().disk > 17 * 500_000);
    for _ in 0..2 {
        assert_eq!(rig.pairs("seen", 10_000).len(), KEYS as usize);
        for number in (0..KEYS).step_by(997) {
            assert!(rig.get("seen", &key(number)).is_some(), "{number} is gone");
            assert!(rig.get("seen", &key(KEYS + number)).is_none());
        }
        rig = rig.crash(Loss::Unsynced);
        assert!((rig.broker.state_bytes().memory as usize) < BUDGET_BYTES + 500 * 200);
    }
}

#[tokio::test]
async fn without_space_state_stays_in_memory_until_there_is_some() {
    let rig = Rig::new(settings(2_000));
    rig.fail_next_move(Fault::Full);
    for number in 0..40 {
        rig.commit("b", 0, vec![set(&[number], &[0; 100])]).await;
    }
    until("the move failed", || rig.fault_is_over()).await;
    assert_eq!(rig.pairs("b", 7).len(), 40);
    rig.until_moved().await;
    assert!(rig.generation() > 0);
    assert_eq!(rig.pairs("b", 7).len(), 40);
}

#[tokio::test]
async fn with_a_broken_store_state_stays_in_memory_and_commits_go_on() {
    let rig = Rig::new(settings(2_000));
    rig.fail_next_move(Fault::Before);
    for number in 0..100 {
        rig.commit("b", 0, vec![set(&[number], &[0; 100])]).await;
    }
    assert!(!rig.broker.state_store_works());
    assert!(rig.broker.state_bytes().memory > 20_000);
    assert_eq!(rig.pairs("b", 7).len(), 100);
    rig.all_durable().await;
    let rig = rig.crash(Loss::Nothing);
    rig.until_moved().await;
    assert_eq!(rig.pairs("b", 7).len(), 100);
}

#[tokio::test]
async fn little_state_never_goes_to_disk() {
    let rig = Rig::new(settings(1 << 20));
    for number in 0..100 {
        rig.commit("b", 0, vec![set(&[number], &[0; 100])]).await;
    }
    rig.clean(4).await;
    assert_eq!(rig.generation(), 0);
    assert!(!rig.state_folder().exists());
}

#[tokio::test]
async fn documents_stay_in_memory() {
    let rig = Rig::new(settings(2_000));
    for number in 0..40 {
        let document = name(&format!("document{number}"));
        let content = Some(vec![0; 200].into());
        rig.broker.ready().await;
        rig.broker.change_document(&document, 0, content).unwrap();
    }
    rig.commit("b", 0, vec![set(b"k", b"v")]).await;
    assert!(rig.broker.state_bytes().memory < 500);
    assert_eq!(rig.generation(), 0);
    assert_eq!(rig.broker.documents("", None, 100).len(), 40);
    assert!(rig.broker.find_bucket(&name(DOCUMENTS)).is_some());
}

/// What is changed again and again counts once, although memory and disk both have something of it.
#[tokio::test]
async fn the_limit_of_a_bucket_counts_pairs_once() {
    let rig = Rig::new(Settings {
        bucket_bytes_max: 10_000,
        ..settings(4_000)
    });
    let fill = |value: u8| (0..20).map(move |key| set(&[key], &[value; 300])).collect();
    for value in 0..20 {
        rig.commit("b", 0, fill(value)).await;
    }
    rig.until_moved().await;
    assert!(rig.generation() > 0);
    let more = StateCommit {
        bucket: name("b"),
        epoch: 0,
        writes: (20..30).map(|key| set(&[key], &[0; 300])).collect(),
    };
    let refused = loop {
        rig.broker.ready_for_state().await;
        let state = Some(more.clone());
        let commit = Commit {
            state,
            ..Commit::default()
        };
        match rig.broker.commit(commit).unwrap_err() {
            CommitError::Send(_) => {}
            refused => break refused,
        }
    };
    assert!(
        matches!(refused, CommitError::StateTooLarge { bytes: 12_870, .. }),
        "{refused}"
    );
}

/// A key that the store does not take keeps its bucket in memory, and no other.
#[tokio::test]
async fn a_bucket_with_a_very_long_key_stays_in_memory() {
    let rig = Rig::with_large_records(settings(200_000));
    let long = vec![b'k'; 70_000];
    rig.commit("long", 0, vec![set(&long, b"v")]).await;
    for number in 0..200 {
        rig.commit("b", 0, vec![set(&[number], &[0; 1_000])]).await;
    }
    rig.until_moved().await;
    assert!(rig.generation() > 0);
    assert!(rig.broker.state_bytes().memory > 70_000);
    let rig = rig.crash(Loss::Nothing);
    assert_eq!(rig.get("long", &long).unwrap(), "v");
    assert_eq!(rig.pairs("b", 50).len(), 200);
}
