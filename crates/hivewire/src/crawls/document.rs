//! What a flow document says about a crawl.

use crawl::address::NormaliserRules;
use crawl::domain::DomainParameters;
use crawl::store::Place;
use flows::document::{Document, PluginReference, Stage};
use kernel::StageAddress;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::deploy::{ApplyError, Deployments};
use crate::desk::Refusal;

const FRONTIER: &str = "frontier";
const STORE: &str = "page-store";
const NORMALISER: &str = "url-normaliser";
const DOMAIN_FILTER: &str = "domain-filter";
const SEED: &str = "seed";

/// Which plug-in refuses by which rules.
#[rustfmt::skip]
const RULES: &[(&str, &[&str])] = &[
    (SEED, &["sitemap"]),
    (NORMALISER, &["syntax", "scheme", "url_bytes_max", "path_segments_max", "segment_repeats_max", "query_parameters_max"]),
    (FRONTIER, &["budget"]),
    (DOMAIN_FILTER, &["domain", "depth", "pattern"]),
    ("robots", &["robots"]),
    ("content-filter", &["status", "size", "content"]),
    ("near-duplicates", &["duplicate", "near-duplicate"]),
    ("downloader", &[
        "redirect", "private", "name", "connect", "proxy", "tls", "timeout", "too-large", "bomb", "broken-body", "closed",
        "protocol", "address", "redirect-loop", "too-many-redirects", "redirect-wrong", "redirect-refused",
    ]),
];

/// A flow that crawls.
#[derive(Clone, Debug)]
pub(crate) struct Crawl {
    document: Document,
}

impl Crawl {
    /// What a document says, if its flow crawls: if it has a frontier.
    pub fn of(document: Document) -> Option<Self> {
        let crawl = Self { document };
        let has_frontier = crawl.stages(FRONTIER).next().is_some();
        has_frontier.then_some(crawl)
    }

    /// The crawl of this name.
    pub async fn find(deployments: &Deployments, flow: &str) -> Result<Self, Refusal> {
        let record = deployments.flow_document(flow).await;
        let record = record.map_err(|error| match error {
            ApplyError::Unknown { .. } => Refusal::unknown(format!(
                "there is no flow {flow:?} with a document: `hivewire crawl list` shows all crawls"
            )),
            other => Refusal::busy(other.to_string()),
        })?;
        Self::of(record.document).ok_or_else(|| {
            Refusal::conflict(format!(
                "the flow {flow} is no crawl: it has no stage with the plug-in `{FRONTIER}`"
            ))
        })
    }

    /// The document.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The name of the flow.
    pub fn flow(&self) -> &str {
        &self.document.flow
    }

    /// The stages with this plug-in, by name.
    fn stages(&self, plugin: &str) -> impl Iterator<Item = (&String, &Stage)> {
        let all = self.document.stages.iter();
        all.filter(move |(_, stage)| is_plugin(stage, plugin))
    }

    fn address(&self, stage: &str) -> Option<StageAddress> {
        StageAddress::new(&self.document.flow, stage).ok()
    }

    /// The addresses of all stages, and their plug-ins.
    pub fn addresses(&self) -> impl Iterator<Item = (StageAddress, &PluginReference)> {
        let stages = self.document.stages.iter();
        stages.filter_map(|(name, stage)| Some((self.address(name)?, &stage.plugin)))
    }

    /// Where URLs wait.
    pub fn frontiers(&self) -> Vec<StageAddress> {
        let names = self.stages(FRONTIER).map(|(name, _)| name);
        names.filter_map(|name| self.address(name)).collect()
    }

    /// Where it begins.
    pub fn seeds(&self) -> Vec<StageAddress> {
        let names = self.stages(SEED).map(|(name, _)| name);
        names.filter_map(|name| self.address(name)).collect()
    }

    /// After how many pages it ends, if it does.
    pub fn pages_max(&self) -> Option<u64> {
        let mut budgets = self.stages(FRONTIER).map(|(_, stage)| {
            let budget = stage.parameters.get("pages_max");
            budget.and_then(Value::as_u64)
        });
        budgets.next().flatten()
    }

