//! The repository of what is built in.

use async_trait::async_trait;
use kernel::PluginId;

use super::error::PluginError;
use super::plugin::{Plugin, PluginNotes, PluginQuery, PluginSummary};
use super::repository::Repository;
use crate::deploy::built_in::component_of;
use crate::deploy::source::Component;

/// What it is called.
pub(super) const BUILT_IN: &str = "built-in";

pub(super) struct BuiltInRepository;

impl BuiltInRepository {
    fn all(&self) -> impl Iterator<Item = Plugin> {
        let components = flows::plugins::all().filter_map(component_of);
        components
            .filter_map(|component| Plugin::of(&component, None, &PluginNotes::default()).ok())
    }
}

#[async_trait]
impl Repository for BuiltInRepository {
    fn name(&self) -> &str {
        BUILT_IN
    }

    async fn page(&self, query: &PluginQuery) -> Result<Vec<PluginSummary>, PluginError> {
        let summary = |plugin: Plugin| PluginSummary::of(&[plugin], BUILT_IN);
        let mut fitting: Vec<PluginSummary> = self
            .all()
            .filter_map(summary)
            .filter(|summary| query.fits(summary))
            .collect();
        fitting.sort_by(|a, b| a.id.cmp(&b.id));
        fitting.truncate(query.limit);
        Ok(fitting)
    }

    async fn versions(&self, id: &PluginId) -> Result<Vec<Plugin>, PluginError> {
        Ok(self.all().filter(|plugin| plugin.id == *id).collect())
    }

    async fn component(&self, plugin: &Plugin) -> Result<Component, PluginError> {
        let built_in = flows::plugins::find(plugin.id.as_str());
        built_in
            .and_then(component_of)
            .ok_or_else(|| PluginError::Nonsense {
                repository: BUILT_IN.to_owned(),
                reason: format!("{} is gone", plugin.id),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_built_in_is_listed_and_described() {
        let query = PluginQuery {
            limit: 1_000,
            ..PluginQuery::default()
        };
        let listed = BuiltInRepository.page(&query).await.unwrap();
        assert_eq!(listed.len(), flows::plugins::all().count());
        for summary in listed {
            let versions = BuiltInRepository.versions(&summary.id).await.unwrap();
            let component = BuiltInRepository.component(&versions[0]).await.unwrap();
            assert_eq!(component.digest, versions[0].digest);
        }
    }
}
