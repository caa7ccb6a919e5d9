//! `hivewire sub`

use std::io::Write;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::Global;
use super::output::bytes_line;
use super::publish::place;
use crate::client::encode;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Subscribe {
    /// The queue, or the topic with --topic; `queue:NAME` and `topic:NAME` say which by themselves
    name: String,
    /// Listen to a topic instead of a queue
    #[arg(long)]
    topic: bool,
    /// End after that many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// End when nothing came for that many seconds; with --count, the exit code is then 3
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<f64>,
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=31_536_000.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds, such as 2 or 0.5".into()),
    }
}

impl Subscribe {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let mut lines = global.client()?.lines(&self.path())?;
        let mut received = 0;
        while let Some(line) = lines.next_line()? {
            print(&line, global.json)?;
            received += 1;
        }
        match (self.count, self.timeout) {
            (Some(count), _) if received >= count => Ok(Exit::Done),
            (Some(_), Some(_)) => Ok(Exit::TimedOut),
            (None, Some(_)) => Ok(Exit::Done),
            _ => bail!("the node ended the stream: it was stopped"),
        }
    }

    fn path(&self) -> String {
        let (kind, name) = place(&self.name, self.topic);
        let mut path = format!("/api/v1/{kind}s/{}/stream?", encode(name));
        if let Some(count) = self.count {
            path.push_str(&format!("max={count}&"));
        }
        if let Some(seconds) = self.timeout {
            path.push_str(&format!("wait_ms={}&", (seconds * 1000.0).ceil() as u64));
        }
        path.pop();
        path
    }
}

pub(super) fn print(line: &[u8], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        bytes_line(line)?;
    } else {
        let message: Value = serde_json::from_slice(line).context("the node sent no JSON")?;
        match (message["body"].as_str(), message["body_base64"].as_str()) {
            (Some(text), _) => bytes_line(text.as_bytes())?,
            (None, Some(encoded)) => {
                let body = STANDARD.decode(encoded);
                bytes_line(&body.context("the node sent no base64")?)?;
            }
            (None, None) => bail!("the node sent a message without body"),
        }
    }
    // Whoever reads the output wants each message when it comes.
    Ok(std::io::stdout().flush()?)
}
