//! A process that is killed while it writes leaves whole batches, and all that it said were written.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crawl::store::{Place, Reader, Settings, Store};

use super::contract::{pages, refusal};

const FOLDER: &str = "CRAWL_STORE_TEST_FOLDER";
const TORN: &str = "CRAWL_STORE_TEST_TORN";
const BATCH: u32 = 40;
const KILLS: u32 = 12;

/// What the other process does. Started by itself, it does nothing.
#[test]
fn child_writes_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let is_torn = std::env::var(TORN).is_ok();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let place = Place::Folder(folder.into());
        let mut store = Store::open(&place, Settings::default()).await.unwrap();
        for batch in 0.. {
            let rows = pages(batch * BATCH..(batch + 1) * BATCH);
            let refused = [refusal(&format!("https://a.example/{batch}"), "robots", 1)];
            if is_torn {
                // The control: pages one by one, so that a kill finds batches that are not whole.
                for row in rows {
                    store.write(&[row], &[]).await.unwrap();
                }
                store.write(&[], &refused).await.unwrap();
            } else {
                store.write(&rows, &refused).await.unwrap();
            }
            println!("written {batch}");
        }
    });
}

/// Kills a writer at some time, and gives how many batches it said were written, how many pages there are, and how many refusals.
fn kill(folder: &Path, after: Duration, is_torn: bool) -> (u64, u64, u64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = "kill::child_writes_until_it_is_killed";
    command
        .args(["--exact", name, "--nocapture"])
        .env(FOLDER, folder);
    if is_torn {
        command.env(TORN, "1");
    }
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines
        .map_while(Result::ok)
        .filter(|line| line.contains("written "));
    let mut told = u64::from(lines.next().is_some());
    assert_eq!(told, 1, "the child wrote nothing");
    let begin = Instant::now();
    while begin.elapsed() < after {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    told += lines.count() as u64;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let counts = runtime.block_on(async {
        let place = Place::Folder(folder.to_owned());
        // A writer can go on, and a reader reads.
        drop(Store::open(&place, Settings::default()).await.unwrap());
        Reader::open(&place).await.unwrap().counts().await.unwrap()
    });
    (told, counts.pages, counts.refusals.values().sum())
}

#[test]
fn a_killed_writer_leaves_whole_batches() {
    let mut control_was_torn = false;
    for round in 0..KILLS {
        let after = Duration::from_micros(fastrand::u64(0..30_000));
        let folder = tempfile::tempdir().unwrap();
        let (told, pages, refusals) = kill(folder.path(), after, false);
        assert_eq!(pages, refusals * u64::from(BATCH), "round {round}");
        assert!(
            refusals >= told,
            "round {round}: {refusals} of {told} batches are left"
        );

        let folder = tempfile::tempdir().unwrap();
        let (_, pages, refusals) = kill(folder.path(), after, true);
        control_was_torn |= pages != refusals * u64::from(BATCH);
    }
    assert!(control_was_torn, "the control never left part of a batch");
}
