//! Measures a journal: appends in memory, syncs, group commit. Usage: `journal_speed FOLDER [SECONDS]`.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hivewire_journal::{
    DiskStorage, Journal, Options, Position, Storage, Sync, testing::MemoryStorage,
};

const RECORD: [u8; 200] = [7; 200];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: journal_speed FOLDER [SECONDS]")?;
    let time = Duration::from_secs(arguments.next().map_or(Ok(3), |text| text.parse())?);
    append_in_memory()?;
    for window in [1, 10, 100, 1000, 10_000] {
        on_disk(Path::new(&folder), window, time)?;
    }
    Ok(())
}

/// How fast `append` itself is, once the buffers have grown; the disk is in memory and not synced.
fn append_in_memory() -> Result<(), Box<dyn std::error::Error>> {
    const COUNT: u32 = 20_000;
    let options = Options {
        sync: Sync::Off,
        ..Options::default()
    };
    let (journal, _) = Journal::open(Arc::new(MemoryStorage::new(1)), options, &mut |_, _| {})?;
    let mut best = Duration::MAX;
    for _ in 0..100 {
        while !journal.is_ready() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut last = Position::ZERO;
        let started = Instant::now();
        for _ in 0..COUNT {
            last = journal.append(&[&RECORD], 0)?;
        }
        best = best.min(started.elapsed());
        while !journal.durable().covers(last) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    println!(
        "append of 200 bytes in memory: {} ns, {:.0}/s",
        best.as_nanos() / COUNT as u128,
        per_second(COUNT, best)
    );
    Ok(())
}

/// One producer that has at most `window` records not yet durable.
fn on_disk(folder: &Path, window: usize, time: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let folder = folder.join(format!("window-{window}"));
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage::open(&folder)?);
    let (journal, _) = Journal::open(storage, Options::default(), &mut |_, _| {})?;
    let (sender, durable) = std::sync::mpsc::sync_channel(1);
    journal.on_durable(Box::new(move |_| _ = sender.try_send(())));
    let mut outstanding: VecDeque<Position> = VecDeque::new();
    let started = Instant::now();
    let mut count = 0u32;
    while started.elapsed() < time {
        while outstanding.len() < window && journal.is_ready() {
            outstanding.push_back(journal.append(&[&RECORD], 1)?);
            count += 1;
        }
        let _ = durable.recv_timeout(Duration::from_millis(100));
        let safe = journal.durable();
        while let Some(position) = outstanding.pop_front_if(|position| safe.covers(*position)) {
            journal.release(position, 1);
        }
    }
    let elapsed = started.elapsed();
    let counters = journal.counters();
    println!(
        "window {window:>6}: {:>8.0} records/s, {:>6.0} syncs/s, {:>5.0} µs per sync, longest {:?}",
        per_second(count, elapsed),
        per_second(counters.syncs as u32, elapsed),
        counters.sync_time.as_micros() as f64 / counters.syncs as f64,
        counters.sync_time_max,
    );
    journal.shutdown()?;
    drop(journal);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

fn per_second(count: u32, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}
