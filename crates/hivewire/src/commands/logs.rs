//! `hivewire logs`

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::Args;
use kernel::{Address, StageAddress};
use serde_json::Value;

use super::Global;
use super::output::{bytes_line, line, printable};
use super::ps::stage_path;
use super::time::{duration, utc};
use crate::client::encode;
use crate::exit::Exit;
use crate::logs::Level;

const LINE_CHARACTERS_MAX: usize = 16 << 10;

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The stage, flow/stage, or one worker, flow/stage/3
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    address: Option<Address>,
    /// The logs of all nodes: what they say about themselves and what their workers write
    #[arg(long)]
    all: bool,
    /// Only of this node
    #[arg(long, value_name = "NODE", requires = "all")]
    node: Option<String>,
    /// Only what is at least so important: trace, debug, info, warn or error
    #[arg(long, value_name = "LEVEL", requires = "all")]
    level: Option<Level>,
    /// Only what workers of this stage wrote
    #[arg(long, value_name = "FLOW/STAGE", requires = "all")]
    stage: Option<StageAddress>,
    /// Only what is not older: 90s, 10m, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "all")]
    since: Option<Duration>,
    /// Go on with what is written from now on
    #[arg(short, long)]
    follow: bool,
    /// Only the last lines, that many [default for --all: 100, or 10 with --follow]
    #[arg(long, value_name = "N")]
    tail: Option<u64>,
}

impl Logs {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let path = match &self.address {
            Some(address) => self.stage_path(address)?,
            None => self.all_path(),
        };
        let mut lines = global.client()?.lines(&path)?;
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

    fn stage_path(&self, address: &Address) -> anyhow::Result<String> {
        let (stage, worker) = match address {
            Address::Stage(stage) => (stage, None),
            Address::Worker(worker) => (worker.stage(), Some(worker.worker())),
            Address::Queue(_) | Address::Topic(_) => {
                bail!("{address} has no log: name a stage or a worker")
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

    fn all_path(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let since = self
            .since
            .map(|since| now.saturating_sub(since).as_millis().to_string());
        let given = [
            ("node", self.node.clone()),
            ("level", self.level.map(|level| level.to_string())),
            ("stage", self.stage.as_ref().map(ToString::to_string)),
            ("since_ms", since),
            ("limit", self.tail.map(|lines| lines.to_string())),
        ];
        let mut path = format!("/api/v1/logs?follow={}", self.follow);
        for (key, value) in given {
            if let Some(value) = value {
                path.push_str(&format!("&{key}={}", encode(&value)));
            }
        }
        path
    }
}

fn shown(entry: &Value) -> String {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    let who = [text("worker"), text("target")].concat();
    let node = match text("node") {
        "" => String::new(),
        node => format!("{} ", printable(node, LINE_CHARACTERS_MAX)),
    };
    format!(
        "{} {node}{:5} {} {}",
        utc(entry["at_ms"].as_u64().unwrap_or_default()),
        text("level"),
        printable(&who, LINE_CHARACTERS_MAX),
        printable(text("line"), LINE_CHARACTERS_MAX)
    )
}
