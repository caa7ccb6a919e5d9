//! Deploys the three stages of a query and waits for the end of its results.

use std::time::Instant;

use kernel::StageAddress;
use kernel::worker::{Value, Worker};
use runtime::{Delivery, StageSpec};
use tokio::sync::mpsc;

use super::sink::Sink;
use super::source::Source;
use crate::streams::Outcome;
use crate::streams::checksum::Summed;
use crate::streams::code::{processor, provider};
use crate::workers::{Result, Rig, WorkerError, in_time};

/// Runs a query whose worker gives results of type `R`.
pub fn run<W, R>(events: u32, query: fn() -> W) -> Result<Outcome>
where
    W: Worker + 'static,
    R: Value + Summed,
{
    let rig = Rig::in_memory()?;
    let (done, mut said) = mpsc::unbounded_channel();
    let sink = processor(move || Sink::<R>::new(done.clone()));
    rig.deploy(stage("sink"), sink)?;
    rig.deploy(leading("query", "sink"), processor(query))?;
    let source = provider(move || Source::new(events));
    let began = Instant::now();
    rig.deploy(leading("source", "query"), source)?;
    let said = rig.block_on(in_time("the end of the results", said.recv()))?;
    let (ended, checksum) = said.ok_or_else(|| WorkerError::Refused {
        action: "sum results up".to_owned(),
        reason: "the last stage ended".to_owned(),
    })?;
    Ok(Outcome {
        elapsed: ended - began,
        checksum,
    })
}

fn address(name: &str) -> StageAddress {
    StageAddress::new("nexmark", name).expect("both are names")
}

fn stage(name: &str) -> StageSpec {
    StageSpec::new(address(name)).delivery(Delivery::Memory)
}

fn leading(name: &str, to: &str) -> StageSpec {
    stage(name).output("out", address(to))
}
