//! `hivewire queues`

use std::collections::{HashMap, HashSet};
use std::io::{IsTerminal, Write};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::Global;
use super::output::{json_line, printable, table};
use crate::client::Client;
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
    /// Show the queues of single buckets and workers, too, instead of adding them to that of their stage
    #[arg(long)]
    parts: bool,
}

impl Queues {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        loop {
            let answer = client.get_all("/api/v1/queues", "queues")?;
            if global.json {
                json_line(&answer)?;
            } else {
                let queues = answer["queues"].as_array().cloned().unwrap_or_default();
                self.print(&match self.parts {
                    true => queues,
                    false => gathered(queues, &stages(&client)?),
                })?;
            }
            if !self.watch {
                return Ok(Exit::Done);
            }
            thread::sleep(WATCH_EVERY);
        }
    }

    fn print(&self, queues: &[Value]) -> anyhow::Result<()> {
        let rows: Vec<Vec<String>> = queues.iter().map(row).collect();
        let text = table(&TITLES, &NUMBERS, &rows);
        let mut stdout = std::io::stdout().lock();
        if self.watch && stdout.is_terminal() {
            stdout.write_all(CLEAR.as_bytes())?;
        }
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }
}

/// The queues of all stages, by name.
fn stages(client: &Client) -> anyhow::Result<HashSet<String>> {
    let answer = client.get_all("/api/v1/flows", "flows")?;
    let flows = answer["flows"].as_array().into_iter().flatten();
    let stages = flows.flat_map(|flow| flow["stages"].as_array().into_iter().flatten());
    let queue = |stage: &Value| Some(stage["spec"]["address"].as_str()?.replace('/', "."));
    Ok(stages.filter_map(queue).collect())
}

/// Adds what waits for single buckets and workers to what waits for their stage.
fn gathered(queues: Vec<Value>, stages: &HashSet<String>) -> Vec<Value> {
    let mut gathered: Vec<Value> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let names = queues.iter().filter_map(|queue| queue["name"].as_str());
    let names: HashSet<String> = names.map(str::to_owned).collect();
    for mut queue in queues {
        let name = queue["name"].as_str().unwrap_or_default();
        let stage = stage_of(name, stages, &names).unwrap_or(name).to_owned();
        match places.get(&stage) {
            Some(at) => add(&mut gathered[*at], &queue),
            None => {
                places.insert(stage.clone(), gathered.len());
                queue["name"] = stage.into();
                gathered.push(queue);
            }
        }
    }
    gathered
}

/// The queue of the stage that this is a part of. The buckets of a stage that was stopped are known by their names alone.
fn stage_of<'a>(
    name: &'a str,
    stages: &HashSet<String>,
    names: &HashSet<String>,
) -> Option<&'a str> {
    let (stage, part) = name.rsplit_once('.')?;
    let bucket = part.strip_prefix('b');
    let digits = bucket.unwrap_or(part);
    let is_part = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = stages.contains(stage) || (bucket.is_some() && names.contains(stage));
    (is_part && is_known).then_some(stage)
}

fn add(to: &mut Value, queue: &Value) {
    for key in ["waiting", "on_disk", "unacknowledged", "consumers"] {
        let sum = to[key].as_u64().unwrap_or_default() + queue[key].as_u64().unwrap_or_default();
        to[key] = sum.into();
    }
    for key in ["in_per_second", "out_per_second"] {
        let sum = to[key].as_f64().unwrap_or_default() + queue[key].as_f64().unwrap_or_default();
        to[key] = sum.into();
    }
    let oldest = to["oldest_age_ms"]
        .as_u64()
        .max(queue["oldest_age_ms"].as_u64());
    to["oldest_age_ms"] = oldest.map_or(Value::Null, Value::from);
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
    use serde_json::json;

    #[test]
    fn what_waits_for_parts_of_a_stage_counts_for_the_stage() {
        let queue = |name: &str, waiting: u64, oldest: Option<u64>| json!({ "name": name, "waiting": waiting, "consumers": 1, "in_per_second": 0.5, "oldest_age_ms": oldest });
        let queues = vec![
            queue("f.keyed.b0", 1, Some(5)),
            queue("f.keyed", 2, None),
            queue("f.keyed.b127", 4, Some(9)),
            queue("f.pool.3", 1, None),
            queue("orders.3", 7, None),
            queue("f.keyed.bad", 8, None),
        ];
        let stages = ["f.keyed", "f.pool"].map(str::to_owned).into();
        let shown: Vec<(String, u64)> = gathered(queues, &stages)
            .iter()
            .map(|queue| {
                let name = queue["name"].as_str().unwrap().to_owned();
                (name, queue["waiting"].as_u64().unwrap())
            })
            .collect();
        let expected = [
            ("f.keyed", 7),
            ("f.pool", 1),
            ("orders.3", 7),
            ("f.keyed.bad", 8),
        ];
        assert_eq!(
            shown,
            expected.map(|(name, waiting)| (name.to_owned(), waiting))
        );
    }

    #[test]
    fn ages_have_a_fitting_unit() {
        let shown = [0, 999, 1_000, 60_000, 7_200_000, 200_000_000].map(age);
        assert_eq!(shown, ["0 ms", "999 ms", "1 s", "1 min", "2 h", "2 d"]);
    }
}
