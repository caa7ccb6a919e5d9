//! Queries as dataflows of Bytewax, in a process of its own.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::NamedTempFile;

use super::events::Event;
use super::generator::event;
use super::lines::line;
use super::{Outcome, Query};
use crate::peers::program::output_of;
use crate::workers::{PATIENCE, Result, WorkerError, refused};

const WORKERS: &str = "1";

/// Runs a query over so many events, which are made before and read into memory before the clock runs.
pub fn run(query: Query, events: u32) -> Result<Outcome> {
    let file = match query {
        Query::WordCount => write(events, |lines, number| writeln!(lines, "{}", line(number))),
        _ => write(events, |lines, number| write_event(lines, &event(number))),
    };
    let file = file.map_err(refused("write events"))?;
    let text = run_python(query, file.path())?;
    outcome(&text).ok_or_else(|| WorkerError::Refused {
        action: "run Bytewax".to_owned(),
        reason: format!("it printed {text:?} instead of seconds and a checksum"),
    })
}

fn outcome(text: &str) -> Option<Outcome> {
    let (seconds, checksum) = text.trim().split_once(' ')?;
    Some(Outcome {
        elapsed: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        checksum: checksum.parse().ok()?,
    })
}

/// Writes so many lines.
fn write(
    count: u32,
    write_one: impl Fn(&mut BufWriter<&NamedTempFile>, u64) -> std::io::Result<()>,
) -> std::io::Result<NamedTempFile> {
    let file = NamedTempFile::new()?;
    let mut lines = BufWriter::new(&file);
    for number in 0..u64::from(count) {
        write_one(&mut lines, number)?;
    }
    lines.flush()?;
    drop(lines);
    Ok(file)
}

/// Words between tabs.
fn write_event(lines: &mut impl Write, event: &Event) -> std::io::Result<()> {
    match event {
        Event::Person(person) => writeln!(
            lines,
            "0\t{}\t{}\t{}\t{}\t{}",
            person.time_ms, person.id, person.name, person.city, person.state
        ),
        Event::Auction(auction) => writeln!(
            lines,
            "1\t{}\t{}\t{}\t{}\t{}\t{}",
            auction.time_ms,
            auction.id,
            auction.seller,
            auction.category,
            auction.initial_bid,
            auction.expires_ms
        ),
        Event::Bid(bid) => writeln!(
            lines,
            "2\t{}\t{}\t{}\t{}",
            bid.time_ms, bid.auction, bid.bidder, bid.price
        ),
    }
}

/// What the program printed.
fn run_python(query: Query, events: &Path) -> Result<String> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python(bench));
    command
        .arg(bench.join("src/streams/bytewax/queries.py"))
        .arg(query.name())
        .arg(events)
        .arg(WORKERS);
    output_of("Bytewax", command, PATIENCE).map_err(refused("run Bytewax"))
}

fn python(bench: &Path) -> PathBuf {
    bench
        .parent()
        .unwrap_or(bench)
        .join(".tools/venv/bin/python")
}
