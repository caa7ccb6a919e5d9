//! How a running flow becomes another: the fewest steps, in an order that loses nothing.
//!
//! Stages are added and changed from the end of the flow to its beginning, so that whoever sends finds somebody who
//! understands. What is gone is removed last, from the beginning to the end, each stage once nothing waits for it.

use std::collections::BTreeSet;
use std::fmt;

use runtime::StageKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::downstream_first;
use super::http::HttpRoute;
use super::model::{Document, Stage};
use super::router::RouterChoice;

/// The steps from one document to another. There is none for a stage that stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "kebab-case")]
#[schemars(rename = "FlowStep")]
pub enum Step {
    /// A stage begins.
    Add {
        /// Its name.
        stage: String,
        /// Its plug-in.
        plugin: String,
    },
    /// A stage changes while events flow.
    Change {
        /// Its name.
        stage: String,
        /// What changes.
        aspects: Vec<Aspect>,
    },
    /// A stage stops and begins anew as another, because it cannot change while it runs. Its events wait meanwhile.
    Rebuild {
        /// Its name.
        stage: String,
        /// Why it cannot change while it runs.
        reason: String,
    },
    /// Stages end once nothing waits for them. They are several if they are a cycle.
    Remove {
        /// Their names.
        stages: Vec<String>,
    },
    /// Other requests over HTTP are answered than before.
    Serve {
        /// Routes that are answered from now on, as `POST /orders by orders`.
        added: Vec<String>,
        /// Routes that are not answered any more.
        removed: Vec<String>,
    },
}

/// What changes about a stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
#[schemars(rename = "FlowStepAspect")]
pub enum Aspect {
    /// Its plug-in.
    Code {
        /// The one before.
        from: String,
        /// The one to be.
        to: String,
    },
    /// What its plug-in is told.
    Parameters,
    /// Where its outputs lead.
    Edges {
        /// New edges, as `output -> place`.
        added: Vec<String>,
        /// Edges that are gone.
        removed: Vec<String>,
    },
    /// How many workers it has, or how it finds their number.
    Size {
        /// Before.
        from: String,
        /// To be.
        to: String,
    },
    /// What it may use up.
    Limits,
    /// What happens when a worker fails.
    Supervision,
    /// How a new version proves itself.
    HandOver,
    /// What its workers may do beyond their flow.
    Grants,
    /// The nodes that it runs on.
    Nodes,
    /// What is promised about its events.
    Promise {
        /// Before.
        from: String,
        /// To be.
        to: String,
    },
}

