//! Hot deployment: refused, rolled back, or done, under load and without loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use kernel::{Address, Message};
use runtime::{DeployError, HistoryEvent};

use crate::rig::*;

/// A counter whose new versions break in several ways.
struct Breaks {
    inner: Counter,
    how: &'static str,
    handled: Arc<AtomicU32>,
}

#[async_trait]
impl Worker for Breaks {
    async fn init(&mut self, _args: &[u8], _turn: &mut Turn) -> Result<(), Failure> {
        match self.how {
            "init" => Err(Failure::new("init fails")),
            _ => Ok(()),
        }
    }

    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let handled = self.handled.fetch_add(1, Ordering::SeqCst);
        match self.how {
            "third" if handled >= 2 => Err(Failure::new("the third message breaks it")),
            "panic" => panic!("at once"),
            _ => self.inner.receive(message, turn).await,
        }
    }

    async fn save(&mut self) -> Result<Bytes, Failure> {
        self.inner.save().await
    }

    async fn load(&mut self, snapshot: Bytes) -> Result<(), Failure> {
        match self.how {
            "load" => Err(Failure::new("this snapshot means nothing to me")),
            _ => self.inner.load(snapshot).await,
        }
    }
}

fn breaks(how: &'static str) -> Arc<dyn Code> {
    let handled = Arc::new(AtomicU32::new(0));
    native("breaks", how, move |_| Breaks {
        inner: Counter {
            label: "bad:",
            count: 0,
        },
        how,
        handled: handled.clone(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_before_anybody_goes_over() {
    let rig = Rig::new();
    rig.deploy(spec("a/count"), counter("1", "")).await;
    rig.ask("a/count", "x").await;
    for how in ["init", "load"] {
        let refused = rig.runtime.deploy(spec("a/count"), breaks(how)).await;
        assert!(
            matches!(refused, Err(DeployError::DryRun { .. })),
            "{how}: {refused:?}"
        );
    }
    assert_eq!(rig.ask("a/count", "x").await, "2/2");
    let events: Vec<_> = rig
        .runtime
        .history(None)
        .iter()
        .map(|entry| entry.event)
        .collect();
    assert_eq!(
        events,
        [
            HistoryEvent::Deployed,
            HistoryEvent::Refused,
            HistoryEvent::Refused
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_fails_on_probation_is_rolled_back_with_its_state() {
    for how in ["third", "panic"] {
        let rig = Rig::new();
        rig.deploy(spec("a/count"), counter("1", "")).await;
        assert_eq!(rig.ask("a/count", "x").await, "1/1");
        rig.deploy(spec("a/count"), breaks(how)).await;
        let mut answers = Vec::new();
        for _ in 0..4 {
            answers.push(rig.ask("a/count", "x").await);
        }
        let expected = match how {
            "third" => ["bad:2/2", "bad:3/3", "4/4", "5/5"],
            _ => ["2/2", "3/3", "4/4", "5/5"],
        };
        assert_eq!(answers, expected);
        let history = rig.runtime.history(None);
        assert_eq!(history.last().unwrap().event, HistoryEvent::RolledBack);
        assert!(
            rig.broker
                .queues()
                .iter()
                .all(|(name, stats)| name.as_str() != bus::DEAD_LETTERS || stats.waiting == 0)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_no_version_can_handle_is_no_reason_to_roll_back() {
    let rig = Rig::new();
    rig.deploy(spec("a/count"), counter("1", "one:")).await;
    rig.deploy(spec("a/count"), counter("2", "two:")).await;
    rig.send("a/count", "poison").await;
    rig.take(bus::DEAD_LETTERS, 1).await;
    let answer = rig.ask("a/count", "x").await;
    assert!(answer.starts_with("two:"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_doubled_or_reordered_through_twenty_hand_overs() {
    let rig = Rig::new();
    let out: Address = "queue:through".parse().unwrap();
    let passing = |version: &str| {
        does(version, |incoming: &Incoming, turn: &mut Turn| {
            turn.emit("out", Message::new(incoming.message.body.clone()))
        })
    };
    let spec = spec("a/pass").output("out", out);
    rig.deploy(spec.clone(), passing("0")).await;
    let sending = Arc::new(AtomicBool::new(true));
    let (runtime, on) = (rig.runtime.clone(), sending.clone());
    let sender = tokio::spawn(async move {
        let to: Address = "a/pass".parse().unwrap();
        let mut sent = 0u32;
        while on.load(Ordering::SeqCst) {
            runtime
                .send(&to, Message::new(sent.to_string()))
                .await
                .unwrap();
            sent += 1;
        }
        sent
    });
    for version in 1..=20 {
        match version % 5 {
            0 => {
                let _ = rig.runtime.deploy(spec.clone(), breaks("panic")).await;
            }
            _ => {
                rig.deploy(spec.clone(), passing(&version.to_string()))
                    .await
            }
        }
        let turns = || rig.runtime.flows()[0].stages[0].turns;
        let before = turns();
        until("it has handled some more", || async {
            turns() > before + 5
        })
        .await;
    }
    sending.store(false, Ordering::SeqCst);
    let sent = sender.await.unwrap();
    let taken = rig.take("through", sent as usize).await;
    let bodies: Vec<u32> = taken
        .iter()
        .map(|d| text(&d.message).parse().unwrap())
        .collect();
    let expected: Vec<u32> = (0..sent).collect();
    assert_eq!(bodies, expected);
}
