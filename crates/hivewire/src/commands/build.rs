//! `hivewire build`

use std::path::PathBuf;

use build::Built;
use clap::Args;
use serde_json::json;

use super::Global;
use super::output::{json_line, line};
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(super) struct Build {
    /// The folder of the worker
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Where to put the component [default: build/NAME.wasm in the folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Build {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let built = build::build(&self.folder, self.out.as_deref())?;
        match global.json {
            true => json_line(&json!({
                "path": built.path,
                "bytes": built.bytes,
                "descriptor": built.descriptor,
            }))?,
            false => line(&described(&built))?,
        }
        Ok(Exit::Done)
    }
}

fn described(built: &Built) -> String {
    let descriptor = &built.descriptor;
    let list = |items: &[&str]| match items {
        [] => "none".to_owned(),
        _ => items.join(", "),
    };
    let outputs: Vec<&str> = descriptor.outputs.iter().map(|o| o.name.as_str()).collect();
    let capabilities: Vec<&str> = descriptor.capabilities.iter().map(String::as_str).collect();
    format!(
        "{} ({} bytes)\n{} {} in {}\noutputs: {}\ncapabilities: {}",
        built.path.display(),
        built.bytes,
        descriptor.id(),
        descriptor.version,
        descriptor.language,
        list(&outputs),
        list(&capabilities),
    )
}
