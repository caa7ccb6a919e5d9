//! A runtime over a broker in memory that runs flow documents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use broker::{Broker, SystemClock};
use bus::Bus;
use bus::engines::EmbeddedBus;
use flows::document::{BuiltIns, Document, PluginReference, check};
use flows::plugins::{BuiltIn, Environment, find};
use journal::{Options, testing::MemoryStorage};
use kernel::descriptor::PluginKind;
use kernel::worker::InstanceLimits;
use kernel::{Destination, Message, Name, StageAddress};
use runtime::{Runtime, Settings};
use serde_json::Value;

pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    broker: Arc<Broker>,
    pub bus: Arc<dyn Bus>,
    pub runtime: Arc<Runtime>,
    storage: Arc<MemoryStorage>,
    pub folder: PathBuf,
}

impl Rig {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("running/{number}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self::over(Arc::new(MemoryStorage::new(1)), folder)
    }

    fn over(storage: Arc<MemoryStorage>, folder: PathBuf) -> Self {
        let (broker, _) = Broker::start(
            storage.clone(),
            Options {
                // Many of them are in memory at the same time.
                segment_bytes: 8 << 20,
                record_bytes_max: 4 << 20,
                ..Options::default()
            },
            broker::Settings::default(),
            Arc::new(SystemClock),
        )
        .unwrap();
        let bus: Arc<dyn Bus> = Arc::new(EmbeddedBus::new(broker.clone()));
        let runtime = Runtime::start(bus.clone(), Settings::default(), Arc::new(SystemClock));
        Self {
            broker,
            bus,
            runtime,
            storage,
            folder,
        }
    }

    /// Ends in good order and starts again over what is on disk; nothing is deployed then.
    pub async fn restarted(self) -> Self {
        self.runtime.shutdown(PATIENCE).await;
        self.broker.journal().shutdown().unwrap();
        let (storage, folder) = (self.storage.clone(), self.folder.clone());
        drop(self);
        Self::over(storage, folder)
    }

    pub fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    /// Deploys the flow of a document: those without input last, so that nothing comes too early.
    pub async fn run(&self, text: &str) {
        let document = Document::parse(text).unwrap().document;
        let problems = check(&document, &BuiltIns);
        assert!(!problems.has_errors(), "{problems}");
        let environment = Environment {
            bus: Some(self.bus.clone()),
            folder: Some(self.folder.clone()),
            ..Environment::default()
        };
        let is_provider =
            |plugin: &PluginReference| built_in(plugin).kind() == PluginKind::Provider;
        for wanted in [false, true] {
            for (name, stage) in &document.stages {
                if is_provider(&stage.plugin) == wanted {
                    let limits = InstanceLimits::default();
                    let spec = document.spec(name, stage, &limits).unwrap();
                    let code = built_in(&stage.plugin).code(&environment);
                    self.runtime.deploy(spec, code).await.unwrap();
                }
            }
        }
    }

    pub async fn scale(&self, stage: &str, workers: u32) {
        let stage: StageAddress = stage.parse().unwrap();
        self.runtime.scale(&stage, workers).await.unwrap();
        assert_eq!(self.runtime.stage(&stage).unwrap().workers_count, workers);
    }

    /// Turns since the start of the runtime, without those of stages that have no input.
    fn turns_of_processors(&self) -> u64 {
        let flows = self.runtime.flows();
        let stages = flows.iter().flat_map(|flow| &flow.stages);
        let processors = stages.filter(|stage| stage.code.kind == PluginKind::Processor);
        processors.map(|stage| stage.turns).sum()
    }

    pub async fn publish(&self, to: &Destination, bodies: impl Iterator<Item = String>) {
        let mut batch: Vec<Message> = bodies.map(Message::new).collect();
        self.bus.publish(to, &mut batch, PATIENCE).await.unwrap();
    }

