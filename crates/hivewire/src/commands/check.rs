//! `hivewire check`

use std::path::PathBuf;

use clap::Args;
use flows::document::PluginReference;

use super::Global;
use super::flow_file::{FlowFile, report, warnings_in};
use super::output::line;
use crate::client::ClientError;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Check {
    /// The flow document: TOML, or JSON if its name ends with .json
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Check {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let Some(file) = FlowFile::read(&self.file, global.json)? else {
            return Ok(Exit::Failed);
        };
        let problems = match needs_node(&file) {
            true => match file.check_there(&global.client()?) {
                Ok(problems) => problems,
                Err(error) if is_absent(&error) => file.check_here(),
                Err(error) => return Err(error),
            },
            false => file.check_here(),
        };
        let exit = report(&self.file, &problems, global.json)?;
        if exit == Exit::Done && !global.json {
            let document = file.document();
            let (flow, stages) = (&document.flow, document.stages.len());
            let warnings = match warnings_in(&problems) {
                0 => String::new(),
                1 => ", with 1 warning".to_owned(),
                count => format!(", with {count} warnings"),
            };
            line(&format!("{flow} is sound: {stages} stages{warnings}"))?;
        }
        Ok(exit)
    }
}

/// Whether it has plug-ins that only a node may know.
fn needs_node(file: &FlowFile) -> bool {
    let is_known_here = |plugin: &PluginReference| match plugin {
        PluginReference::Id(id) => flows::plugins::find(id.as_str()).is_some(),
        PluginReference::File(_) => true,
        PluginReference::Version(..) | PluginReference::Uri(_) | PluginReference::Upload(_) => {
            false
        }
    };
    let mut stages = file.document().stages.values();
    !stages.all(|stage| is_known_here(&stage.plugin))
}

/// Whether there is no node that could be asked.
fn is_absent(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<ClientError>(),
        Some(ClientError::NothingAnswers { .. } | ClientError::Unauthorized { .. })
    )
}
