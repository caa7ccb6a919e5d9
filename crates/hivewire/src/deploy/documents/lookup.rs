//! The plug-ins of a document, looked up where this node finds them.

use std::collections::BTreeMap;

use flows::document::{
    BuiltIns, Catalogue, Document, Found, HttpTable, Path, PluginReference, Problems, check,
};
use kernel::descriptor::{self, Descriptor};
use runtime::Delivery;
use serde_json::Value;

use crate::deploy::plugins::PluginQuery;
use crate::deploy::source::Source;
use crate::deploy::{ApplyError, DeployError, Deployments, Given, PluginRef};

/// How many ids are looked through for one that may have been meant.
const IDS_MAX: usize = 1_000;

/// What was found.
struct LookedUp {
    found: BTreeMap<PluginReference, Found>,
    ids: Vec<String>,
}

impl Catalogue for LookedUp {
    fn find(&self, plugin: &PluginReference) -> Found {
        let found = self.found.get(plugin).cloned();
        found.unwrap_or_else(|| Found::Unseen("it was not looked up".to_owned()))
    }

    fn ids(&self) -> Vec<String> {
        self.ids.clone()
    }

    fn mistake(&self, plugin: &PluginReference, parameters: &Value) -> Option<(String, String)> {
        BuiltIns.mistake(plugin, parameters)
    }
}

impl Deployments {
    /// Everything that is wrong with a document, as far as this node can tell.
    pub async fn check_document(&self, document: &Document) -> Result<Problems, ApplyError> {
        let mut found = BTreeMap::new();
        for stage in document.stages.values() {
            if !found.contains_key(&stage.plugin) {
                let looked_up = self.look_up(&stage.plugin).await;
                found.insert(stage.plugin.clone(), looked_up);
            }
        }
        let is_missing = |found: &Found| matches!(found, Found::Nothing(_));
        let ids = match found.values().any(is_missing) {
            true => self.plugin_ids().await,
            false => Vec::new(),
        };
        let catalogue = LookedUp { found, ids };
        let checked = document.clone();
        // Schemas can be written so that this takes long.
        let checking = tokio::task::spawn_blocking(move || check(&checked, &catalogue));
        let mut problems = checking.await?;
        self.check_deliveries(document, &mut problems);
        self.check_routes(document, &mut problems).await?;
        Ok(problems)
    }

    /// Whether other flows answer the same requests.
    async fn check_routes(
        &self,
        document: &Document,
        problems: &mut Problems,
    ) -> Result<(), ApplyError> {
        // Its own routes do not get in each other's way, or that has been said.
        if document.http.is_empty() || problems.has_errors() {
            return Ok(());
        }
        let mut table = HttpTable::default();
        let records = self.flow_documents().await?;
        let others = records.iter().map(|record| &record.document);
        for other in others.filter(|other| other.flow != document.flow) {
            for pattern in other.http.iter().filter_map(|route| route.pattern().ok()) {
                // Of two that are for the same, the first one has it.
                let _ = table.insert(&pattern, ());
            }
        }
        for (index, route) in document.http.iter().enumerate() {
            let Ok(pattern) = route.pattern() else {
                continue;
            };
            if let Err(path) = table.insert(&pattern, ()) {
                let path_of_route = Path::default().to("http").to(index).to("route");
                let message = format_args!(
                    "another flow answers {} {path} already: take another path, or take it out there",
                    pattern.method
                );
                problems.error(&path_of_route, message);
            }
        }
        Ok(())
    }

    /// Whether this node can keep what is promised about events.
    fn check_deliveries(&self, document: &Document, problems: &mut Problems) {
        let commit = self.bus.capabilities().commit;
        for (name, stage) in &document.stages {
            let promise = document.promise(stage);
            let path = Path::stage(name).to("delivery");
            if let (Delivery::Durable, bus::Given::No(reason)) = (promise.delivery(), commit) {
                let promise = promise.name();
                problems.error(
                    &path,
                    format_args!("the bus of this node cannot keep {promise}: {reason}"),
                );
            }
        }
    }

    async fn plugin_ids(&self) -> Vec<String> {
        let query = PluginQuery {
            limit: IDS_MAX,
            ..PluginQuery::default()
        };
        match self.list_plugins(&query).await {
            Ok(page) => page
                .plugins
                .iter()
                .map(|plugin| plugin.id.to_string())
                .collect(),
            Err(_) => BuiltIns.ids(),
        }
    }

    async fn look_up(&self, plugin: &PluginReference) -> Found {
        match self.look_for(plugin).await {
            Ok(descriptor) => Found::Plugin(Box::new(descriptor)),
            Err(error) => Found::Nothing(error.to_string()),
        }
    }

    async fn look_for(&self, plugin: &PluginReference) -> Result<Descriptor, DeployError> {
        match given(plugin)? {
            Given::Source(Source::Plugin(reference)) => {
                let plugin = self.plugin(&reference, false).await?.plugin;
                Ok(Descriptor {
                    name: plugin.id.to_string(),
                    version: plugin.version.to_string(),
                    kind: plugin.kind,
                    parameters: plugin.parameters,
                    outputs: plugin.outputs,
                    capabilities: plugin.capabilities,
                    ..Descriptor::default()
                })
            }
            given => {
                let (component, _) = self.obtain(&given).await?;
                let read = descriptor::read(&component.bytes);
                // A component may say nothing about itself, and what is damaged is told when it is loaded.
                Ok(read.ok().flatten().unwrap_or_default())
            }
        }
    }
}

/// A plug-in as deployments name it.
pub(super) fn given(plugin: &PluginReference) -> Result<Given, DeployError> {
    let source = match plugin {
        PluginReference::Id(id) if flows::plugins::find(id.as_str()).is_some() => {
            Source::BuiltIn(id.clone())
        }
        PluginReference::Id(id) => Source::Plugin(PluginRef {
            id: id.clone(),
            version: None,
        }),
        PluginReference::Version(..) => Source::Plugin(plugin.to_string().parse()?),
        PluginReference::File(_) if plugin.is_relative() => {
            return Err(DeployError::Request(format!(
                "{plugin} begins in the folder of the document, which a node does not see: name the whole path, or use `hivewire run` or `hivewire apply`"
            )));
        }
        PluginReference::File(path) => Source::File(path.into()),
        PluginReference::Uri(uri) => uri.parse()?,
        PluginReference::Upload(digest) => return Ok(Given::Digest(digest.clone())),
    };
    Ok(Given::Source(source))
}
