//! What happens when workers fail: restart, resume, stop, escalate; one, all, the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use kernel::{Address, Message};
use runtime::{OnFailure, StageSpec, StageState, Strategy, SupervisionRule, WorkerState};

use crate::rig::*;

/// Counts in memory only, and notes every start.
struct Fragile {
    starts: Arc<Vec<AtomicU32>>,
    number: usize,
    count: u32,
}

#[async_trait]
impl Worker for Fragile {
    async fn init(&mut self, _args: &[u8], _turn: &mut Turn) -> Result<(), Failure> {
        self.starts[self.number].fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        if &incoming.message.body[..] == b"fail" {
            return Err(Failure::new("told to fail"));
        }
        self.count += 1;
        match incoming.expects_reply() {
            true => turn.reply(incoming, Message::new(self.count.to_string())),
            false => Ok(()),
        }
    }
}

fn fragile(workers: usize) -> (Arc<dyn Code>, Arc<Vec<AtomicU32>>) {
    let starts: Arc<Vec<AtomicU32>> = Arc::new((0..workers).map(|_| AtomicU32::new(0)).collect());
    let noted = starts.clone();
    let code = native("fragile", "1", move |start| Fragile {
        starts: noted.clone(),
        number: start.address.worker() as usize,
        count: 0,
    });
    (code, starts)
}

fn supervised(strategy: Strategy, on_failure: OnFailure, restarts_max: u32) -> StageSpec {
    let mut spec = spec("a/fragile").workers(3);
    spec.supervision = SupervisionRule {
        strategy,
        on_failure,
        restarts_max,
        tries_max: 2,
        backoff_ms_min: 1,
        backoff_ms_max: 5,
        ..SupervisionRule::default()
    };
    spec
}

fn started(starts: &[AtomicU32]) -> Vec<bool> {
    let again = |starts: &AtomicU32| starts.load(Ordering::SeqCst) > 1;
    starts.iter().map(again).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_strategy_says_who_begins_anew() {
    for (strategy, expected) in [
        (Strategy::OneForOne, [false, true, false]),
        (Strategy::OneForAll, [true, true, true]),
        (Strategy::RestForOne, [false, true, true]),
    ] {
        let rig = Rig::new();
        let (code, starts) = fragile(3);
        rig.deploy(supervised(strategy, OnFailure::Restart, 100), code)
            .await;
        rig.send("a/fragile/1", "fail").await;
        rig.take(bus::DEAD_LETTERS, 1).await;
        until("those affected have begun anew", || async {
            started(&starts) == expected
        })
        .await;
        assert_eq!(rig.ask("a/fragile/1", "x").await, "1");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_resumes_keeps_its_memory() {
    let rig = Rig::new();
    let (code, starts) = fragile(3);
    rig.deploy(
        supervised(Strategy::OneForOne, OnFailure::Resume, 100),
        code,
    )
    .await;
    assert_eq!(rig.ask("a/fragile/1", "x").await, "1");
    rig.send("a/fragile/1", "fail").await;
    rig.take(bus::DEAD_LETTERS, 1).await;
    assert_eq!(rig.ask("a/fragile/1", "x").await, "2");
    assert_eq!(started(&starts), [false, false, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_keeps_its_messages_until_it_is_restarted() {
    let rig = Rig::new();
    let (code, _) = fragile(3);
    rig.deploy(supervised(Strategy::OneForOne, OnFailure::Stop, 100), code)
        .await;
    rig.send("a/fragile/1", "fail").await;
    until("it has stopped", || async {
        let workers = rig.runtime.workers(&stage("a/fragile"), 1, 1).unwrap();
        workers[0].state == WorkerState::Stopped
    })
    .await;
    assert_eq!(rig.ask("a/fragile/0", "x").await, "1", "the others go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stage_without_restarts_left_escalates_and_in_the_end_gives_up() {
    let rig = Rig::new();
    let (code, _) = fragile(3);
    rig.deploy(supervised(Strategy::OneForOne, OnFailure::Restart, 1), code)
        .await;
    let address: Address = "a/fragile/1".parse().unwrap();
    for _ in 0..10 {
        rig.runtime
            .send(&address, Message::new("fail"))
            .await
            .unwrap();
    }
    until("the stage has given up", || async {
        let flows = rig.runtime.flows();
        let failed = flows[0].stages[0].state == StageState::Failed;
        let history = rig.runtime.history(None);
        failed
            && history
                .iter()
                .any(|entry| entry.event == runtime::HistoryEvent::Failed)
    })
    .await;
    rig.runtime
        .restart(&stage("a/fragile"), None, false)
        .await
        .unwrap();
    assert_eq!(rig.ask("a/fragile/0", "x").await, "1");
}
