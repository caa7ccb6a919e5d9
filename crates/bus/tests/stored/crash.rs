//! A crash between any two steps of a commit repeats sends under the same ids, and receiving stages drop
//! them: state changes once, outputs count once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bus::store::{Position, Store};
use bus::{Bus, Owner, StoredBus, StoredSettings, Subscription};
use kernel::{Destination, Name};

use crate::mortal::{Life, MortalBus, MortalStore, Side};
use crate::rig::{QUIET, STEP, engine, handled, message, own, queue, receive, store, text, turn};

/// A commit has fewer steps than this.
const STEPS_MAX: u32 = 10;

/// What is tried: commits of an owner with state, or commits without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Owned,
    Ownerless,
}

/// What came of one crash.
struct Outcome {
    /// At which step it died; not at all if the commit got through before.
    died_at: Option<&'static str>,
    /// How often the stage's state says that each input was handled.
    inputs: BTreeMap<String, u64>,
    /// The same for the outputs, in the state of the stage that receives them.
    outputs: BTreeMap<String, u64>,
    /// How many repeats were dropped on the way.
    dropped: u64,
}

fn once(texts: &[&str]) -> BTreeMap<String, u64> {
    texts.iter().map(|text| (text.to_string(), 1)).collect()
}

/// A stage between an input and an output, and the stage behind it.
struct Stages {
    bucket: Name,
    input: Destination,
    output: Destination,
    receiver: Name,
}

impl Stages {
    fn new() -> Self {
        Self {
            bucket: crate::rig::name("bucket"),
            input: queue("input"),
            output: queue("output"),
            receiver: crate::rig::name("receiver"),
        }
    }
}

/// Handles two messages in a life that ends at this step, and then in another life.
async fn crash(kind: Kind, step: u32, side: Side, forgets_consumed: bool) -> Result<Outcome> {
    let stages = Stages::new();
    let store = store("crashes").await?;
    let inputs = ["1", "2"].map(|body| message(body, None));
    engine()
        .await?
        .publish(&stages.input, &mut inputs.into(), STEP)
        .await?;
    let life = Life::until(step, side);
    first_life(kind, &stages, &life, store.clone(), forgets_consumed).await?;
    second_life(kind, &stages, &life, store, forgets_consumed).await
}

/// A bus whose client lives that long.
async fn bus(life: &Arc<Life>, store: Arc<dyn Store>, forgets_consumed: bool) -> Result<StoredBus> {
    let engine = MortalBus {
        inner: engine().await?,
        life: life.clone(),
    };
    let store = MortalStore {
        inner: store,
        life: life.clone(),
        forgets_consumed,
    };
    let settings = StoredSettings {
        abandoned_after_ms: 300,
    };
    let (engine, store) = (Arc::new(engine), Arc::new(store));
    Ok(StoredBus::with_settings(engine, store, &settings))
}

