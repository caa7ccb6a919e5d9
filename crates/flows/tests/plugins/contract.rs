//! What every built-in plug-in must do.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use flows::plugins::{BUILT_IN, BuiltIn, Outputs, find, reference};
use kernel::descriptor::PluginKind;
use kernel::worker::{Code, Failure, Incoming, Provided, Turn, Worker, native};
use kernel::{Grant, Message, PluginId};
use serde_json::{Value, json};

use super::rig::{Rig, inside, outside, run};
use super::samples::{environment, events};

/// Plug-ins that need a peer; they have tests of their own.
const WITH_PEER: &[&str] = &[
    "from-queue",
    "from-topic",
    "from-http",
    "to-http",
    "to-postgres",
    "to-prometheus",
];

fn examples(built_in: &BuiltIn) -> impl Iterator<Item = Value> {
    built_in
        .examples()
        .map(|(_, example)| serde_json::from_str(example).unwrap())
}

#[test]
fn each_says_what_it_is() {
    let ids: BTreeSet<&str> = BUILT_IN.iter().map(BuiltIn::id).collect();
    assert_eq!(ids.len(), BUILT_IN.len(), "each id stands there once");
    for built_in in BUILT_IN {
        let descriptor = built_in.descriptor();
        assert!(descriptor.id().parse::<PluginId>().is_ok(), "{built_in:?}");
        assert!(
            built_in
                .description()
                .lines()
                .next()
                .unwrap()
                .ends_with('.'),
            "{built_in:?}"
        );
        for capability in &descriptor.capabilities {
            assert!(
                capability.parse::<Grant>().is_ok(),
                "{built_in:?}: {capability}"
            );
        }
        if let Outputs::Named(outputs) = built_in.outputs() {
            assert!(!outputs.is_empty());
            assert!(
                outputs
                    .iter()
                    .all(|(_, description)| description.ends_with('.')),
                "{built_in:?}"
            );
        }
        let properties = &descriptor.parameters.as_ref().unwrap()["properties"];
        for (name, property) in properties.as_object().into_iter().flatten() {
            assert!(
                !property["description"].is_null(),
                "{built_in:?}: {name} is not described"
            );
        }
        assert!(find(built_in.id()).is_some());
        let code = built_in.code(&environment());
        assert!(code.takes_values() && code.info().native && code.info().kind == built_in.kind());
    }
    assert!(find("nothing").is_none());
}

#[test]
fn examples_fit_the_schema_and_are_accepted() {
    for built_in in BUILT_IN {
        let schema = built_in.descriptor().parameters.unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(
            built_in.examples().count() > 0,
            "{built_in:?} has no example"
        );
        for example in examples(built_in) {
            assert!(validator.is_valid(&example), "{built_in:?}: {example}");
            let checked = built_in.check(example.to_string().as_bytes());
            assert!(checked.is_ok(), "{built_in:?}: {}", checked.unwrap_err());
        }
    }
}

#[test]
fn wrong_parameters_are_refused_with_the_one_that_is_wrong() {
    for built_in in BUILT_IN {
        let schema = built_in.descriptor().parameters.unwrap();
        let example = examples(built_in).next().unwrap();
        let refused = |changed: &Value, field: &str| {
            let error = built_in.check(changed.to_string().as_bytes()).unwrap_err();
            let (found, text) = (error.field(), error.to_string());
            let named = found == field
                || found.starts_with(&format!("{field}."))
                || found.starts_with(&format!("{field}["));
            assert!(
                named && text.contains(field),
                "{built_in:?}: {changed}: {text}"
            );
        };
        let mut unknown = example.clone();
        unknown["no_such_parameter"] = json!(1);
        refused(&unknown, "no_such_parameter");
        for name in schema["required"].as_array().into_iter().flatten() {
            let mut missing = example.clone();
            missing
                .as_object_mut()
                .unwrap()
                .remove(name.as_str().unwrap());
            refused(&missing, name.as_str().unwrap());
        }
        for name in schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            let mut wrong = example.clone();
            wrong[name] = json!([[]]);
            refused(&wrong, name);
        }
        assert!(built_in.check(b"[]").is_err() && built_in.check(b"{").is_err());
    }
}

