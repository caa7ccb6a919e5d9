//! Deploys the stages of a query and waits for the end of its results.

use std::sync::Arc;
use std::time::Instant;

use kernel::StageAddress;
use kernel::worker::{Code, Value, Worker};
use runtime::{BUCKETS, Delivery, KeyRule, StageKind, StageSpec};
use tokio::sync::mpsc;

use super::keyed::KEY_RULE;
use super::sink::Sink;
use super::source::Source;
use crate::streams::Outcome;
use crate::streams::checksum::Summed;
use crate::streams::code::{processor, provider};
use crate::workers::{Result, Rig, WorkerError, in_time, refused};

const KEYED_WORKERS: u32 = 2;
const SINK: &str = "sink";

/// A stage between the source and the sink.
pub struct Step {
    name: &'static str,
    is_keyed: bool,
    code: Arc<dyn Code>,
}

impl Step {
    /// A stage of one worker.
    pub fn single<W: Worker + 'static>(
        name: &'static str,
        make: impl Fn() -> W + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            is_keyed: false,
            code: processor(make),
        }
    }

    /// A keyed stage of two workers.
    pub fn keyed<W: Worker + 'static>(
        name: &'static str,
        make: impl Fn() -> W + Send + Sync + 'static,
    ) -> Self {
        Self {
            is_keyed: true,
            ..Self::single(name, make)
        }
    }

    fn spec(&self) -> Result<StageSpec> {
        if !self.is_keyed {
            return Ok(stage(self.name));
        }
        let key: KeyRule = KEY_RULE.parse().map_err(refused("read a key"))?;
        Ok(stage(self.name)
            .kind(StageKind::Keyed(key))
            .workers(KEYED_WORKERS))
    }
}

/// Runs what a generator makes, in order, through these stages, of which the last one gives results of type `R`.
pub fn run<V, R>(make: fn(u64) -> V, events: u32, steps: Vec<Step>) -> Result<Outcome>
where
    V: Value + Clone,
    R: Value + Clone + Summed,
{
    run_from::<V, R>(1, make, events, steps)
}

/// As [`run`], with so many who make events, for queries to which the order does not matter.
pub fn run_from<V, R>(
    sources: u32,
    make: fn(u64) -> V,
    events: u32,
    steps: Vec<Step>,
) -> Result<Outcome>
where
    V: Value + Clone,
    R: Value + Clone + Summed,
{
    let rig = Rig::in_memory()?;
    let (done, mut said) = mpsc::unbounded_channel();
    let ends = match steps.last() {
        Some(step) if step.is_keyed => BUCKETS,
        _ => sources,
    };
    let sink = processor(move || Sink::<R>::new(ends, done.clone()));
    rig.deploy(stage(SINK), sink)?;
    let mut next = SINK;
    for step in steps.into_iter().rev() {
        rig.deploy(step.spec()?.output("out", address(next)), step.code)?;
        next = step.name;
    }
    let source = provider(move |number| Source::new(make, events, number, sources));
    let began = Instant::now();
    let spec = stage("source").workers(sources);
    rig.deploy(spec.output("out", address(next)), source)?;
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
    StageAddress::new("query", name).expect("both are names")
}

fn stage(name: &str) -> StageSpec {
    StageSpec::new(address(name)).delivery(Delivery::Memory)
}