async fn first_life(
    kind: Kind,
    stages: &Stages,
    life: &Arc<Life>,
    store: Arc<dyn Store>,
    forgets_consumed: bool,
) -> Result<()> {
    let bus = bus(life, store.clone(), forgets_consumed).await?;
    let owner = match kind {
        Kind::Owned => Some(own(&bus, &stages.bucket).await?),
        Kind::Ownerless => None,
    };
    let subscription = bus.subscribe(&stages.input, 10, STEP).await?;
    let deliveries = receive(subscription.as_ref(), 2).await?;
    let output = Some(&stages.output);
    let handling = async {
        let subscription = subscription.as_ref();
        turn(&bus, owner.as_ref(), subscription, &deliveries, output).await?;
        // Marking follows a moment later, unless there is another commit.
        let deadline = Instant::now() + STEP;
        while kind == Kind::Owned && has_outbox(store.as_ref(), &stages.bucket).await? {
            ensure!(Instant::now() < deadline, "it was never marked");
            tokio::time::sleep(QUIET / 10).await;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        outcome = handling => outcome,
        () = life.died() => Ok(()),
    }
}

async fn has_outbox(store: &dyn Store, bucket: &Name) -> Result<bool> {
    let outbox = store.outbox(bucket, Position::default(), 1, STEP).await?;
    Ok(!outbox.is_empty())
}

/// Takes over, and handles whatever comes until nothing comes any more.
async fn second_life(
    kind: Kind,
    stages: &Stages,
    first: &Life,
    store: Arc<dyn Store>,
    forgets_consumed: bool,
) -> Result<Outcome> {
    let life = Life::until(u32::MAX, Side::Before);
    let bus = bus(&life, store, forgets_consumed).await?;
    let owner = match kind {
        Kind::Owned => Some(own(&bus, &stages.bucket).await?),
        Kind::Ownerless => None,
    };
    let receiver = own(&bus, &stages.receiver).await?;
    let input = bus.subscribe(&stages.input, 10, STEP).await?;
    let output = bus.subscribe(&stages.output, 10, STEP).await?;
    let deadline = Instant::now() + STEP;
    loop {
        let some = work(&bus, owner.as_ref(), input.as_ref(), Some(&stages.output)).await?;
        let more = work(&bus, Some(&receiver), output.as_ref(), None).await?;
        let outputs = handled(&bus, &stages.receiver).await?;
        if !some && !more && outputs.len() == 2 {
            return Ok(Outcome {
                died_at: first.end(),
                inputs: handled(&bus, &stages.bucket).await?,
                outputs,
                dropped: bus.counts().repeats_dropped,
            });
        }
        ensure!(Instant::now() < deadline, "only {outputs:?} came");
    }
}

/// Handles what comes within a while; whether something came.
async fn work(
    bus: &dyn Bus,
    owner: Option<&Owner>,
    subscription: &dyn Subscription,
    output: Option<&Destination>,
) -> Result<bool> {
    // One by one: two copies at once are told apart without the store.
    let deliveries = subscription.next_batch(1, QUIET).await?;
    if deliveries.is_empty() {
        return Ok(false);
    }
    let texts: Vec<String> = deliveries.iter().map(text).collect();
    match turn(bus, owner, subscription, &deliveries, output).await {
        Ok(()) => Ok(true),
        Err(error) => Err(error.context(format!("handling {texts:?}"))),
    }
}

/// Crashes on both sides of every step.
async fn crash_everywhere(kind: Kind, forgets_consumed: bool) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for side in [Side::Before, Side::After] {
        for step in 0..STEPS_MAX {
            let outcome = crash(kind, step, side, forgets_consumed).await?;
            let got_through = outcome.died_at.is_none();
            outcomes.push(outcome);
            if got_through {
                break;
            }
        }
    }
    Ok(outcomes)
}

fn steps(outcomes: &[Outcome]) -> Vec<&'static str> {
    let mut steps: Vec<&str> = outcomes.iter().filter_map(|o| o.died_at).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

async fn expect_once(kind: Kind) -> Result<()> {
    let outcomes = crash_everywhere(kind, false).await?;
    for outcome in &outcomes {
        let at = outcome.died_at;
        let inputs = &outcome.inputs;
        let is_once = kind == Kind::Ownerless || *inputs == once(&["1", "2"]);
        ensure!(is_once, "crash at {at:?}: handled {inputs:?}");
        let outputs = &outcome.outputs;
        let expected = once(&["did 1", "did 2"]);
        ensure!(*outputs == expected, "crash at {at:?}: sent {outputs:?}");
    }
    let steps = steps(&outcomes);
    for step in ["acknowledge", "publish", "transaction"] {
        ensure!(steps.contains(&step), "it never died at {step}");
    }
    let dropped: u64 = outcomes.iter().map(|outcome| outcome.dropped).sum();
    ensure!(
        dropped > 0,
        "nothing was ever repeated: this proves nothing"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_crashes_anywhere_changes_state_once() -> Result<()> {
    expect_once(Kind::Owned).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_owner_that_crashes_anywhere_sends_once() -> Result<()> {
    expect_once(Kind::Ownerless).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_a_store_that_forgets_what_was_consumed_is_noticed() -> Result<()> {
    let outcomes = crash_everywhere(Kind::Owned, true).await?;
    let is_twice = |counts: &BTreeMap<String, u64>| counts.values().any(|count| *count > 1);
    let twice = outcomes.iter().filter(|o| is_twice(&o.inputs)).count();
    ensure!(twice > 0, "no input was handled twice");
    let twice = outcomes.iter().filter(|o| is_twice(&o.outputs)).count();
    ensure!(twice > 0, "no output was handled twice");
    let steps = steps(&outcomes);
    ensure!(steps.contains(&"mark"), "it never died at marking");
    Ok(())
}
