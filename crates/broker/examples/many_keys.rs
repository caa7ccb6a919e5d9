//! How fast commits are, and how much memory they take, while a bucket's state grows to millions of keys.
//!
//! `cargo run --release -p hivewire-broker --example many_keys -- FOLDER [MILLIONS [MEMORY_MIB]]` makes commits of 100 new
//! keys of 17 bytes each, 64 of them on their way at a time, reports after each million, starts again, and looks keys up.

use std::collections::VecDeque;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{
    Broker, Commit, Position, Settings, StateCommit, StateSettings, StateWrite, SystemClock,
};
use bytes::Bytes;
use journal::{DiskStorage, Options};
use kernel::Name;

const KEYS_PER_COMMIT: u64 = 100;
const COMMITS_UNDERWAY: usize = 64;
const LOOKS: u64 = 100_000;
const TIMEOUT: Duration = Duration::from_secs(60);

fn key(number: u64) -> Bytes {
    let mut key = [b'u'; 17];
    let mixed = u128::from(number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    key[1..].copy_from_slice(&mixed.to_be_bytes());
    Bytes::copy_from_slice(&key)
}

/// Resident memory that is not a page of a file, in MiB.
fn resident_mib() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.ok_or("no RssAnon")?.parse::<u64>()? / 1024)
}

fn start(folder: &Path, memory_mib: usize) -> Result<Arc<Broker>, Box<dyn Error>> {
    let storage = Arc::new(DiskStorage::open(folder.join("journal"))?);
    let settings = Settings {
        state: StateSettings {
            memory_bytes_max: memory_mib << 20,
        },
        ..Settings::default()
    };
    let (state, options) = (folder.join("state"), Options::default());
    let clock = Arc::new(SystemClock);
    Ok(Broker::start_with_state(&state, storage, options, settings, clock)?.0)
}

async fn commit(broker: &Broker, bucket: &Name, first: u64) -> Result<Position, Box<dyn Error>> {
    let set = |number| StateWrite::Set {
        key: key(number),
        value: Bytes::new(),
    };
    let state = StateCommit {
        bucket: bucket.clone(),
        epoch: 0,
        writes: (first..first + KEYS_PER_COMMIT).map(set).collect(),
    };
    loop {
        tokio::time::timeout(TIMEOUT, broker.ready_for_state()).await?;
        let state = Some(state.clone());
        let commit = Commit {
            state,
            ..Commit::default()
        };
        match broker.commit(commit) {
            Ok(stored) => return Ok(stored.ok_or("nothing was stored")?),
            Err(broker::CommitError::Send(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

async fn grow(broker: &Broker, bucket: &Name, millions: u64) -> Result<(), Box<dyn Error>> {
    let mut underway = VecDeque::new();
    for million in 0..millions {
        let started = Instant::now();
        let (first, mut slowest) = (million * 1_000_000, Duration::ZERO);
        for first in (first..first + 1_000_000).step_by(KEYS_PER_COMMIT as usize) {
            let began = Instant::now();
            underway.push_back(commit(broker, bucket, first).await?);
            if underway.len() > COMMITS_UNDERWAY
                && let Some(oldest) = underway.pop_front()
            {
                tokio::time::timeout(TIMEOUT, broker.journal().wait(oldest)).await??;
            }
            slowest = slowest.max(began.elapsed());
        }
        let rate = 10_000.0 / started.elapsed().as_secs_f64();
        let (state, segments) = (broker.state_bytes(), broker.journal().segments().len());
        println!(
            "{:3} million keys: {rate:6.0} commits/s, slowest {:4} ms; resident {} MiB; state {} MiB in memory, {} MiB on disk; {segments} segments",
            million + 1,
            slowest.as_millis(),
            resident_mib()?,
            state.memory >> 20,
            state.disk >> 20,
        );
    }
    Ok(())
}

fn look(broker: &Broker, bucket: &Name, keys: u64) -> Result<(), Box<dyn Error>> {
    for (what, offset) in [("there", 0), ("not there", keys)] {
        let started = Instant::now();
        let mut found = 0;
        for number in 0..LOOKS {
            let number = number * (keys / LOOKS) + offset;
            found += u64::from(broker.state(bucket, &key(number))?.is_some());
        }
        let each = started.elapsed() / LOOKS as u32;
        println!("a look for a key that is {what}: {each:?}, {found} found");
    }
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("name a folder for the data")?;
    let number = |index, usual| {
        arguments
            .get(index)
            .map_or(Ok(usual), |text: &String| text.parse())
    };
    let (millions, memory_mib) = (number(1, 10)?, number(2, 128)?);
    let bucket = Name::new("seen")?;

    let broker = start(Path::new(folder), memory_mib as usize)?;
    println!("at the start: resident {} MiB", resident_mib()?);
    grow(&broker, &bucket, millions).await?;
    drop(broker);

    let started = Instant::now();
    let broker = start(Path::new(folder), memory_mib as usize)?;
    println!(
        "started again in {:?}; resident {} MiB",
        started.elapsed(),
        resident_mib()?
    );
    look(&broker, &bucket, millions * 1_000_000)?;
    println!("resident {} MiB", resident_mib()?);
    Ok(())
}
