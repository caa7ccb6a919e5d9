//! Whether a document makes sense, before anything of it runs.

use std::collections::{BTreeMap, BTreeSet};

use kernel::descriptor::{Descriptor, PluginKind};
use kernel::{Address, Name};
use runtime::{BUCKETS, WORKERS_MAX};

use serde_json::Value;

use super::http::HttpTable;
use super::model::{Document, Limits, Stage};
use super::parameters::Schemas;
use super::place::Place;
use super::plugin_reference::PluginReference;
use super::problem::{Path, Problems, plain};
use super::suggest::hint;
use crate::plugins::{self, Outputs};

/// Where plug-ins are known.
pub trait Catalogue {
    /// What this one says about itself.
    fn find(&self, plugin: &PluginReference) -> Found;

    /// The ids of plug-ins that could have been meant.
    fn ids(&self) -> Vec<String>;

    /// What is wrong with parameters that fit the schema: the field, with dots where one lies within another, and why.
    fn mistake(&self, _plugin: &PluginReference, _parameters: &Value) -> Option<(String, String)> {
        None
    }
}

/// What a catalogue knows of a plug-in.
#[derive(Clone, Debug)]
pub enum Found {
    /// What it says about itself.
    Plugin(Box<Descriptor>),
    /// There is none, and why.
    Nothing(String),
    /// It cannot be looked at here, and why. So nobody knows whether it fits.
    Unseen(String),
}

/// Whether the outputs of its plug-in need not lead anywhere.
fn passes_on(stage: &Stage) -> bool {
    let PluginReference::Id(id) = &stage.plugin else {
        return false;
    };
    let built_in = plugins::find(id.as_str());
    built_in.is_some_and(|built_in| matches!(built_in.outputs(), Outputs::Optional(_)))
}

/// Checks a document. Arguments are compared with the schemas of plug-ins, which can be written so that this takes
/// long: whoever has to answer others meanwhile checks on a thread of its own.
pub fn check(document: &Document, catalogue: &dyn Catalogue) -> Problems {
    let mut check = Check {
        document,
        catalogue,
        descriptors: BTreeMap::new(),
        schemas: Schemas::default(),
        problems: Problems::default(),
    };
    if document.stages.is_empty() {
        let message = "a flow has at least one stage: write [stages.NAME]";
        check.problems.error(&Path::default(), message);
    }
    check.look_up();
    for (name, stage) in &document.stages {
        check.stage(name, stage);
    }
    check.inputs();
    check.routes();
    check.problems
}

struct Check<'a> {
    document: &'a Document,
    catalogue: &'a dyn Catalogue,
    descriptors: BTreeMap<&'a str, Descriptor>,
    schemas: Schemas,
    problems: Problems,
}

impl<'a> Check<'a> {
    /// Finds the plug-in of each stage.
    fn look_up(&mut self) {
        let catalogue = self.catalogue;
        let mut found: BTreeMap<&PluginReference, Found> = BTreeMap::new();
        let mut ids = None;
        for (name, stage) in &self.document.stages {
            let path = Path::stage(name).to("plugin");
            let plugin = &stage.plugin;
            let found = found
                .entry(plugin)
                .or_insert_with(|| catalogue.find(plugin));
            match found {
                Found::Plugin(descriptor) => {
                    self.descriptors.insert(name, (**descriptor).clone());
                }
                Found::Unseen(reason) => {
                    let message = format_args!("{plugin} is not checked: {reason}");
                    self.problems.warning(&path, message);
                }
                Found::Nothing(reason) => {
                    let ids = ids.get_or_insert_with(|| catalogue.ids());
                    let text = plugin.to_string();
                    let hint = hint(&text, ids.iter().map(String::as_str));
                    self.problems.error(&path, format_args!("{reason}{hint}"));
                }
            }
        }
    }

    fn stage(&mut self, name: &'a str, stage: &'a Stage) {
        let path = Path::stage(name);
        self.way_of_events(stage, &path);
        self.size(stage, &path);
        self.limits(&stage.limits, &path.to("limits"));
        self.nodes(stage, &path);
        self.edges(name, stage, &path);
        if let Some(descriptor) = self.descriptors.get(name) {
            let descriptor = descriptor.clone();
            self.plugin(&descriptor, stage, &path);
        }
    }

    fn way_of_events(&mut self, stage: &Stage, path: &Path) {
        if stage.key.is_some() && stage.router.is_some() {
            let message = "a stage has either a router or a key: a key decides by itself which worker gets an event";
            self.problems.error(&path.to("router"), message);
        }
    }

