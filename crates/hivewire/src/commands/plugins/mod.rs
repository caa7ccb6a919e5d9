//! `hivewire plugins`: one file for each of its commands.

mod list;
mod pull;
mod push;
mod remove;
mod show;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::Global;
use crate::client::{Client, encode};
use crate::deploy::PluginRef;
use crate::exit::Exit;

/// A component may be large, and the way to the node slow.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(900);
/// How a node is asked for the newest version.
const NEWEST: &str = "newest";
const TEXT_CHARACTERS_MAX: usize = 60;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Plugins {
    #[command(flatten)]
    list: list::List,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show a plug-in: all its versions, and the descriptor of the newest one or of the one named
    Show(show::Show),
    /// Take a component into the repository of the node
    Push(push::Push),
    /// Fetch the component of a plug-in into a file
    Pull(pull::Pull),
    /// Remove a version that no stage uses
    Remove(remove::Remove),
}

impl Plugins {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        match &self.what {
            None => self.list.run(global)?,
            Some(What::Show(command)) => command.run(global)?,
            Some(What::Push(command)) => command.run(global)?,
            Some(What::Pull(command)) => command.run(global)?,
            Some(What::Remove(command)) => command.run(global)?,
        }
        Ok(Exit::Done)
    }
}

fn parse_reference(text: &str) -> Result<PluginRef, String> {
    text.parse()
        .map_err(|error: crate::deploy::PluginError| error.to_string())
}

fn path_of(id: &str, version: &str) -> String {
    format!("/api/v1/plugins/{}/{}", encode(id), encode(version))
}

/// All versions of a plug-in, the newest first.
fn versions_of(client: &Client, reference: &PluginRef) -> anyhow::Result<Value> {
    let path = format!("/api/v1/plugins/{}", encode(reference.id.as_str()));
    Ok(client.get(&path)?)
}

/// The descriptor of the version that is meant.
fn descriptor(client: &Client, reference: &PluginRef) -> anyhow::Result<Value> {
    let id = reference.id.as_str();
    let path = match &reference.version {
        Some(version) => path_of(id, &version.to_string()),
        None => path_of(id, NEWEST),
    };
    Ok(client.get(&path)?)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
