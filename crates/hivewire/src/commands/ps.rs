//! `hivewire ps`

use std::io::{IsTerminal, Write};
use std::thread;
use std::time::Duration;

use clap::Args;
use kernel::StageAddress;
use serde_json::{Value, json};

use super::Global;
use super::output::{json_line, printable, table};
use crate::client::{Client, encode};
use crate::exit::Exit;

const WATCH_EVERY: Duration = Duration::from_secs(1);
const TEXT_CHARACTERS_MAX: usize = 80;
const WORKERS_SHOWN: u32 = 1_000;
/// Moves to the top left and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

#[derive(Debug, Args)]
pub(super) struct Ps {
    /// Only this flow, or this stage with its workers
    #[arg(value_name = "FLOW[/STAGE]")]
    what: Option<String>,
    /// Show it again every second
    #[arg(long)]
    watch: bool,
}

impl Ps {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        loop {
            let (answer, text) = match &self.what {
                None => all(&client)?,
                Some(what) if what.contains('/') => stage(&client, &what.parse()?)?,
                Some(flow) => one_flow(&client, flow)?,
            };
            if global.json {
                json_line(&answer)?;
            } else {
                self.print(&text)?;
            }
            if !self.watch {
                return Ok(Exit::Done);
            }
            thread::sleep(WATCH_EVERY);
        }
    }

    fn print(&self, text: &str) -> anyhow::Result<()> {
        let mut stdout = std::io::stdout().lock();
        if self.watch && stdout.is_terminal() {
            stdout.write_all(CLEAR.as_bytes())?;
        }
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }
}

fn all(client: &Client) -> anyhow::Result<(Value, String)> {
    let answer = whole_flows(client.get_all("/api/v1/flows", "flows")?);
    let flows = answer["flows"].as_array().into_iter().flatten();
    let stages: Vec<&Value> = flows.flat_map(stages_of).collect();
    let text = match stages.is_empty() {
        true => "nothing is deployed: try `hivewire deploy FILE --as flow/stage`\n".to_owned(),
        false => stage_table(&stages),
    };
    Ok((answer, text))
}

/// A flow may have begun on one page and gone on on the next.
fn whole_flows(mut answer: Value) -> Value {
    let mut whole: Vec<Value> = Vec::new();
    for mut flow in answer["flows"]
        .as_array_mut()
        .into_iter()
        .flat_map(std::mem::take)
    {
        match whole.last_mut() {
            Some(last) if last["flow"] == flow["flow"] => {
                let stages = last["stages"].as_array_mut();
                let more = flow["stages"].as_array_mut();
                if let (Some(stages), Some(more)) = (stages, more) {
                    stages.append(more);
                }
            }
            _ => whole.push(flow),
        }
    }
    answer["flows"] = whole.into();
    answer
}

fn one_flow(client: &Client, flow: &str) -> anyhow::Result<(Value, String)> {
    let path = format!("/api/v1/flows/{}", encode(flow));
    let answer = client.get_all(&path, "stages")?;
    let text = stage_table(&stages_of(&answer).collect::<Vec<_>>());
    Ok((answer, text))
}

fn stage(client: &Client, stage: &StageAddress) -> anyhow::Result<(Value, String)> {
    let path = stage_path(stage);
    let mut answer = client.get(&path)?;
    let workers = client.get(&format!("{path}/workers?limit={WORKERS_SHOWN}"))?;
    let rows: Vec<Vec<String>> = workers["workers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(worker_row)
        .collect();
    let mut text = stage_table(&[&answer]);
    text.push_str(&details(&answer));
    text.push('\n');
    text.push_str(&table(&WORKER_TITLES, &[2, 3, 4, 5], &rows));
    let more = answer["workers_count"].as_u64().unwrap_or_default();
    let more = more.saturating_sub(rows.len() as u64);
    if more > 0 {
        text.push_str(&format!("… and {more} more\n"));
    }
    answer["workers"] = json!(workers["workers"]);
    Ok((answer, text))
}

/// Where a stage is in the REST interface.
pub(super) fn stage_path(stage: &StageAddress) -> String {
    format!("/api/v1/flows/{}/{}", stage.flow(), stage.stage())
}

fn stages_of(flow: &Value) -> impl Iterator<Item = &Value> {
    flow["stages"].as_array().into_iter().flatten()
}

const STAGE_TITLES: [&str; 10] = [
    "stage", "state", "version", "code", "workers", "waiting", "turns", "turns/s", "restarts",
    "dead",
];
const WORKER_TITLES: [&str; 7] = [
    "worker",
    "state",
    "version",
    "waiting",
    "turns",
    "restarts",
    "last failure",
];

fn stage_table(stages: &[&Value]) -> String {
    let rows: Vec<Vec<String>> = stages.iter().map(|stage| stage_row(stage)).collect();
    table(&STAGE_TITLES, &[2, 4, 5, 6, 7, 8, 9], &rows)
}

fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default(), TEXT_CHARACTERS_MAX)
}

fn number(value: &Value) -> String {
    value.as_u64().unwrap_or_default().to_string()
}

/// How a stage is, in one word.
pub(super) fn state(stage: &Value) -> &str {
    match (stage["stands"].is_string(), stage["paused"] == true) {
        (true, _) => "stands",
        (false, true) => "paused",
        (false, false) => stage["state"].as_str().unwrap_or_default(),
    }
}

fn stage_row(stage: &Value) -> Vec<String> {
    let code = &stage["code"];
    vec![
        text(&stage["spec"]["address"]),
        printable(state(stage), TEXT_CHARACTERS_MAX),
        number(&stage["version"]),
        format!("{} {}", text(&code["name"]), text(&code["version"])),
        number(&stage["workers_count"]),
        number(&stage["waiting"]),
        number(&stage["turns"]),
        format!(
            "{:.0}",
            stage["turns_per_second"].as_f64().unwrap_or_default()
        ),
        number(&stage["restarts"]),
        number(&stage["dead"]),
    ]
}

/// What does not fit into a row.
fn details(stage: &Value) -> String {
    let deployment = &stage["deployment"];
    let watch = match deployment["watch"].as_bool() {
        Some(true) => " (watched)",
        _ => "",
    };
    let source = deployment["source"].as_str();
    let source = source.map(|source| format!("source: {}{watch}", printable(source, 1_000)));
    let said = |title: &str, value: &Value| {
        let text = value.as_str()?;
        Some(format!("{title}: {}", printable(text, 1_000)))
    };
    let nodes = stage["nodes"].as_object().map(|nodes| {
        let parts = nodes.iter().map(|(node, parts)| format!("{node} {parts}"));
        format!("parts on nodes: {}", parts.collect::<Vec<_>>().join(", "))
    });
    let lines = [
        source,
        nodes,
        said("router", &deployment["router_source"]),
        said("stands still", &stage["stands"]),
        said("does not run", &deployment["failure"]),
        said("the source cannot be read", &deployment["trouble"]),
        said("refused", &deployment["refused_digest"]),
    ];
    lines
        .into_iter()
        .flatten()
        .fold(String::new(), |mut all, line| {
            all.push_str(&line);
            all.push('\n');
            all
        })
}

fn worker_row(worker: &Value) -> Vec<String> {
    vec![
        text(&worker["address"]),
        text(&worker["state"]),
        number(&worker["version"]),
        number(&worker["waiting"]),
        number(&worker["turns"]),
        number(&worker["restarts"]),
        text(&worker["last_failure"]),
    ]
}
