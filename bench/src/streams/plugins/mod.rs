//! Queries as flow documents of plug-ins that are built in: nobody programs anything. Events are made before, as the peer reads its
//! own, given by a provider of ours, and summed up when all results have come; all between is what anybody gets who writes the same document.

mod results;
mod sink;
mod source;

use std::sync::Arc;
use std::time::Instant;

use flows::document::{BuiltIns, Document, PluginReference, check};
use flows::plugins::{Environment, find};
use kernel::StageAddress;
use kernel::worker::{Code, InstanceLimits};
use parking_lot::Mutex;
use runtime::{Delivery, StageSpec};
use tokio::sync::mpsc;

use super::code::{processor, provider};
use super::{Outcome, Query};
use crate::workers::{Result, Rig, WorkerError, in_time, refused};
use sink::Sink;
use source::{MakeEvent, Source};

/// A query that needs no programming.
struct Flow {
    document: &'static str,
    event: MakeEvent,
}

fn flow(query: Query) -> Result<Flow> {
    let (document, event): (_, MakeEvent) = match query {
        Query::Q0 => (include_str!("q0.toml"), source::happening),
        Query::Q1 => (include_str!("q1.toml"), source::happening),
        Query::Q2 => (include_str!("q2.toml"), source::happening),
        Query::WordCount => (include_str!("word_count.toml"), source::words),
        other => {
            return Err(WorkerError::Refused {
                action: format!("run {}", other.name()),
                reason: "there is no flow document for it".to_owned(),
            });
        }
    };
    Ok(Flow { document, event })
}

/// Runs a query over so many events.
pub fn run(query: Query, events: u32) -> Result<Outcome> {
    let Flow { document, event } = flow(query)?;
    let due = results::count(query, events);
    let rig = Rig::in_memory()?;
    let (done, mut said) = mpsc::unbounded_channel();
    let sink = processor(move || Sink::new(due, done.clone()));
    rig.deploy(stage("sink"), sink)?;
    let first = deploy(&rig, document)?;
    let events = Mutex::new(source::events(events, event));
    let source = provider(move |_| Source(std::mem::take(&mut *events.lock())));
    let began = Instant::now();
    rig.deploy(stage("source").output("out", first), source)?;
    let said = rig.block_on(in_time("the last result", said.recv()))?;
    let (ended, results) = said.ok_or_else(|| WorkerError::Refused {
        action: "gather results".to_owned(),
        reason: "the last stage ended".to_owned(),
    })?;
    Ok(Outcome {
        elapsed: ended - began,
        checksum: results::checksum(query, &results).map_err(refused("sum results up"))?,
    })
}

/// Deploys the stages of a document; where its events go in.
fn deploy(rig: &Rig, text: &str) -> Result<StageAddress> {
    let document = Document::parse(text).map_err(refused("read a flow"))?;
    let document = document.document;
    let problems = check(&document, &BuiltIns);
    if problems.has_errors() {
        return Err(WorkerError::Refused {
            action: "check a flow".to_owned(),
            reason: problems.to_string(),
        });
    }
    for (name, stage) in &document.stages {
        let spec = document.spec(name, stage, &InstanceLimits::default());
        let spec = spec.map_err(refused("read a stage"))?;
        rig.deploy(spec, code(&stage.plugin)?)?;
    }
    StageAddress::new(&document.flow, "query").map_err(refused("name a stage"))
}

fn code(plugin: &PluginReference) -> Result<Arc<dyn Code>> {
    let built_in = match plugin {
        PluginReference::Id(id) => find(id.as_str()),
        _ => None,
    };
    let built_in = built_in.ok_or_else(|| WorkerError::Refused {
        action: format!("find {plugin}"),
        reason: "it is not built in".to_owned(),
    })?;
    Ok(built_in.code(&Environment::default()))
}

fn stage(name: &str) -> StageSpec {
    let address = StageAddress::new("bench", name).expect("both are names");
    StageSpec::new(address).delivery(Delivery::Memory)
}