    fn size(&mut self, stage: &Stage, path: &Path) {
        let path_of_workers = path.to("workers");
        if stage.workers.is_some() && stage.scale.is_some() {
            let message = "a stage has either workers, which is a fixed number, or scale: take one of them out";
            self.problems.error(&path_of_workers, message);
        }
        let workers_max = match stage.key {
            Some(_) => BUCKETS,
            None => WORKERS_MAX,
        };
        if let Some(workers) = stage.workers
            && !(1..=workers_max).contains(&workers)
        {
            let kind = stage.key.as_ref().map_or("", |_| "keyed ");
            let message =
                format_args!("a {kind}stage has 1 to {workers_max} workers, not {workers}");
            self.problems.error(&path_of_workers, message);
        }
        let Some(scale) = &stage.scale else {
            return;
        };
        if let Some(mistake) = scale.mistake() {
            self.problems.error(&path.to("scale"), mistake);
        } else if scale.rule().max > workers_max {
            let message =
                format_args!("a keyed stage has {BUCKETS} buckets and so at most as many workers");
            self.problems.error(&path.to("scale").to("max"), message);
        }
    }

    fn limits(&mut self, limits: &Limits, path: &Path) {
        let whole = |value: Option<u32>| value.map(u64::from);
        let size = |value: Option<usize>| value.map(|value| value as u64);
        for (name, value) in [
            ("mailbox_messages_max", whole(limits.mailbox_messages_max)),
            ("batch_messages_max", whole(limits.batch_messages_max)),
            ("spill_messages_max", whole(limits.spill_messages_max)),
            ("batch_ms", limits.batch_ms),
            ("memory_bytes_max", size(limits.memory_bytes_max)),
            ("call_ms_max", limits.call_ms_max),
            ("host_calls_max", whole(limits.host_calls_max)),
            ("sends_max", size(limits.sends_max)),
            ("bytes_max", size(limits.bytes_max)),
        ] {
            if value == Some(0) {
                let message = "nothing could happen with a limit of zero: write a larger one, or leave it out";
                self.problems.error(&path.to(name), message);
            }
        }
    }

    fn nodes(&mut self, stage: &Stage, path: &Path) {
        for (index, node) in stage.on.iter().enumerate() {
            if let Err(error) = Name::new(node) {
                let message = format_args!("{node:?} is no name of a node: {error}");
                self.problems.error(&path.to("on").to(index), message);
            }
        }
    }

    fn edges(&mut self, name: &str, stage: &Stage, path: &Path) {
        for (output, places) in &stage.outputs {
            let path = path.to("outputs").to(output);
            for (index, place) in places.0.iter().enumerate() {
                self.edge(name, place, &path.to(index));
            }
        }
    }

    fn edge(&mut self, from: &str, place: &Place, path: &Path) {
        let flow = self.document.flow.as_str();
        let Some(to) = place.stage_of(flow) else {
            return self.edge_elsewhere(place, path);
        };
        if !self.document.stages.contains_key(to) {
            let names = self.document.stages.keys().map(String::as_str);
            let hint = hint(to, names);
            let message = format_args!("there is no stage {to:?} in this flow{hint}");
            self.problems.error(path, message);
        } else if self.is_provider(to) {
            let message =
                format_args!("{to} is a provider and has no input: {from} cannot lead there");
            self.problems.error(path, message);
        }
    }

    /// The queue of one's own stage is the stage, whose edges are to be seen.
    fn edge_elsewhere(&mut self, place: &Place, path: &Path) {
        let Place::Address(Address::Queue(queue)) = place else {
            return;
        };
        let flow = self.document.flow.as_str();
        let own = queue
            .as_str()
            .strip_prefix(flow)
            .and_then(|rest| rest.strip_prefix('.'));
        if let Some(stage) = own.filter(|stage| self.document.stages.contains_key(*stage)) {
            let message = format_args!("this is the queue of the stage {stage}: write {stage:?}");
            self.problems.warning(path, message);
        }
    }

    fn is_provider(&self, name: &str) -> bool {
        let descriptor = self.descriptors.get(name);
        descriptor.is_some_and(|descriptor| descriptor.kind == PluginKind::Provider)
    }

    fn plugin(&mut self, descriptor: &Descriptor, stage: &Stage, path: &Path) {
        self.outputs(descriptor, stage, path);
        if descriptor.kind == PluginKind::Provider {
            self.provider(stage, path);
        }
        self.grants(descriptor, stage, path);
        self.parameters(descriptor, stage, &path.to("parameters"));
    }