    /// The store as the document names it.
    pub fn store(&self) -> Result<&str, Refusal> {
        let mut stores = self.stages(STORE);
        let Some((name, stage)) = stores.next() else {
            return Err(Refusal::conflict(format!(
                "the flow {} stores no pages: it has no stage with the plug-in `{STORE}`",
                self.flow()
            )));
        };
        let to = stage.parameters.get("to").and_then(Value::as_str);
        to.ok_or_else(|| {
            Refusal::conflict(format!(
                "the stage {}/{name} does not say where it stores: its parameter `to` is missing",
                self.flow()
            ))
        })
    }

    /// Where its store is on this node.
    pub fn place(&self, deployments: &Deployments) -> Result<Place, Refusal> {
        let to = self.store()?;
        let place = to.parse::<Place>();
        let place = place.map_err(|error| Refusal::conflict(error.to_string()))?;
        let Place::Folder(_) = &place else {
            return Ok(place);
        };
        let folder = deployments.environment().file("to", to);
        let folder = folder.map_err(|error| Refusal::conflict(error.to_string()))?;
        Ok(Place::Folder(folder))
    }

    /// Whether all nodes have the same store.
    pub fn is_store_shared(&self) -> bool {
        let place = self.store().ok().map(str::parse::<Place>);
        matches!(place, Some(Ok(Place::Postgres(_))))
    }

    /// How it writes URLs.
    pub fn normaliser(&self) -> Option<(&String, NormaliserRules)> {
        let (name, stage) = self.stages(NORMALISER).next()?;
        Some((name, parameters(stage)))
    }

    /// The stage that refuses by this rule, if there is just one that does.
    pub fn stage_of_rule(&self, rule: &str) -> Option<&String> {
        let (plugin, _) = RULES.iter().find(|(_, rules)| rules.contains(&rule))?;
        let mut stages = self.stages(plugin).map(|(name, _)| name);
        let first = stages.next()?;
        stages.next().is_none().then_some(first)
    }

    /// Its filters of domains, by name.
    pub fn domain_filters(&self) -> impl Iterator<Item = (&String, DomainParameters)> {
        let filters = self.stages(DOMAIN_FILTER);
        filters.map(|(name, stage)| (name, parameters(stage)))
    }
}

fn is_plugin(stage: &Stage, plugin: &str) -> bool {
    matches!(&stage.plugin, PluginReference::Id(id) if id.as_str() == plugin)
}

/// The parameters of a stage. What cannot be read was refused when the document was applied.
fn parameters<T: DeserializeOwned + Default>(stage: &Stage) -> T {
    match stage.parameters.is_null() {
        true => T::default(),
        false => serde_json::from_value(stage.parameters.clone()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crawl(text: &str) -> Option<Crawl> {
        Crawl::of(Document::parse(text).unwrap().document)
    }

    #[test]
    fn a_crawl_is_a_flow_with_a_frontier() {
        let text = "flow = 'c'\n[stages.f]\nplugin = 'frontier'\nparameters = { pages_max = 7 }\n\
            [stages.s]\nplugin = 'page-store'\nparameters = { to = 'crawls/c' }";
        let found = crawl(text).unwrap();
        assert_eq!(found.frontiers(), [StageAddress::new("c", "f").unwrap()]);
        assert_eq!(
            (found.pages_max(), found.store().unwrap()),
            (Some(7), "crawls/c")
        );
        assert!(!found.is_store_shared());
        let shared = text.replace("crawls/c", "postgres://me@db/c");
        assert!(crawl(&shared).unwrap().is_store_shared());
        assert!(crawl("flow = 'c'\n[stages.m]\nplugin = 'map'").is_none());
        assert_eq!(found.stage_of_rule("budget").map(String::as_str), Some("f"));
        assert_eq!(found.stage_of_rule("robots"), None);
    }

    #[test]
    fn a_crawl_that_stores_nothing_says_so() {
        let found = crawl("flow = 'c'\n[stages.f]\nplugin = 'frontier'").unwrap();
        let refusal = found.store().unwrap_err();
        assert!(refusal.detail.contains("page-store"), "{refusal}");
    }
}