/// The same from batches of this size, with a new instance after each that `restarts` says.
async fn processed(
    code: &dyn Fn() -> Arc<dyn Code>,
    parameters: &str,
    messages: &[Incoming],
    batch: usize,
    restarts: bool,
) -> Rig {
    let mut rig = Rig::new(code(), parameters).await.unwrap();
    for (number, batch) in messages.chunks(batch).enumerate() {
        rig.handle(batch).await.unwrap();
        if restarts {
            match number % 2 {
                0 => rig.restart().await,
                _ => rig.crash().await,
            }
        }
    }
    rig.advance(Duration::from_secs(100_000)).await;
    rig
}

/// Whether batches, restarts and the form of messages change nothing about what comes out.
async fn is_steady(code: &dyn Fn() -> Arc<dyn Code>, parameters: &str, events: &[Value]) -> bool {
    let outside: Vec<Incoming> = events.iter().map(outside).collect();
    let inside: Vec<Incoming> = events.iter().map(inside).collect();
    let whole = processed(code, parameters, &outside, events.len(), false).await;
    let mut same = true;
    for (messages, batch, restarts) in [
        (&inside, events.len(), false),
        (&inside, 1, false),
        (&outside, 7, true),
        (&inside, 1, true),
    ] {
        let other = processed(code, parameters, messages, batch, restarts).await;
        same &= other.out == whole.out;
        same &= *other.store.state.lock() == *whole.store.state.lock();
    }
    same
}

fn processors() -> impl Iterator<Item = &'static BuiltIn> {
    let processors = BUILT_IN
        .iter()
        .filter(|built_in| built_in.kind() == PluginKind::Processor);
    processors.filter(|built_in| !WITH_PEER.contains(&built_in.id()))
}

#[test]
fn batches_and_restarts_change_nothing() {
    run(async {
        for built_in in processors() {
            let code = || built_in.code(&environment());
            let events = events(built_in.id(), 100)
                .unwrap_or_else(|| panic!("{built_in:?} has no sample events"));
            for example in examples(built_in) {
                assert!(
                    is_steady(&code, &example.to_string(), &events).await,
                    "{built_in:?}: {example}"
                );
            }
        }
    });
}

/// Counts in its memory, and keeps nothing.
struct Forgetful(u64);

#[async_trait]
impl Worker for Forgetful {
    async fn receive(&mut self, _: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.0 += 1;
        turn.emit("out", Message::new(self.0.to_string()))
    }
}

/// Emits once for each batch.
struct Batching;

#[async_trait]
impl Worker for Batching {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        turn.emit("out", Message::new(messages.len().to_string()))
    }
}

#[test]
fn the_check_finds_workers_that_forget_or_depend_on_batches() {
    run(async {
        let events: Vec<Value> = (0..20).map(|n| json!({ "n": n })).collect();
        let forgetful = || native("forgetful", "1", |_| Forgetful(0));
        assert!(!is_steady(&forgetful, "", &events).await);
        let batching = || native("batching", "1", |_| Batching);
        assert!(!is_steady(&batching, "", &events).await);
    });
}

/// How often batches read anything of the state, unless one of them reads something again.
async fn reading_batches(code: Arc<dyn Code>, parameters: &str, events: &[Value]) -> Option<usize> {
    let mut rig = Rig::new(code, parameters).await.unwrap();
    let messages: Vec<Incoming> = events.iter().map(inside).collect();
    let mut reading = 0;
    for batch in messages.chunks(100) {
        rig.store.reads.lock().clear();
        rig.handle(batch).await.unwrap();
        let reads = rig.store.reads.lock();
        if reads.values().any(|count| *count > 1) {
            return None;
        }
        reading += usize::from(!reads.is_empty());
    }
    Some(reading)
}

