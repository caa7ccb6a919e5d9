//! `hivewire node profile`

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;

use super::Global;
use super::output::{json_line, line};
use crate::client::encode;
use crate::exit::Exit;

/// How long it may take, beyond the profile itself, until the names of functions are found.
const SLACK: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(super) struct Profile {
    /// The node; `localhost` is the one that is asked
    node: String,
    /// For how long, at most 60
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Where it is written: a flame graph if the name ends with .svg, else folded stacks [default: folded stacks to standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Profile {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let (node, seconds) = (encode(&self.node), self.seconds);
        let path = format!("/api/v1/nodes/{node}/profile?seconds={seconds}");
        let timeout = Duration::from_secs(seconds.into()) + SLACK;
        let answer = global.client()?.post_within(&path, &json!({}), timeout)?;
        let is_picture = |out: &Path| out.extension().is_some_and(|extension| extension == "svg");
        let kind = match self.out.as_deref().is_some_and(is_picture) {
            true => "svg",
            false => "folded",
        };
        let text = answer[kind].as_str().context("the node sent no profile")?;
        if let Some(out) = &self.out {
            let written = fs::write(out, text);
            written.with_context(|| format!("cannot write {}", out.display()))?;
        }
        match (global.json, &self.out) {
            (true, _) => json_line(&answer)?,
            (false, Some(out)) => {
                let (samples, out) = (&answer["samples"], out.display());
                line(&format!("{samples} samples of {} are in {out}", self.node))?;
            }
            (false, None) if text.is_empty() => {
                line("nothing was seen: the node was idle all the time")?;
            }
            (false, None) => line(text.trim_end())?,
        }
        Ok(Exit::Done)
    }
}
