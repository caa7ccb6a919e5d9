//! `hivewire export`

use std::io::Write;

use anyhow::Context;
use clap::Args;
use flows::document::Document;
use serde_json::json;

use super::Global;
use super::flow_file::document_path;
use super::output::json_line;
use crate::client::{Client, ClientError};
use crate::exit::Exit;

const NOT_FOUND: u16 = 404;

#[derive(Debug, Args)]
pub(super) struct Export {
    /// The flow
    #[arg(value_name = "FLOW")]
    flow: String,
}

impl Export {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let document = document_of(&global.client()?, &self.flow)?;
        let document = document.with_context(|| {
            let flow = &self.flow;
            format!("there is no document of a flow {flow}: `hivewire ps` shows what runs")
        })?;
        match global.json {
            true => json_line(&json!(document))?,
            false => std::io::stdout().write_all(document.to_toml().as_bytes())?,
        }
        Ok(Exit::Done)
    }
}

/// The document of a flow, if there is one.
pub(super) fn document_of(client: &Client, flow: &str) -> anyhow::Result<Option<Document>> {
    let value = match client.get(&document_path(flow)) {
        Ok(value) => value,
        Err(ClientError::Refused { status, .. }) if status == NOT_FOUND => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match Document::from_value(value) {
        Ok(parsed) => Ok(Some(parsed.document)),
        Err(problems) => anyhow::bail!(
            "the document of {flow} cannot be read here: is the node of another version? {problems}"
        ),
    }
}
