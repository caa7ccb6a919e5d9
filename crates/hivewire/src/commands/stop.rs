//! `hivewire stop` and `hivewire restart`

use anyhow::bail;
use clap::Args;
use kernel::{Address, StageAddress};

use super::Global;
use super::output::{json_line, line};
use super::ps::stage_path;
use crate::client::encode;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Stop {
    /// A flow, a stage (flow/stage) or a worker (flow/stage/3)
    #[arg(value_name = "FLOW|ADDRESS")]
    what: String,
}

impl Stop {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let path = match self.what.contains('/') {
            false => format!("/api/v1/flows/{}", encode(&self.what)),
            true => match self.what.parse()? {
                Address::Stage(stage) => stage_path(&stage),
                Address::Worker(worker) => {
                    let number = worker.worker().to_string();
                    let child = worker.child().map(|child| format!("/{child}"));
                    let worker_part = encode(&(number + &child.unwrap_or_default()));
                    format!("{}/workers/{worker_part}", stage_path(worker.stage()))
                }
                other => bail!("{other} cannot be stopped: name a flow, a stage or a worker"),
            },
        };
        let answer = global.client()?.delete(&path)?;
        match global.json {
            true => json_line(&answer)?,
            false => line(&format!("{} is stopped", self.what))?,
        }
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(super) struct Restart {
    /// A stage (flow/stage) or one of its workers (flow/stage/3)
    address: Address,
    /// Forget the state: it begins anew
    #[arg(long)]
    reset: bool,
}

impl Restart {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let (stage, worker): (&StageAddress, _) = match &self.address {
            Address::Stage(stage) => (stage, None),
            Address::Worker(worker) if worker.child().is_none() => {
                (worker.stage(), Some(worker.worker()))
            }
            other => bail!("{other} cannot be restarted: name a stage or a worker"),
        };
        let mut path = format!("{}/restart?reset={}", stage_path(stage), self.reset);
        if let Some(worker) = worker {
            path.push_str(&format!("&worker={worker}"));
        }
        let answer = global.client()?.post(&path, &serde_json::json!({}))?;
        let how = if self.reset { " without its state" } else { "" };
        match global.json {
            true => json_line(&answer)?,
            false => line(&format!("{} is started again{how}", self.address))?,
        }
        Ok(Exit::Done)
    }
}
