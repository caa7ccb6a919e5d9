//! What is built in, as a catalogue: all that can be known of plug-ins without a node.

use serde_json::Value;

use super::check::{Catalogue, Found};
use super::plugin_reference::PluginReference;
use crate::plugins::{all, find};

/// The plug-ins that are built in.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuiltIns;

impl Catalogue for BuiltIns {
    fn find(&self, plugin: &PluginReference) -> Found {
        match plugin {
            PluginReference::Id(id) => match find(id.as_str()) {
                Some(built_in) => Found::Plugin(Box::new(built_in.descriptor())),
                None => Found::Nothing(format!("there is no built-in plug-in {id}")),
            },
            _ => Found::Unseen("it is not built in, and only a node can look at it".to_owned()),
        }
    }

    fn ids(&self) -> Vec<String> {
        all().map(|built_in| built_in.id().to_owned()).collect()
    }

    fn mistake(&self, plugin: &PluginReference, parameters: &Value) -> Option<(String, String)> {
        let PluginReference::Id(id) = plugin else {
            return None;
        };
        let arguments = serde_json::to_vec(parameters).ok()?;
        let error = find(id.as_str())?.check(&arguments).err()?;
        Some((error.field().to_owned(), error.problem().to_owned()))
    }
}
