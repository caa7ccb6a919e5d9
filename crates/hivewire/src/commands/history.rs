//! `hivewire history`

use std::io::Write;

use clap::Args;
use kernel::StageAddress;
use serde_json::Value;

use super::Global;
use super::output::{json_line, printable, table};
use super::ps::stage_path;
use super::time::utc;
use crate::exit::Exit;

const DETAIL_CHARACTERS_MAX: usize = 200;
const DIGITS_SHOWN: usize = 12;

#[derive(Debug, Args)]
pub(super) struct History {
    /// Only this stage
    #[arg(value_name = "FLOW/STAGE")]
    stage: Option<StageAddress>,
}

impl History {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let path = match &self.stage {
            Some(stage) => format!("{}/history", stage_path(stage)),
            None => "/api/v1/history".to_owned(),
        };
        let answer = global.client()?.get_all(&path, "history")?;
        if global.json {
            json_line(&answer)?;
            return Ok(Exit::Done);
        }
        let entries = answer["history"].as_array().into_iter().flatten();
        let rows: Vec<Vec<String>> = entries.map(row).collect();
        let text = table(&TITLES, &[3], &rows);
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(Exit::Done)
    }
}

const TITLES: [&str; 6] = ["when", "stage", "what", "version", "digest", "why"];

fn row(entry: &Value) -> Vec<String> {
    let text = |key: &str, characters_max| {
        printable(entry[key].as_str().unwrap_or_default(), characters_max)
    };
    let version = match entry["version"].as_u64() {
        None | Some(0) => "-".to_owned(),
        Some(version) => version.to_string(),
    };
    let digest = entry["digest"].as_str().unwrap_or_default();
    let digest: String = digest.chars().take(DIGITS_SHOWN).collect();
    vec![
        utc(entry["at_ms"].as_u64().unwrap_or_default()),
        text("stage", DETAIL_CHARACTERS_MAX),
        text("event", DETAIL_CHARACTERS_MAX),
        version,
        printable(&digest, DIGITS_SHOWN),
        text("detail", DETAIL_CHARACTERS_MAX),
    ]
}