    fn parameters(&mut self, descriptor: &Descriptor, stage: &Stage, path: &Path) {
        // Whoever says nothing says that all is as usual.
        let nothing = Value::Object(Default::default());
        let parameters = match &stage.parameters {
            Value::Null => &nothing,
            parameters => parameters,
        };
        let plugin = &stage.plugin;
        let mistake = self.schemas.check(descriptor, plugin, parameters, path);
        // The plug-in itself says better than its schema what it wants.
        let own = match &mistake {
            Some(mistake) if mistake.is_plain => None,
            _ => self.catalogue.mistake(plugin, parameters),
        };
        match (own, mistake) {
            (Some((field, reason)), _) => {
                let parts = field.split('.').filter(|part| !part.is_empty());
                let at = parts.fold(path.clone(), |path, part| path.to(part));
                self.problems.error(&at, plain(&reason));
            }
            (None, Some(mistake)) if mistake.at_name => {
                self.problems.error_at_name(&mistake.at, mistake.message);
            }
            (None, Some(mistake)) => self.problems.error(&mistake.at, mistake.message),
            (None, None) => {}
        }
    }

    fn outputs(&mut self, descriptor: &Descriptor, stage: &Stage, path: &Path) {
        if descriptor.outputs.is_empty() {
            return;
        }
        let names = descriptor.outputs.iter().map(|output| output.name.as_str());
        for output in stage.outputs.keys() {
            if names.clone().any(|name| name == output) {
                continue;
            }
            let hint = hint(output, names.clone());
            let message = format_args!("{} has no output {output:?}{hint}", stage.plugin);
            self.problems
                .error_at_name(&path.to("outputs").to(output), message);
        }
        if stage.outputs.is_empty() && !passes_on(stage) {
            let message =
                "none of its outputs leads anywhere: what comes out of it is counted and dropped";
            self.problems.warning(path, message);
        }
    }

    fn provider(&mut self, stage: &Stage, path: &Path) {
        let has_no_input =
            "a provider has no input, so it has neither key nor router nor scale: take this out";
        for (name, is_there) in [
            ("key", stage.key.is_some()),
            ("router", stage.router.is_some()),
            ("scale", stage.scale.is_some()),
        ] {
            if is_there {
                self.problems.error(&path.to(name), has_no_input);
            }
        }
    }

    fn grants(&mut self, descriptor: &Descriptor, stage: &Stage, path: &Path) {
        let is_granted = |wanted: &&String| {
            let wanted = wanted.as_str();
            stage.grants.iter().any(|grant| grant.to_string() == wanted)
        };
        let missing: Vec<String> = descriptor
            .capabilities
            .iter()
            .filter(|wanted| !is_granted(wanted))
            .map(|wanted| format!("{wanted:?}"))
            .collect();
        if !missing.is_empty() {
            let list = missing.join(", ");
            let message = format_args!(
                "{} asks for {list}, which is not granted: write grants = [{list}]",
                stage.plugin
            );
            self.problems.error(&path.to("grants"), message);
        }
    }

    /// Any client can talk to any stage, so one without an edge may be meant so.
    fn inputs(&mut self) {
        let edges = self.document.edges();
        let fed = edges.iter().map(|edge| edge.to.as_str());
        let asked = self.document.http.iter().map(|route| route.stage.as_str());
        let fed: BTreeSet<&str> = fed.chain(asked).collect();
        for name in self.document.stages.keys() {
            let is_known = self.descriptors.contains_key(name.as_str());
            if is_known && !self.is_provider(name) && !fed.contains(name.as_str()) {
                let flow = &self.document.flow;
                let message = format_args!(
                    "no stage leads here: it only gets what others send to {flow}/{name}"
                );
                self.problems.warning(&Path::stage(name), message);
            }
        }
    }

    fn routes(&mut self) {
        let mut table = HttpTable::default();
        for (index, route) in self.document.http.iter().enumerate() {
            let path = Path::default().to("http").to(index);
            match route.pattern() {
                Err(reason) => self.problems.error(&path.to("route"), reason),
                Ok(pattern) => {
                    if let Err(other) = table.insert(&pattern, ()) {
                        let message = format_args!(
                            "the route for {other} takes the same requests: take one of them out"
                        );
                        self.problems.error(&path.to("route"), message);
                    }
                }
            }
            self.route_stage(&route.stage, &path.to("stage"));
            if let Some(reason) = route.wrong_timeout() {
                self.problems.error(&path.to("timeout"), reason);
            }
            if let Some((header, reason)) = route.wrong_header() {
                let path = path.to("headers").to(header);
                self.problems.error(&path, reason);
            }
        }
    }

    fn route_stage(&mut self, stage: &str, path: &Path) {
        if !self.document.stages.contains_key(stage) {
            let names = self.document.stages.keys().map(String::as_str);
            let hint = hint(stage, names);
            let message = format_args!("there is no stage {stage:?} in this flow{hint}");
            self.problems.error(path, message);
        } else if self.is_provider(stage) {
            let message =
                format_args!("{stage} is a provider and has no input: it cannot get requests");
            self.problems.error(path, message);
        }
    }
}
