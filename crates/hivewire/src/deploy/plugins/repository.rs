//! Other repositories than the own one: what they have to give, and how they are configured.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use kernel::PluginId;
use serde::{Deserialize, Deserializer, Serialize};
use url::Url;

use super::OWN;
use super::built_in::{BUILT_IN, BuiltInRepository};
use super::error::PluginError;
use super::folder::Folder;
use super::plugin::{Plugin, PluginQuery, PluginSummary};
use super::remote::Remote;
use crate::deploy::fetch::{self, Fetcher};
use crate::deploy::source::Component;
use crate::secret::Secret;

/// A place with plug-ins that are only read.
#[async_trait]
pub(super) trait Repository: Send + Sync {
    /// What it is called in the configuration.
    fn name(&self) -> &str;

    /// Those plug-ins that are asked for, in the order of their ids.
    async fn page(&self, query: &PluginQuery) -> Result<Vec<PluginSummary>, PluginError>;

    /// All versions of a plug-in; none if it is not there.
    async fn versions(&self, id: &PluginId) -> Result<Vec<Plugin>, PluginError>;

    /// The component of a version, as it comes: whoever calls compares its digest.
    async fn component(&self, plugin: &Plugin) -> Result<Component, PluginError>;
}

/// How plug-ins are kept and found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PluginSettings {
    /// How many versions of one plug-in the own repository keeps.
    pub versions_max: usize,
    /// Where plug-ins are looked for that the own repository lacks, in this order.
    pub repositories: Vec<RepositorySettings>,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            versions_max: 50,
            repositories: Vec::new(),
        }
    }
}

/// Another repository.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RepositorySettings {
    /// What it is called in lists and errors.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// Where it is.
    pub location: Location,
    /// The token of the node, if it is one.
    #[serde(default)]
    pub token: Option<String>,
}

impl fmt::Debug for RepositorySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The token must not reach a log.
        f.debug_struct("RepositorySettings")
            .field("name", &self.name)
            .field("location", &self.location)
            .finish_non_exhaustive()
    }
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    match name.is_empty() || name == OWN || name == BUILT_IN {
        true => Err(serde::de::Error::custom(format!(
            "a repository needs a name; `{OWN}` is that of the node's own, and `{BUILT_IN}` that of what is built in"
        ))),
        false => Ok(name),
    }
}

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Location {
    /// A folder with components that carry their descriptors.
    Folder(PathBuf),
    /// Another node, by its address.
    Node(Box<Url>),
}

impl TryFrom<String> for Location {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a repository is a folder, or a node such as https://hive.example".into());
        }
        if !text.contains("://") {
            return Ok(Self::Folder(text.into()));
        }
        let wrong = |reason: &str| format!("this is no address of a repository: {reason}");
        let url = Url::parse(&text).map_err(|error| wrong(&error.to_string()))?;
        fetch::check(&url).map_err(wrong)?;
        match url.query().is_none() && url.fragment().is_none() {
            true => Ok(Self::Node(Box::new(url))),
            false => Err(wrong("it ends with its host, port or path")),
        }
    }
}

impl From<Location> for String {
    fn from(location: Location) -> Self {
        match location {
            Location::Folder(folder) => folder.display().to_string(),
            Location::Node(url) => url.to_string(),
        }
    }
}

/// What is built in, and the repositories that are configured.
pub(super) fn open(settings: &PluginSettings, fetcher: &Fetcher) -> Vec<Box<dyn Repository>> {
    let open = |repository: &RepositorySettings| -> Box<dyn Repository> {
        let name = repository.name.clone();
        match &repository.location {
            Location::Folder(folder) => {
                let bytes_max = fetcher.settings().component_bytes_max;
                Box::new(Folder::new(name, folder.clone(), bytes_max))
            }
            Location::Node(url) => {
                let token = repository.token.as_ref().map(Secret::new);
                Box::new(Remote::new(name, url, token, fetcher.clone()))
            }
        }
    };
    let built_in: Box<dyn Repository> = Box::new(BuiltInRepository);
    let configured = settings.repositories.iter().map(open);
    std::iter::once(built_in).chain(configured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RepositorySettings, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_repository_is_a_folder_or_a_node() {
        let folder = parse("name = \"a\"\nlocation = \"plugins\"").unwrap();
        assert_eq!(folder.location, Location::Folder("plugins".into()));
        let node = parse("name = \"a\"\nlocation = \"http://h:8000\"\ntoken = \"planted\"");
        let node = node.unwrap();
        assert!(matches!(node.location, Location::Node(_)));
        assert!(!format!("{node:?}").contains("planted"));
        for text in [
            "name = \"\"\nlocation = \"plugins\"",
            "name = \"own\"\nlocation = \"plugins\"",
            "name = \"a\"\nlocation = \"\"",
            "name = \"a\"\nlocation = \"ftp://h/\"",
            "name = \"a\"\nlocation = \"http://alice:secret@h/\"",
            "name = \"a\"\nlocation = \"http://h/?q\"",
        ] {
            let error = parse(text).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
