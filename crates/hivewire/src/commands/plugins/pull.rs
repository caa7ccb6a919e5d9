//! `hivewire plugins pull`

use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::json;

use super::{TRANSFER_TIMEOUT, descriptor, parse_reference, path_of, text};
use crate::commands::Global;
use crate::commands::output::{json_line, line};
use crate::deploy::{PluginRef, digest_of, version_of};

#[derive(Debug, Args)]
pub(super) struct Pull {
    /// The plug-in; without a version, its newest one
    #[arg(value_name = "ID[@VERSION]", value_parser = parse_reference)]
    plugin: PluginRef,
    /// Where to put it [default: NAME-VERSION.wasm here]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Pull {
    pub fn run(&self, global: &Global) -> anyhow::Result<()> {
        let client = global.client()?;
        let plugin = descriptor(&client, &self.plugin)?;
        // A version has no character that leads elsewhere.
        let version = version_of(text(&plugin, "version"))?.to_string();
        let digest = text(&plugin, "digest");
        let path = path_of(self.plugin.id.as_str(), &version);
        let bytes = client.get_bytes(&format!("{path}/component"), TRANSFER_TIMEOUT)?;
        ensure!(
            digest_of(&bytes) == digest,
            "what came is not what was promised (its digest is not {digest}): nothing was written, try again"
        );
        let out = match &self.out {
            Some(out) => out.clone(),
            None => format!("{}-{version}.wasm", self.plugin.id.name()).into(),
        };
        std::fs::write(&out, &bytes).with_context(|| format!("cannot write {}", out.display()))?;
        match global.json {
            true => json_line(&json!({ "path": out, "bytes": bytes.len(), "plugin": plugin })),
            false => line(&format!(
                "{}@{version} is in {} ({} bytes)",
                self.plugin.id,
                out.display(),
                bytes.len()
            )),
        }
    }
}