#[test]
fn a_batch_reads_each_key_of_the_state_once() {
    run(async {
        let mut reading = 0;
        for built_in in processors() {
            for example in examples(built_in) {
                let events = events(built_in.id(), 300).unwrap();
                let code = built_in.code(&environment());
                let batches = reading_batches(code, &example.to_string(), &events).await;
                assert!(batches.is_some(), "{built_in:?}: {example}");
                reading += batches.unwrap_or(0);
            }
        }
        assert!(reading > 20, "only {reading} batches read anything");
        let events = events("merge", 300).unwrap();
        let reading_again = native("reading-again", "1", |_| ReadingAgain);
        assert_eq!(reading_batches(reading_again, "", &events).await, None);
    });
}

/// Reads the same for each event.
struct ReadingAgain;

#[async_trait]
impl Worker for ReadingAgain {
    async fn receive(&mut self, _: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        turn.state(b"n").await.map(drop)
    }
}

#[test]
fn providers_go_on_where_they_were() {
    run(async {
        let providers = BUILT_IN
            .iter()
            .filter(|built_in| built_in.kind() == PluginKind::Provider);
        for built_in in providers.filter(|built_in| !WITH_PEER.contains(&built_in.id())) {
            let code = built_in.code(&environment());
            for example in examples(built_in) {
                let plain = provided(&code, &example, false).await;
                let disturbed = provided(&code, &example, true).await;
                assert!(
                    !plain.is_empty() && plain == disturbed,
                    "{built_in:?}: {example}"
                );
            }
        }
    });
}

async fn provided(
    code: &Arc<dyn Code>,
    parameters: &Value,
    disturbed: bool,
) -> Vec<(String, Value)> {
    let mut rig = Rig::new(code.clone(), &parameters.to_string())
        .await
        .unwrap();
    for _ in 0..20 {
        if disturbed {
            rig.provide_undone().await;
            rig.crash().await;
        }
        match rig.provide().await.unwrap() {
            Provided::Done => break,
            Provided::More => {}
            Provided::After(pause) => rig.advance(pause.max(Duration::from_millis(1))).await,
        }
    }
    rig.out
}

#[test]
fn a_flood_of_keys_leaves_bounded_state() {
    run(async {
        for built_in in processors() {
            let has_bound = built_in.descriptor().parameters.unwrap()["properties"]
                .get("keys_max")
                .is_some();
            let example = examples(built_in).find(|example| example.get("by").is_some());
            let Some(mut example) = example.filter(|_| has_bound) else {
                continue;
            };
            example["keys_max"] = json!(50);
            example["by"] = json!("event.flood");
            let mut rig = Rig::new(built_in.code(&environment()), &example.to_string())
                .await
                .unwrap();
            let events = events(built_in.id(), 2_000).unwrap();
            for (n, mut event) in events.into_iter().enumerate() {
                event["flood"] = json!(n);
                rig.handle(&[outside(&event)]).await.unwrap();
            }
            let entries = rig.store.state.lock().len();
            assert!(
                entries > 0 && entries <= 50 * 3 + 10,
                "{built_in:?}: {entries} entries"
            );
        }
    });
}

#[test]
fn what_is_no_event_is_refused_with_the_reason() {
    run(async {
        for built_in in processors() {
            let example = examples(built_in).next().unwrap();
            let mut rig = Rig::new(built_in.code(&environment()), &example.to_string())
                .await
                .unwrap();
            let failure = rig
                .handle(&[Incoming::new(Message::new(&b"\xff\xfe"[..]))])
                .await
                .unwrap_err();
            assert!(failure.reason.contains("UTF-8"), "{built_in:?}: {failure}");
            assert!(rig.out.is_empty());
        }
    });
}

#[test]
fn the_page_about_them_names_everything() {
    let page = reference();
    for built_in in BUILT_IN {
        assert!(page.contains(&format!("\n## {}\n", built_in.id())));
        let schema = built_in.descriptor().parameters.unwrap();
        for name in schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            assert!(
                page.contains(&format!("| `{name}` |")),
                "{built_in:?}: {name}"
            );
        }
    }
}