    /// Takes at least `count` messages from a queue, and what else is there.
    pub async fn take(&self, from: &str, count: usize) -> Vec<Value> {
        let from = queue(from);
        let subscription = self.bus.subscribe(&from, 1_000, PATIENCE).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut taken = Vec::new();
        loop {
            let more = subscription.next_batch(1_000, Duration::from_millis(200));
            let more = more.await.unwrap();
            if more.is_empty() && taken.len() >= count {
                return taken;
            }
            let receipts: Vec<_> = more.iter().map(|delivery| delivery.receipt).collect();
            subscription.acknowledge(&receipts, PATIENCE).await.unwrap();
            taken.extend(more.iter().map(|delivery| json(&delivery.message)));
            let is_in_time = Instant::now() < deadline;
            assert!(is_in_time, "{} of {count} in {from:?}", taken.len());
        }
    }

    /// Takes at least `count` messages from a queue and then goes on at once, for the middle of a run.
    pub async fn take_some(&self, from: &str, count: usize) -> Vec<Value> {
        let from = queue(from);
        let subscription = self.bus.subscribe(&from, 100, PATIENCE).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        let mut taken = Vec::new();
        while taken.len() < count {
            let more = subscription.next_batch(100, Duration::from_millis(200));
            let more = more.await.unwrap();
            let receipts: Vec<_> = more.iter().map(|delivery| delivery.receipt).collect();
            subscription.acknowledge(&receipts, PATIENCE).await.unwrap();
            taken.extend(more.iter().map(|delivery| json(&delivery.message)));
            let is_in_time = Instant::now() < deadline;
            assert!(is_in_time, "{} of {count} in {from:?}", taken.len());
        }
        taken
    }
}

/// What happens in the middle of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Middle {
    Nothing,
    /// The runtime and the broker end and start again.
    Restart,
    /// This stage gets four workers and then two.
    Scale(&'static str),
}

/// Runs a flow, disturbs it once `early` results came, and gives all of at least `count` results.
pub async fn results(
    mut rig: Rig,
    document: &str,
    from: &str,
    (early, count): (usize, usize),
    middle: Middle,
) -> (Rig, Vec<Value>) {
    rig.run(document).await;
    let mut taken = rig.take_some(from, early).await;
    assert!(taken.len() < count, "that was no longer the middle");
    match middle {
        Middle::Nothing => {}
        Middle::Restart => {
            rig = rig.restarted().await;
            rig.run(document).await;
        }
        Middle::Scale(stage) => {
            rig.scale(stage, 4).await;
            taken.extend(rig.take_some(from, 1).await);
            rig.scale(stage, 2).await;
        }
    }
    let rest = count.saturating_sub(taken.len());
    taken.extend(rig.take(from, rest).await);
    // Otherwise all was done before the restart, and it showed nothing.
    assert!(rig.turns_of_processors() > 0, "that was not the middle");
    (rig, taken)
}

fn built_in(plugin: &PluginReference) -> &'static BuiltIn {
    match plugin {
        PluginReference::Id(id) => find(id.as_str()).unwrap(),
        other => panic!("{other} is not built in"),
    }
}

pub fn queue(name: &str) -> Destination {
    Destination::Queue(Name::new(name).unwrap())
}

pub fn topic(name: &str) -> Destination {
    Destination::Topic(Name::new(name).unwrap())
}

pub fn json(message: &Message) -> Value {
    serde_json::from_slice(&message.body).unwrap()
}

/// How often each came, so that order does not count.
pub fn counted(values: impl IntoIterator<Item = Value>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for value in values {
        *counted.entry(value.to_string()).or_default() += 1;
    }
    counted
}

/// Fails with what is missing and what is too much.
pub fn assert_same(what: &str, found: Vec<Value>, expected: Vec<Value>) {
    let (found, expected) = (counted(found), counted(expected));
    let beyond = |one: &BTreeMap<String, usize>, other: &BTreeMap<String, usize>| {
        let beyond = one
            .iter()
            .filter(|(value, count)| other.get(*value) != Some(*count));
        let beyond: Vec<String> = beyond
            .take(10)
            .map(|(value, n)| format!("{n} x {value}"))
            .collect();
        beyond.join("\n")
    };
    assert!(
        found == expected,
        "{what}: found\n{}\nexpected\n{}",
        beyond(&found, &expected),
        beyond(&expected, &found)
    );
}
