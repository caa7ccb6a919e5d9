//! A repository that is another node's, asked over its REST interface.

use async_trait::async_trait;
use kernel::PluginId;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::error::PluginError;
use super::plugin::{Plugin, PluginQuery, PluginSummary};
use super::repository::Repository;
use crate::client::encode;
use crate::deploy::fetch::{Asking, Fetcher, Got};
use crate::deploy::source::{Component, SourceError};
use crate::deploy::watch::blocking;
use crate::secret::Secret;

/// What an answer that is no component may take.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const NOT_FOUND: u16 = 404;

pub(super) struct Remote {
    name: String,
    /// Without a slash at its end.
    base: String,
    token: Option<Secret>,
    fetcher: Fetcher,
}

#[derive(Deserialize)]
struct Page {
    plugins: Vec<PluginSummary>,
}

#[derive(Deserialize)]
struct Versions {
    versions: Vec<Plugin>,
}

impl Remote {
    pub fn new(name: String, url: &Url, token: Option<Secret>, fetcher: Fetcher) -> Self {
        Self {
            name,
            base: url.as_str().trim_end_matches('/').to_owned(),
            token,
            fetcher,
        }
    }

    /// What stands at a path below the plug-ins of that node; none if nothing does.
    async fn get(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, PluginError> {
        // Only its own: two nodes that name each other must not ask in circles.
        let separator = if path.contains('?') { '&' } else { '?' };
        let url = format!("{}/api/v1/plugins{path}{separator}own=true", self.base);
        let url = Url::parse(&url).map_err(|error| self.nonsense(error.to_string()))?;
        let (fetcher, token) = (self.fetcher.clone(), self.token.clone());
        let asking = move || {
            let asking = Asking {
                etag: None,
                token: token.as_ref(),
                bytes_max,
            };
            fetcher.get_bytes(&url, &asking)
        };
        match blocking(asking).await {
            Ok(Got::Bytes { bytes, .. }) => Ok(Some(bytes)),
            Ok(Got::Same) => Err(self.nonsense("it answered that nothing changed".to_owned())),
            Err(SourceError::Status {
                status: NOT_FOUND, ..
            }) => Ok(None),
            Err(source) => Err(PluginError::Repository {
                repository: self.name.clone(),
                source,
            }),
        }
    }

    async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, PluginError> {
        let Some(bytes) = self.get(path, ANSWER_BYTES_MAX).await? else {
            return Ok(None);
        };
        let parsed = serde_json::from_slice(&bytes);
        let wrong = |error: serde_json::Error| {
            self.nonsense(format!("it does not answer as a node does: {error}"))
        };
        parsed.map(Some).map_err(wrong)
    }

    fn nonsense(&self, reason: String) -> PluginError {
        PluginError::Nonsense {
            repository: self.name.clone(),
            reason,
        }
    }
}

fn query_of(query: &PluginQuery) -> String {
    let mut text = format!("?limit={}", query.limit);
    let mut add = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("&{key}={}", encode(value)));
        }
    };
    add("q", query.text.as_deref());
    add("kind", query.kind.map(|kind| kind.name()));
    add("after", query.after.as_ref().map(PluginId::as_str));
    text
}

#[async_trait]
impl Repository for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    async fn page(&self, query: &PluginQuery) -> Result<Vec<PluginSummary>, PluginError> {
        let page: Option<Page> = self.json(&query_of(query)).await?;
        let mut plugins = page.map_or_else(Vec::new, |page| page.plugins);
        // Another node decides neither on our order nor on how much we take.
        plugins.retain(|plugin| query.fits(plugin));
        plugins.sort_by(|a, b| a.id.cmp(&b.id));
        plugins.truncate(query.limit);
        for plugin in &mut plugins {
            plugin.repository.clone_from(&self.name);
        }
        Ok(plugins)
    }

    async fn versions(&self, id: &PluginId) -> Result<Vec<Plugin>, PluginError> {
        let path = format!("/{}", encode(id.as_str()));
        let versions: Option<Versions> = self.json(&path).await?;
        let mut versions = versions.map_or_else(Vec::new, |found| found.versions);
        versions.retain(|plugin| plugin.id == *id);
        Ok(versions)
    }

    async fn component(&self, plugin: &Plugin) -> Result<Component, PluginError> {
        let (id, version) = (encode(plugin.id.as_str()), plugin.version.to_string());
        let path = format!("/{id}/{}/component", encode(&version));
        let bytes_max = self.fetcher.settings().component_bytes_max;
        match self.get(&path, bytes_max).await? {
            Some(bytes) => Ok(Component::new(bytes)),
            None => Err(self.nonsense(format!("{}@{version} is gone", plugin.id))),
        }
    }
}
