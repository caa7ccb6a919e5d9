//! `hivewire plugins remove`

use clap::Args;

use super::{parse_reference, path_of};
use crate::commands::Global;
use crate::commands::output::{json_line, line};
use crate::deploy::PluginRef;

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The version to remove
    #[arg(value_name = "ID@VERSION", value_parser = parse_exact)]
    plugin: PluginRef,
}

fn parse_exact(text: &str) -> Result<PluginRef, String> {
    let reference = parse_reference(text)?;
    match reference.version.is_some() {
        true => Ok(reference),
        false => Err(format!("name the version: {text}@VERSION")),
    }
}

impl Remove {
    pub fn run(&self, global: &Global) -> anyhow::Result<()> {
        let version = self.plugin.version.as_ref().map(ToString::to_string);
        let path = path_of(self.plugin.id.as_str(), &version.unwrap_or_default());
        let answer = global.client()?.delete(&path)?;
        match global.json {
            true => json_line(&answer),
            false => line(&format!("{} is removed", self.plugin)),
        }
    }
}
