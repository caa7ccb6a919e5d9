//! `hivewire run`

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use super::Global;
use super::flow_file::{APPLY_TIMEOUT, FlowFile, Uploads, document_path, sentences};
use super::output::{json_line, line, printable, table};
use crate::client::{Client, encode};
use crate::exit::Exit;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long stages may take until they run.
const RUNNING_TIMEOUT: Duration = Duration::from_secs(60);
const NAME_CHARACTERS_MAX: usize = 80;

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The flow document: TOML, or JSON if its name ends with .json
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Do not wait until all stages run
    #[arg(long)]
    detach: bool,
}

impl Run {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let Some(file) = FlowFile::read(&self.file, global.json)? else {
            return Ok(Exit::Failed);
        };
        let client = global.client()?;
        if !file.is_sound(&client, global.json)? {
            return Ok(Exit::Failed);
        }
        let document = file.for_node(&client, Uploads::Send)?;
        let path = document_path(&document.flow);
        let answer = client.put_expected(&path, &json!(document), None, APPLY_TIMEOUT)?;
        if global.json {
            json_line(&answer)?;
        } else {
            print_done(&document.flow, &answer)?;
        }
        match self.detach {
            true => Ok(Exit::Done),
            false => wait(&client, &document.flow, global.json),
        }
    }
}

/// What was done.
fn print_done(flow: &str, answer: &Value) -> anyhow::Result<()> {
    for sentence in sentences(answer) {
        line(&sentence)?;
    }
    print_version(flow, answer)
}

/// What came of it.
pub(super) fn print_version(flow: &str, answer: &Value) -> anyhow::Result<()> {
    let version = &answer["version"];
    match answer["changed"] == false {
        true => line(&format!("{flow} is so already, with version {version}")),
        false => line(&format!("{flow} has version {version} now")),
    }
}

/// Waits until all stages run, and shows them.
fn wait(client: &Client, flow: &str, as_json: bool) -> anyhow::Result<Exit> {
    let path = format!("/api/v1/flows/{}", encode(flow));
    let end = Instant::now() + RUNNING_TIMEOUT;
    loop {
        let answer = client.get_all(&path, "stages")?;
        let mut stages = answer["stages"].as_array().into_iter().flatten();
        let all_run = stages.all(|stage| stage["state"] == "running");
        let is_late = Instant::now() > end;
        if (all_run || is_late) && !as_json {
            show(&answer)?;
        }
        match (all_run, is_late) {
            (true, _) => return Ok(Exit::Done),
            (_, true) => return Ok(Exit::TimedOut),
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn show(answer: &Value) -> anyhow::Result<()> {
    let stages = answer["stages"].as_array().into_iter().flatten();
    let row = |stage: &Value| {
        let text =
            |value: &Value| printable(value.as_str().unwrap_or_default(), NAME_CHARACTERS_MAX);
        vec![
            text(&stage["spec"]["address"]),
            text(&stage["code"]["name"]),
            text(&stage["state"]),
            stage["workers_count"].to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = stages.map(row).collect();
    let text = table(&["stage", "plug-in", "state", "workers"], &[3], &rows);
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
