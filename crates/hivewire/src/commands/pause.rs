//! `hivewire pause` and `hivewire resume`

use clap::Args;
use kernel::StageAddress;
use serde_json::json;

use super::Global;
use super::output::{json_line, line};
use super::ps::stage_path;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Pause {
    /// A stage (flow/stage)
    stage: StageAddress,
}

impl Pause {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let said = format!("{} is paused: what comes waits", self.stage);
        set(global, &self.stage, "pause", &said)
    }
}

#[derive(Debug, Args)]
pub(super) struct Resume {
    /// A stage (flow/stage)
    stage: StageAddress,
}

impl Resume {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let said = format!("{} goes on", self.stage);
        set(global, &self.stage, "resume", &said)
    }
}

fn set(global: &Global, stage: &StageAddress, how: &str, said: &str) -> anyhow::Result<Exit> {
    let path = format!("{}/{how}", stage_path(stage));
    let answer = global.client()?.post(&path, &json!({}))?;
    match global.json {
        true => json_line(&answer)?,
        false => line(said)?,
    }
    Ok(Exit::Done)
}
