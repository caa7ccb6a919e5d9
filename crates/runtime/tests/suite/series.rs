//! Series: messages that travel together, and become single ones wherever somebody needs that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use kernel::descriptor::PluginKind;
use kernel::worker::{Bodies, Code, Failure, Incoming, Provided, Stretch, Turn, Worker};
use parking_lot::Mutex;
use runtime::{Delivery, RouterKind, StageKind, StageSpec};

use crate::providing::{Number, code, noting, numbers};
use crate::rig::{Rig, spec, stage, text, until};

const NUMBERS: u64 = 1_000;
/// How many of them are given together.
const TOGETHER: u64 = 30;

#[derive(Clone, Copy, Debug)]
enum Of {
    Values,
    Bodies,
    /// In turns, with single values among them.
    Both,
}

/// Gives numbers in series.
struct Giving {
    next: u64,
    of: Of,
}

impl Giving {
    fn give(&self, end: u64, turn: &mut Turn) -> Result<(), Failure> {
        let mut of_bodies = Bodies::default();
        (self.next..end).for_each(|number| of_bodies.push(number.to_string().as_bytes()));
        let of_values: Vec<Number> = (self.next..end).map(Number).collect();
        let is_odd = self.next / TOGETHER % 2 == 1;
        match (self.of, is_odd) {
            (Of::Values, _) => turn.emit_series("out", of_values),
            (Of::Bodies, _) | (Of::Both, true) => turn.emit_series("out", of_bodies),
            (Of::Both, false) => {
                let mut stretch = Stretch::from(of_values);
                turn.emit_series("out", stretch.take_front(7))?;
                turn.emit_value("out", Arc::new(Number(self.next + 7)))?;
                stretch.pop();
                turn.emit_series("out", stretch)
            }
        }
    }
}

#[async_trait]
impl Worker for Giving {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let end = NUMBERS.min(self.next + TOGETHER);
        self.give(end, turn)?;
        self.next = end;
        Ok(match end == NUMBERS {
            true => Provided::Done,
            false => Provided::More,
        })
    }
}

async fn give(rig: &Rig, of: Of, to: &[&str]) {
    let mut provider = spec("f/numbers").delivery(Delivery::Memory);
    for to in to {
        provider = provider.output("out", stage(to));
    }
    let giving = code(PluginKind::Provider, true, move || Giving { next: 0, of });
    rig.deploy(provider, giving).await;
}

const ALL: [Of; 3] = [Of::Values, Of::Bodies, Of::Both];

type Notes = Arc<Mutex<Vec<String>>>;

/// Writes down what it gets, together as it comes, and how often it was called.
struct Together {
    notes: Notes,
    calls: Arc<AtomicU64>,
    /// Fails whenever this is there.
    fails_at: Option<u64>,
}

impl Together {
    fn note(&self, number: u64) -> Result<(), Failure> {
        if self.fails_at == Some(number) {
            return Err(Failure::new("it was told to fail"));
        }
        self.notes.lock().push(number.to_string());
        Ok(())
    }
}

#[async_trait]
impl Worker for Together {
    async fn receive(&mut self, message: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        let number = match message.value::<Number>() {
            Some(number) => number.0,
            None => text(&message.message).parse()?,
        };
        self.note(number)
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        messages.is::<Vec<Number>>()
    }

    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let before = self.notes.lock().len();
        for number in series
            .iter()
            .filter_map(Stretch::values::<Number>)
            .flatten()
        {
            if let Err(failure) = self.note(number.0) {
                self.notes.lock().truncate(before);
                turn.emit_value("out", Arc::new(number.clone()))?;
                return Err(failure);
            }
        }
        Ok(())
    }
}

fn together(notes: &Notes, calls: &Arc<AtomicU64>, fails_at: Option<u64>) -> Arc<dyn Code> {
    let (notes, calls) = (notes.clone(), calls.clone());
    code(PluginKind::Processor, true, move || Together {
        notes: notes.clone(),
        calls: calls.clone(),
        fails_at,
    })
}

/// Waits until all are there.
async fn all_of(notes: &Notes, count: u64) -> Vec<String> {
    until("all numbers are there", async || {
        notes.lock().len() as u64 >= count
    })
    .await;
    notes.lock().clone()
}

