//! `hivewire logs`

use std::io::Write;

use anyhow::{Context, bail};
use clap::Args;
use kernel::Address;
use serde_json::Value;

use super::Global;
use super::output::{bytes_line, line, printable};
use super::ps::stage_path;
use super::time::utc;
use crate::exit::Exit;

const LINE_CHARACTERS_MAX: usize = 16 << 10;

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The stage, flow/stage, or one worker, flow/stage/3
    address: Address,
    /// Go on with what is written from now on
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines, that many
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
}

impl Logs {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let mut lines = global.client()?.lines(&self.path()?)?;
        while let Some(text) = lines.next_line()? {
            if global.json {
                bytes_line(&text)?;
            } else {
                let entry = serde_json::from_slice(&text).context("the node sent no JSON")?;
                line(&shown(&entry))?;
            }
            // Whoever reads the output wants each line when it comes.
            std::io::stdout().flush()?;
        }
        Ok(Exit::Done)
    }

    fn path(&self) -> anyhow::Result<String> {
        let (stage, worker) = match &self.address {
            Address::Stage(stage) => (stage, None),
            Address::Worker(worker) => (worker.stage(), Some(worker.worker())),
            Address::Queue(_) | Address::Topic(_) => {
                bail!("{} has no log: name a stage or a worker", self.address)
            }
        };
        let mut path = format!("{}/logs?follow={}", stage_path(stage), self.follow);
        if let Some(worker) = worker {
            path.push_str(&format!("&worker={worker}"));
        }
        if let Some(lines) = self.tail {
            path.push_str(&format!("&tail={lines}"));
        }
        Ok(path)
    }
}

fn shown(entry: &Value) -> String {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    format!(
        "{} {:5} {} {}",
        utc(entry["at_ms"].as_u64().unwrap_or_default()),
        text("level"),
        printable(text("worker"), LINE_CHARACTERS_MAX),
        printable(text("line"), LINE_CHARACTERS_MAX)
    )
}
