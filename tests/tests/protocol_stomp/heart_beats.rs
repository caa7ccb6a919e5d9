//! Heart-beats.

use std::time::{Duration, Instant};

use hivewire_tests::hive::Hive;
use tempfile::TempDir;

use crate::wire::{TIMEOUT, Wire};

fn hive_with_heart_beats(milliseconds: u64) -> (Hive, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("hivewire.toml");
    let text = format!(
        "[stomp]\nheart_beat_send_ms = {milliseconds}\nheart_beat_want_ms = {milliseconds}\n"
    );
    std::fs::write(&config, text).unwrap();
    let options = Hive::options().argument("--config").argument(&config);
    (options.start().unwrap(), directory)
}

/// How long the broker has kept processors busy, in hundredths of a second.
fn processor_ticks(hive: &Hive) -> u64 {
    let data = hive.data().to_str().unwrap().to_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stat = processes.filter_map(|process| {
        let command = std::fs::read_to_string(process.path().join("cmdline")).ok()?;
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        command.contains(&data).then_some(stat)
    });
    let stat = stat.last().expect("the broker runs");
    // After the name of the program, which stands in brackets, fields 14 and 15 count from 3.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    fields[11..13]
        .iter()
        .map(|f| f.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn heart_beats_are_line_feeds_and_a_silent_client_is_told() {
    let (hive, _config) = hive_with_heart_beats(500);
    let mut wire = Wire::open(&hive);
    wire.send("CONNECT\naccept-version:1.2\nhost:/\nheart-beat:500,500\n\n\0");
    assert!(wire.frame().ends_with("heart-beat:500,500\n\n\0"));
    for _ in 0..5 {
        wire.expect("\n");
        wire.send("\n");
    }
    let silent_since = Instant::now();
    while wire.read(silent_since + TIMEOUT) && !wire.text().contains("ERROR") {}
    let silent = silent_since.elapsed();
    assert!(
        silent >= Duration::from_millis(750),
        "hung up after {silent:?}"
    );
    wire.pending.drain(..wire.text().find("ERROR").unwrap());
    wire.expect_error("heart-beat missing");
}

/// Heart-beats that a client does not take must not pile up, nor keep the broker busy.
#[test]
fn heart_beats_to_a_client_that_does_not_read_cost_nothing() {
    let (hive, _config) = hive_with_heart_beats(50);
    let mut wire = Wire::open(&hive);
    wire.send("CONNECT\naccept-version:1.2\nhost:/\nheart-beat:0,50\n\n\0");
    assert!(wire.frame().starts_with("CONNECTED\n"));
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/blocked\n\n\0");
    let mut sender = Wire::connected(&hive);
    let body = "x".repeat(1 << 20);
    for _ in 0..24 {
        sender.send(format!(
            "SEND\ndestination:/queue/blocked\nreceipt:r\n\n{body}\0"
        ));
        sender.expect("RECEIPT\nreceipt-id:r\nack-level:memory\n\n\0");
    }
    // It is blocked by now: 24 MiB do not fit into the buffers of two sockets.
    // One that is kept busy is so all the time; one that tidies up after itself is not.
    let rests = (0..5).any(|_| {
        let before = processor_ticks(&hive);
        std::thread::sleep(Duration::from_secs(1));
        processor_ticks(&hive) - before < 10
    });
    assert!(rests, "the broker never rests");
    for _ in 0..24 {
        assert!(wire.frame().ends_with("x\0"));
    }
}
