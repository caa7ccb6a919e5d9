//! `hivewire apply`

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::Global;
use super::flow_file::{APPLY_TIMEOUT, FlowFile, Uploads, document_path, sentences};
use super::output::{json_line, line};
use super::run::print_version;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Apply {
    /// The flow document: TOML, or JSON if its name ends with .json
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only show the steps
    #[arg(long)]
    plan: bool,
    /// Do not ask before the steps are done
    #[arg(long, short)]
    yes: bool,
}

impl Apply {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let Some(file) = FlowFile::read(&self.file, global.json)? else {
            return Ok(Exit::Failed);
        };
        let client = global.client()?;
        if !file.is_sound(&client, global.json)? {
            return Ok(Exit::Failed);
        }
        let document = file.for_node(&client, Uploads::Send)?;
        let (flow, body) = (&document.flow, json!(document));
        let path = document_path(flow);
        let planning =
            client.put_expected(&format!("{path}?plan=true"), &body, None, APPLY_TIMEOUT);
        let planned = planning?;
        if self.plan && global.json {
            json_line(&planned)?;
            return Ok(Exit::Done);
        }
        if !global.json {
            print_plan(flow, planned["changed"] == true, &sentences(&planned))?;
        }
        if self.plan || planned["changed"] != true {
            if global.json {
                json_line(&planned)?;
            }
            return Ok(Exit::Done);
        }
        if !self.yes && !is_wanted()? {
            line("nothing was done")?;
            return Ok(Exit::Done);
        }
        // Whatever changes between the plan and the steps was not what was agreed to.
        let etag = planned["etag"].as_str();
        let answer = client.put_expected(&path, &body, etag, APPLY_TIMEOUT)?;
        match global.json {
            true => json_line(&answer)?,
            false => print_version(flow, &answer)?,
        }
        Ok(Exit::Done)
    }
}

fn print_plan(flow: &str, is_other: bool, sentences: &[String]) -> anyhow::Result<()> {
    if !is_other {
        return line(&format!("{flow} is so already: nothing is to be done"));
    }
    if sentences.is_empty() {
        return line(&format!(
            "{flow}: only texts change, and no stage is touched"
        ));
    }
    for (number, sentence) in sentences.iter().enumerate() {
        line(&format!("{}. {sentence}", number + 1))?;
    }
    Ok(())
}

/// Whether somebody at the terminal agrees.
fn is_wanted() -> anyhow::Result<bool> {
    let stdin = std::io::stdin();
    anyhow::ensure!(
        stdin.is_terminal(),
        "nobody can be asked here whether to go on: add --yes to do these steps, or --plan to only see them"
    );
    let mut stdout = std::io::stdout();
    write!(stdout, "Do these steps? [y/N] ")?;
    stdout.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