impl Plan {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The steps from `old`, or from nothing, to `new`.
pub fn plan(old: Option<&Document>, new: &Document) -> Plan {
    let nothing = Document::new(&new.flow);
    let old = old.unwrap_or(&nothing);
    let mut steps = Vec::new();
    for group in new.downstream_first() {
        // In a cycle somebody has to be first: those who are new, so that the others find them.
        let (added, there): (Vec<_>, Vec<_>) = group
            .iter()
            .partition(|name| !old.stages.contains_key(*name));
        steps.extend(added.into_iter().map(|name| add(new, name)));
        steps.extend(there.into_iter().filter_map(|name| change(old, new, name)));
    }
    steps.extend(removals(old, new));
    steps.extend(serve(old, new));
    Plan { steps }
}

fn serve(old: &Document, new: &Document) -> Option<Step> {
    let is_in = |all: &[HttpRoute], one: &HttpRoute| all.contains(one);
    let added = new.http.iter().filter(|route| !is_in(&old.http, route));
    let removed = old.http.iter().filter(|route| !is_in(&new.http, route));
    let named = |route: &HttpRoute| format!("{} by {}", route.route, route.stage);
    let added: Vec<String> = added.map(named).collect();
    let removed: Vec<String> = removed.map(named).collect();
    let is_other = !added.is_empty() || !removed.is_empty();
    is_other.then_some(Step::Serve { added, removed })
}

fn add(new: &Document, name: &str) -> Step {
    let plugin = new.stages.get(name).map(|stage| stage.plugin.to_string());
    Step::Add {
        stage: name.to_owned(),
        plugin: plugin.unwrap_or_default(),
    }
}

fn change(old: &Document, new: &Document, name: &str) -> Option<Step> {
    let (was, is) = (old.stages.get(name)?, new.stages.get(name)?);
    if let Some(reason) = reason_to_rebuild((old, was), (new, is)) {
        return Some(Step::Rebuild {
            stage: name.to_owned(),
            reason,
        });
    }
    let aspects = aspects((old, was), (new, is));
    (!aspects.is_empty()).then(|| Step::Change {
        stage: name.to_owned(),
        aspects,
    })
}

type Of<'a> = (&'a Document, &'a Stage);

fn reason_to_rebuild((old, was): Of<'_>, (new, is): Of<'_>) -> Option<String> {
    let (delivery, wanted) = (old.promise(was), new.promise(is));
    if delivery.delivery() != wanted.delivery() {
        let (delivery, wanted) = (delivery.name(), wanted.name());
        return Some(format!("its delivery changes from {delivery} to {wanted}"));
    }
    let (kind, wanted) = (kind_in_words(was), kind_in_words(is));
    (kind != wanted).then(|| format!("it is {kind} and becomes {wanted}"))
}

fn kind_in_words(stage: &Stage) -> String {
    match (stage.kind(), &stage.router) {
        (StageKind::Keyed(key), _) => format!("keyed by {key}"),
        (_, Some(RouterChoice::Own(own))) => format!("routed by {own}"),
        (StageKind::Routed(kind), _) => format!("routed by {kind}"),
        (StageKind::Pool(kind), _) => format!("a pool with the router {kind}"),
    }
}

fn aspects((old, was): Of<'_>, (new, is): Of<'_>) -> Vec<Aspect> {
    let mut aspects = Vec::new();
    let mut note = |differs: bool, aspect: &dyn Fn() -> Aspect| {
        if differs {
            aspects.push(aspect());
        }
    };
    let texts = |from: &dyn ToString, to: &dyn ToString| (from.to_string(), to.to_string());
    note(was.plugin != is.plugin, &|| {
        let (from, to) = texts(&was.plugin, &is.plugin);
        Aspect::Code { from, to }
    });
    note(was.parameters != is.parameters, &|| Aspect::Parameters);
    let (edges_before, edges) = (edges_of(was), edges_of(is));
    note(edges_before != edges, &|| Aspect::Edges {
        added: edges.difference(&edges_before).cloned().collect(),
        removed: edges_before.difference(&edges).cloned().collect(),
    });
    let (from, to) = (size_in_words(was), size_in_words(is));
    note(from != to, &|| Aspect::Size {
        from: from.clone(),
        to: to.clone(),
    });
    note(was.limits != is.limits, &|| Aspect::Limits);
    let differs =
        was.supervision.clone().unwrap_or_default() != is.supervision.clone().unwrap_or_default();
    note(differs, &|| Aspect::Supervision);
    let differs =
        was.hand_over.clone().unwrap_or_default() != is.hand_over.clone().unwrap_or_default();
    note(differs, &|| Aspect::HandOver);
    note(was.grants != is.grants, &|| Aspect::Grants);
    note(was.on != is.on, &|| Aspect::Nodes);
    let (promised, promises) = (old.promise(was), new.promise(is));
    note(promised != promises, &|| {
        let (from, to) = texts(&promised.name(), &promises.name());
        Aspect::Promise { from, to }
    });
    aspects
}

fn edges_of(stage: &Stage) -> BTreeSet<String> {
    let mut edges = BTreeSet::new();
    for (output, places) in &stage.outputs {
        edges.extend(places.0.iter().map(|place| format!("{output} -> {place}")));
    }
    edges
}

fn size_in_words(stage: &Stage) -> String {
    let Some(scale) = &stage.scale else {
        return match stage.first_workers() {
            1 => "1 worker".to_owned(),
            workers => format!("{workers} workers"),
        };
    };
    let rule = serde_json::to_value(scale.rule()).unwrap_or_default();
    format!("workers by the rule {rule}")
}

/// What is gone ends from the beginning of the flow to its end, and a cycle at once: as long as one of it has
/// something to do, all of it has.
fn removals(old: &Document, new: &Document) -> impl Iterator<Item = Step> {
    let is_gone = |name: &&String| !new.stages.contains_key(*name);
    let gone: BTreeSet<&str> = old
        .stages
        .keys()
        .filter(is_gone)
        .map(String::as_str)
        .collect();
    let groups = downstream_first(&gone, &old.edges());
    groups
        .into_iter()
        .rev()
        .map(|stages| Step::Remove { stages })
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { stage, plugin } => write!(f, "add {stage}, which runs {plugin}"),
            Self::Rebuild { stage, reason } => write!(
                f,
                "stop {stage} and begin it anew, because {reason}; its events wait meanwhile"
            ),
            Self::Change { stage, aspects } => {
                let aspects: Vec<String> = aspects.iter().map(Aspect::to_string).collect();
                write!(f, "change {stage}: {}", aspects.join("; "))
            }
            Self::Remove { stages } => {
                let stages = stages.join(" and ");
                write!(f, "remove {stages} once nothing waits there")
            }
            Self::Serve { added, removed } => {
                let added = added.iter().map(|route| format!("answer {route}"));
                let removed = removed.iter().map(|route| format!("no longer {route}"));
                let routes: Vec<String> = added.chain(removed).collect();
                write!(f, "over HTTP: {}", routes.join(", "))
            }
        }
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code { from, to } => write!(f, "it runs {to} instead of {from}"),
            Self::Parameters => f.write_str("its parameters"),
            Self::Edges { added, removed } => {
                let added = added.iter().map(|edge| format!("new edge {edge}"));
                let removed = removed.iter().map(|edge| format!("no edge {edge}"));
                let edges: Vec<String> = added.chain(removed).collect();
                f.write_str(&edges.join(", "))
            }
            Self::Size { from, to } => write!(f, "{to} instead of {from}"),
            Self::Limits => f.write_str("its limits"),
            Self::Supervision => f.write_str("its supervision"),
            Self::HandOver => f.write_str("its hand-over"),
            Self::Grants => f.write_str("its grants"),
            Self::Nodes => f.write_str("the nodes that it runs on"),
            Self::Promise { from, to } => write!(f, "its delivery from {from} to {to}"),
        }
    }
}
