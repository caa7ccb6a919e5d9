//! `hivewire plugins push`

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use kernel::PluginId;
use kernel::descriptor::PluginKind;
use serde_json::Value;

use super::{TRANSFER_TIMEOUT, path_of, text};
use crate::client::encode;
use crate::commands::Global;
use crate::commands::output::{json_line, line};
use crate::deploy::version_of;

#[derive(Debug, Args)]
pub(super) struct Push {
    /// The component
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What it is called, if it does not say so itself
    #[arg(long, value_name = "ID", requires = "version")]
    id: Option<PluginId>,
    /// Its version, if it does not say so itself
    #[arg(long, value_name = "VERSION", requires = "id", value_parser = parse_version)]
    version: Option<String>,
    /// What it does, if it does not say so itself
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Who wrote it, if it does not say so itself
    #[arg(long, value_name = "TEXT")]
    author: Option<String>,
    /// Under which licence it may be used, if it does not say so itself
    #[arg(long, value_name = "TEXT")]
    licence: Option<String>,
    /// Whether it has an input, if it does not say so itself: provider or processor
    #[arg(long, value_name = "KIND")]
    kind: Option<PluginKind>,
}

fn parse_version(text: &str) -> Result<String, String> {
    match version_of(text) {
        Ok(version) => Ok(version.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

impl Push {
    pub fn run(&self, global: &Global) -> anyhow::Result<()> {
        let bytes = std::fs::read(&self.file)
            .with_context(|| format!("cannot read {}", self.file.display()))?;
        let client = global.client()?;
        let notes = self.notes();
        let answer = match (&self.id, &self.version) {
            (Some(id), Some(version)) => {
                let path = format!("{}{notes}", path_of(id.as_str(), version));
                client.put(&path, &bytes, TRANSFER_TIMEOUT)?
            }
            _ => {
                let path = format!("/api/v1/plugins{notes}");
                client.post_bytes(&path, &bytes, TRANSFER_TIMEOUT)?
            }
        };
        match global.json {
            true => json_line(&answer),
            false => line(&told(&answer)),
        }
    }

    /// What is said about it, as the query of an address.
    fn notes(&self) -> String {
        let kind = self.kind.map(|kind| kind.name().to_owned());
        let notes = [
            ("description", &self.description),
            ("author", &self.author),
            ("licence", &self.licence),
            ("kind", &kind),
        ];
        let mut query = String::new();
        for (key, note) in notes {
            if let Some(note) = note {
                let separator = if query.is_empty() { '?' } else { '&' };
                query.push_str(&format!("{separator}{key}={}", encode(note)));
            }
        }
        query
    }
}

fn told(answer: &Value) -> String {
    let plugin = &answer["plugin"];
    let (id, version, digest) = (
        text(plugin, "id"),
        text(plugin, "version"),
        text(plugin, "digest"),
    );
    let how = match answer["created"].as_bool() {
        Some(true) => "is in the repository",
        _ => "was in the repository already",
    };
    format!(
        "{id}@{version} {how} ({digest})\ndeploy it: hivewire deploy plugin:{id}@{version} --as FLOW/STAGE"
    )
}
