//! `hivewire diff`

use std::path::PathBuf;

use clap::Args;
use flows::document::difference;
use serde_json::json;

use super::Global;
use super::export::document_of;
use super::flow_file::{FlowFile, Uploads};
use super::output::{json_line, line, printable};
use crate::exit::Exit;

const LINE_CHARACTERS_MAX: usize = 1_000;

#[derive(Debug, Args)]
pub(super) struct Diff {
    /// The flow document: TOML, or JSON if its name ends with .json
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Diff {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let Some(file) = FlowFile::read(&self.file, global.json)? else {
            return Ok(Exit::Failed);
        };
        let client = global.client()?;
        let new = file.for_node(&client, Uploads::Name)?;
        let old = document_of(&client, &new.flow)?;
        let difference = difference(old.as_ref(), &new);
        if global.json {
            json_line(&json!(difference))?;
            return Ok(Exit::Done);
        }
        if difference.is_empty() {
            line(&format!("{} is the same", new.flow))?;
        }
        for other in &difference.lines {
            line(&printable(&other.to_string(), LINE_CHARACTERS_MAX))?;
        }
        Ok(Exit::Done)
    }
}
