//! `hivewire explain`

use std::io::Write;

use clap::Args;
use kernel::StageAddress;
use serde_json::Value;

use super::Global;
use super::output::{json_line, printable};
use super::ps::stage_path;
use super::time::utc;
use crate::exit::Exit;

const TEXT_CHARACTERS_MAX: usize = 4_000;

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// The stage
    #[arg(value_name = "FLOW/STAGE")]
    stage: StageAddress,
    /// Show at most that many decisions, the newest ones
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

impl Explain {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let path = stage_path(&self.stage);
        let client = global.client()?;
        let answer = client.get(&format!("{path}/decisions?limit={}", self.limit))?;
        if global.json {
            json_line(&answer)?;
            return Ok(Exit::Done);
        }
        let stage = client.get(&path)?;
        let text = self.text(&stage, &answer);
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(Exit::Done)
    }

    fn text(&self, stage: &Value, answer: &Value) -> String {
        let mut text = format!("{}\n", self.now(stage));
        let decisions: Vec<&Value> = answer["decisions"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        if decisions.is_empty() && stage["scaling"].is_object() {
            text.push_str("It has decided nothing yet: it is neither too slow nor too idle.\n");
        }
        for decision in decisions {
            text.push_str(&paragraph(decision));
        }
        text
    }

    /// What it has now, and what it may have.
    fn now(&self, stage: &Value) -> String {
        let workers = match stage["workers_count"].as_u64().unwrap_or_default() {
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        };
        let scaling = &stage["scaling"];
        if !scaling.is_object() {
            return format!(
                "{} has {workers}, as many as it is told: give it a rule with `scale` in its flow, and it finds the number by itself.",
                self.stage
            );
        }
        let number = |key: &str| scaling[key].as_f64().unwrap_or_default();
        format!(
            "{} has {workers} and may have {:.0} to {:.0}. Now {:.0} messages/s come and {:.0}/s are done, {:.0} wait, and probes take {:.1} ms (p50) and {:.1} ms (p99).",
            self.stage,
            number("workers_min"),
            number("workers_max"),
            number("arrivals_per_second"),
            number("done_per_second"),
            number("depth"),
            number("probe_ms_p50"),
            number("probe_ms_p99"),
        )
    }
}

/// One decision with its probe window.
fn paragraph(decision: &Value) -> String {
    let at = utc(decision["at_ms"].as_u64().unwrap_or_default());
    let said = printable(
        decision["text"].as_str().unwrap_or_default(),
        TEXT_CHARACTERS_MAX,
    );
    let probes: Vec<String> = decision["measured"]["probes_ms"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|probe| format!("{:.0}", probe.as_f64().unwrap_or_default()))
        .collect();
    format!(
        "\n{at}  {said}\n  slowest probe of each period, in ms: {}\n",
        probes.join(" ")
    )
}
