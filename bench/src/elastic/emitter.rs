//! Emits events when they are due, whether those before were handled or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::descriptor::PluginKind;
use kernel::worker::{
    Code, CodeInfo, Failure, Incoming, KeyAt, Provided, Start, Turn, Value, Worker, native,
};

use super::log::Log;

/// How many keys there are.
pub const KEYS: u64 = 1_024;
/// How many events one turn emits at most.
const EVENTS_PER_TURN: u64 = 1_000;
/// How long the emitter sleeps when nothing is due.
const PAUSE: Duration = Duration::from_millis(1);

/// An event: when it was due, and the how many-th of its key it is.
#[derive(Debug)]
pub struct Tick {
    /// Microseconds after the beginning of the run.
    pub due_micros: u64,
    /// Its key.
    pub key: u64,
    /// Its number among those of its key, from zero.
    pub number: u64,
    name: String,
}

impl Tick {
    /// The event of this number among all.
    pub fn new(number: u64, due_micros: u64) -> Self {
        let key = number % KEYS;
        Self {
            due_micros,
            key,
            number: number / KEYS,
            name: key.to_string(),
        }
    }
}

impl Value for Tick {
    fn encode(&self) -> Bytes {
        format!(
            "{{\"key\":\"{}\",\"number\":{},\"due_micros\":{}}}",
            self.name, self.number, self.due_micros
        )
        .into()
    }

    fn len_bytes(&self) -> usize {
        48
    }

    fn key_at(&self, _: &[Box<str>]) -> KeyAt<'_> {
        KeyAt::Text(self.name.as_str().into())
    }
}

/// When how many events are due: from each second on, so many in a second; the last one ends it.
#[derive(Clone, Debug)]
pub struct Plan {
    steps: Vec<(f64, f64)>,
    ends: f64,
}

impl Plan {
    /// Steps of seconds and events per second, and the second at which it ends.
    pub fn new(steps: Vec<(f64, f64)>, ends: f64) -> Self {
        Self { steps, ends }
    }

    /// How long it lasts.
    pub fn lasts(&self) -> Duration {
        Duration::from_secs_f64(self.ends)
    }

    /// How many events are due in a second, at that second.
    pub fn rate(&self, second: f64) -> f64 {
        let step = self.steps.iter().rev().find(|(from, _)| *from <= second);
        step.map_or(0.0, |(_, rate)| *rate)
    }

    /// When the next event is due after one, in microseconds. Rates are so high that a step within one gap changes
    /// nothing.
    fn due_after(&self, micros: f64) -> f64 {
        micros + 1e6 / self.rate(micros / 1e6).max(1.0)
    }
}

/// The code of an emitter of this plan, which counts what it has emitted.
pub fn code(plan: Plan, log: Arc<Log>, emitted: Arc<AtomicU64>) -> Arc<dyn Code> {
    let info = CodeInfo {
        kind: PluginKind::Provider,
        ..native("emit", "1", |_: &Start| Nobody).info().clone()
    };
    Arc::new(EmitterCode {
        info,
        plan,
        log,
        emitted,
    })
}

struct Nobody;

#[async_trait]
impl Worker for Nobody {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }
}

struct EmitterCode {
    info: CodeInfo,
    plan: Plan,
    log: Arc<Log>,
    emitted: Arc<AtomicU64>,
}

impl Code for EmitterCode {
    fn info(&self) -> &CodeInfo {
        &self.info
    }

    fn instantiate(&self, _: &Start) -> Result<Box<dyn Worker>, Failure> {
        Ok(Box::new(Emitter {
            plan: self.plan.clone(),
            log: self.log.clone(),
            emitted: self.emitted.clone(),
            next: 0,
            due_micros: 0.0,
        }))
    }
}

struct Emitter {
    plan: Plan,
    log: Arc<Log>,
    emitted: Arc<AtomicU64>,
    next: u64,
    /// When the next one is due.
    due_micros: f64,
}

#[async_trait]
impl Worker for Emitter {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Ok(())
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let now = self.log.now_micros() as f64;
        let ends = self.plan.lasts().as_micros() as f64;
        let mut emitted = 0;
        while self.due_micros <= now && self.due_micros < ends && emitted < EVENTS_PER_TURN {
            turn.emit_value(
                "out",
                Arc::new(Tick::new(self.next, self.due_micros as u64)),
            )?;
            self.next += 1;
            emitted += 1;
            self.due_micros = self.plan.due_after(self.due_micros);
        }
        self.emitted.store(self.next, Ordering::Relaxed);
        Ok(match self.due_micros {
            due if due >= ends => Provided::Done,
            due if due <= now => Provided::More,
            _ => Provided::After(PAUSE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_due_as_the_plan_says() {
        let plan = Plan::new(vec![(0.0, 1_000.0), (10.0, 3_000.0)], 20.0);
        assert_eq!((plan.rate(9.9), plan.rate(10.0)), (1_000.0, 3_000.0));
        let mut due = 0.0;
        let mut count = 0_u64;
        while due < 20e6 {
            due = plan.due_after(due);
            count += 1;
        }
        assert!((39_990..40_010).contains(&count), "{count}");
    }
}
