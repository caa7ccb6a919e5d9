//! Three stages, one after the other, fed by a provider; each event is one message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use kernel::StageAddress;
use kernel::worker::{
    Bodies, Code, Failure, Incoming, Provided, Stretch, Turn, Value, Worker, native,
};
use runtime::{Delivery, StageSpec};
use tokio::sync::mpsc;

use super::code::{processor, provider};
use crate::workers::{Result, Rig, WorkerError, component, in_time};

/// How many events a provider makes in one turn.
const TURN_EVENTS: u32 = 256;
const FIRST: &str = "first";
const SECOND: &str = "second";
const THIRD: &str = "third";
const DONE: &str = "done";

/// An event that holds a number and nothing else.
#[derive(Clone, Debug)]
struct Number(u32);

impl Value for Number {
    fn encode(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_le_bytes())
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// Gives numbered events, as values or as bodies.
struct Source {
    next: u32,
    events: u32,
    as_values: bool,
}

#[async_trait]
impl Worker for Source {
    async fn receive(&mut self, _message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("a provider has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let end = self.events.min(self.next + TURN_EVENTS);
        let numbers = (self.next..end).map(Number);
        match self.as_values {
            true => turn.emit_series("out", numbers.collect::<Vec<_>>())?,
            false => {
                let mut bodies = Bodies::default();
                numbers.for_each(|number| bodies.push(&number.0.to_le_bytes()));
                turn.emit_series("out", bodies)?;
            }
        }
        self.next = end;
        Ok(match end == self.events {
            true => Provided::Done,
            false => Provided::More,
        })
    }
}

/// Looks at every event and passes it on.
struct Pass;

#[async_trait]
impl Worker for Pass {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let number = message.value::<Number>();
        let number = number.ok_or_else(|| Failure::new("this is no number"))?;
        turn.emit_value("out", Arc::new(number.clone()))
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        messages.is::<Vec<Number>>()
    }

    async fn handle_series(&mut self, series: &[Stretch], turn: &mut Turn) -> Result<(), Failure> {
        for numbers in series.iter().filter_map(Stretch::values::<Number>) {
            turn.emit_series("out", numbers.to_vec())?;
        }
        Ok(())
    }
}

/// When everything was there, and how many events were not the ones that were due.
type Said = (Instant, u32);

/// Checks that every number comes once and in order.
struct Check {
    events: u32,
    received: u32,
    wrong: u32,
    done: mpsc::UnboundedSender<Said>,
}

#[async_trait]
impl Worker for Check {
    async fn receive(&mut self, message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        self.check(message.value::<Number>());
        Ok(())
    }

    fn takes_series(&self, messages: &Stretch) -> bool {
        messages.is::<Vec<Number>>()
    }

    async fn handle_series(&mut self, series: &[Stretch], _turn: &mut Turn) -> Result<(), Failure> {
        let numbers = series.iter().filter_map(Stretch::values).flatten();
        numbers.for_each(|number| self.check(Some(number)));
        Ok(())
    }
}

impl Check {
    fn check(&mut self, number: Option<&Number>) {
        let right = number.is_some_and(|number| number.0 == self.received);
        self.wrong += u32::from(!right);
        self.received += 1;
        if self.received == self.events {
            // Whoever no longer waits has reported an error already.
            let _ = self.done.send((Instant::now(), self.wrong));
        }
    }
}

/// Passes on what a component says that counts for itself.
struct Done(mpsc::UnboundedSender<Said>);

#[async_trait]
impl Worker for Done {
    async fn receive(&mut self, message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        let said = std::str::from_utf8(&message.message.body)?.parse()?;
        // Whoever no longer waits has reported an error already.
        let _ = self.0.send((Instant::now(), said));
        Ok(())
    }
}

/// Sends so many events through three native stages. How long it took until the last one was checked.
pub fn through_native(events: u32) -> Result<Duration> {
    let rig = Rig::in_memory()?;
    let (done, said) = mpsc::unbounded_channel();
    let check = processor(move || Check {
        events,
        received: 0,
        wrong: 0,
        done: done.clone(),
    });
    rig.deploy(stage(THIRD), check)?;
    rig.deploy(leading(SECOND, THIRD), processor(|| Pass))?;
    rig.deploy(leading(FIRST, SECOND), processor(|| Pass))?;
    run(&rig, source(events, true), events, said)
}

/// As [`through_native`], through three stages whose workers are components. The last one says when it
/// has all.
pub fn through_components(events: u32) -> Result<Duration> {
    let rig = Rig::in_memory()?;
    let (done, said) = mpsc::unbounded_channel();
    let receiver = native("done", "1", move |_| Done(done.clone()));
    let mut last = stage(THIRD).output("done", address(DONE));
    last.args = events.to_string();
    rig.deploy(stage(DONE), receiver)?;
    rig.deploy(last, component::code("sink")?)?;
    rig.deploy(leading(SECOND, THIRD), component::code("echo")?)?;
    rig.deploy(leading(FIRST, SECOND), component::code("echo")?)?;
    run(&rig, source(events, false), events, said)
}

/// Deploys the provider, which begins at once, and waits for the last event.
fn run(
    rig: &Rig,
    source: Arc<dyn Code>,
    events: u32,
    mut said: mpsc::UnboundedReceiver<Said>,
) -> Result<Duration> {
    let began = Instant::now();
    rig.deploy(leading("source", FIRST), source)?;
    let said = rig.block_on(in_time("the arrival of the last event", said.recv()))?;
    match said {
        Some((at, 0)) => Ok(at - began),
        Some((_, wrong)) => Err(WorkerError::Wrong {
            wrong,
            messages: events,
        }),
        None => Err(WorkerError::Refused {
            action: "count events".to_owned(),
            reason: "the last stage ended".to_owned(),
        }),
    }
}

fn source(events: u32, as_values: bool) -> Arc<dyn Code> {
    provider(move |_| Source {
        next: 0,
        events,
        as_values,
    })
}

fn address(name: &str) -> StageAddress {
    StageAddress::new("chain", name).expect("both are names")
}

fn stage(name: &str) -> StageSpec {
    StageSpec::new(address(name)).delivery(Delivery::Memory)
}

fn leading(name: &str, to: &str) -> StageSpec {
    stage(name).output("out", address(to))
}