fn memory(name: &str) -> StageSpec {
    spec(name).delivery(Delivery::Memory)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_is_handled_together_by_whoever_takes_it() {
    let (rig, notes, calls) = (Rig::new(), Notes::default(), Arc::default());
    rig.deploy(memory("f/notes"), together(&notes, &calls, None))
        .await;
    give(&rig, Of::Values, &["f/notes"]).await;
    assert_eq!(all_of(&notes, NUMBERS).await, numbers(NUMBERS));
    let calls = calls.load(Ordering::SeqCst);
    assert!(
        (1..=NUMBERS.div_ceil(TOGETHER) + 2).contains(&calls),
        "{calls} calls"
    );
    until("all are counted", async || {
        rig.runtime.stage(&stage("f/notes")).unwrap().turns == NUMBERS
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_becomes_single_messages_for_all_others() {
    for of in ALL {
        for delivery in [Delivery::Memory, Delivery::Durable] {
            let (rig, notes) = (Rig::new(), Notes::default());
            rig.deploy(spec("f/notes").delivery(delivery), noting(&notes))
                .await;
            give(&rig, of, &["f/notes"]).await;
            assert_eq!(all_of(&notes, NUMBERS).await, numbers(NUMBERS), "{of:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_is_divided_among_workers() {
    let kinds = [
        StageKind::Pool(RouterKind::RoundRobin),
        StageKind::Keyed("body".parse().unwrap()),
    ];
    for (kind, of) in kinds.iter().flat_map(|kind| ALL.map(|of| (kind, of))) {
        let (rig, notes) = (Rig::new(), Notes::default());
        let spec = memory("f/notes").kind(kind.clone()).workers(3);
        rig.deploy(spec, noting(&notes)).await;
        give(&rig, of, &["f/notes"]).await;
        let mut got = all_of(&notes, NUMBERS).await;
        got.sort_by_key(|number| number.parse::<u64>().unwrap());
        assert_eq!(got, numbers(NUMBERS), "{kind:?} {of:?}");
        let workers = rig.runtime.workers(&stage("f/notes"), 0, 9).unwrap();
        assert!(
            workers.iter().all(|worker| worker.turns > 100),
            "{workers:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_goes_wherever_an_output_leads() {
    for of in ALL {
        let rig = Rig::new();
        let (one, other, calls) = (Notes::default(), Notes::default(), Arc::default());
        rig.deploy(memory("f/one"), together(&one, &calls, None))
            .await;
        rig.deploy(spec("f/other"), noting(&other)).await;
        give(&rig, of, &["f/one", "f/other"]).await;
        assert_eq!(all_of(&one, NUMBERS).await, numbers(NUMBERS), "{of:?}");
        assert_eq!(all_of(&other, NUMBERS).await, numbers(NUMBERS), "{of:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_series_that_fails_only_the_culprit_is_blamed() {
    let (rig, notes, calls) = (Rig::new(), Notes::default(), Arc::default());
    rig.deploy(memory("f/notes"), together(&notes, &calls, Some(555)))
        .await;
    give(&rig, Of::Values, &["f/notes"]).await;
    let mut expected = numbers(NUMBERS);
    expected.remove(555);
    assert_eq!(all_of(&notes, NUMBERS - 1).await, expected);
    until("the culprit is among the dead", async || {
        rig.runtime.stage(&stage("f/notes")).unwrap().dead == 1
    })
    .await;
    let unconnected = rig.runtime.stage(&stage("f/notes")).unwrap().unconnected;
    assert_eq!(unconnected, 0, "what a failed turn emitted is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_stage_takes_a_series_in_parts() {
    let (rig, notes, calls) = (Rig::new(), Notes::default(), Arc::default());
    let mut small = memory("f/notes");
    small.intake.mailbox_messages_max = 4;
    small.intake.batch_messages_max = 3;
    rig.deploy(small, together(&notes, &calls, None)).await;
    give(&rig, Of::Values, &["f/notes"]).await;
    assert_eq!(all_of(&notes, NUMBERS).await, numbers(NUMBERS));
    assert_eq!(rig.runtime.stage(&stage("f/notes")).unwrap().dead, 0);
}
