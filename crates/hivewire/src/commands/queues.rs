//! `hivewire queues`

use std::io::{IsTerminal, Write};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::Global;
use super::output::{json_line, printable, table};
use crate::exit::Exit;

const WATCH_EVERY: Duration = Duration::from_secs(1);
const NAME_CHARACTERS_MAX: usize = 60;
/// Moves to the top left and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(Debug, Args)]
pub(super) struct Queues {
    /// Show them again every second
    #[arg(long)]
    watch: bool,
}

impl Queues {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        loop {
            let answer = client.get_all("/api/v1/queues", "queues")?;
            if global.json {
                json_line(&answer)?;
            } else {
                self.print(&answer)?;
            }
            if !self.watch {
                return Ok(Exit::Done);
            }
            thread::sleep(WATCH_EVERY);
        }
    }

    fn print(&self, answer: &Value) -> anyhow::Result<()> {
        let rows: Vec<Vec<String>> = answer["queues"]
            .as_array()
            .into_iter()
            .flatten()
            .map(row)
            .collect();
        let text = table(&TITLES, &NUMBERS, &rows);
        let mut stdout = std::io::stdout().lock();
        if self.watch && stdout.is_terminal() {
            stdout.write_all(CLEAR.as_bytes())?;
        }
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }
}

const TITLES: [&str; 8] = [
    "queue",
    "depth",
    "on disk",
    "unacknowledged",
    "consumers",
    "in/s",
    "out/s",
    "oldest",
];
const NUMBERS: [usize; 7] = [1, 2, 3, 4, 5, 6, 7];

fn row(queue: &Value) -> Vec<String> {
    let number = |key: &str| queue[key].as_u64().unwrap_or_default().to_string();
    let rate = |key: &str| format!("{:.0}", queue[key].as_f64().unwrap_or_default());
    vec![
        printable(
            queue["name"].as_str().unwrap_or_default(),
            NAME_CHARACTERS_MAX,
        ),
        number("waiting"),
        number("on_disk"),
        number("unacknowledged"),
        number("consumers"),
        rate("in_per_second"),
        rate("out_per_second"),
        queue["oldest_age_ms"].as_u64().map_or("-".into(), age),
    ]
}

fn age(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_fitting_unit() {
        let shown = [0, 999, 1_000, 60_000, 7_200_000, 200_000_000].map(age);
        assert_eq!(shown, ["0 ms", "999 ms", "1 s", "1 min", "2 h", "2 d"]);
    }
}
