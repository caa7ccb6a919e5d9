//! The one clock that wakes workers: timers that go off, and asks whose time is up.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use kernel::worker::{Incoming, Kind, ReplyTo, Ticket};
use kernel::{Clock, Message, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::alarms::Alarms;
use crate::scope::Scope;
use crate::stage::Stage;

/// How long the clock sleeps at most, so that a clock that is set is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What an alarm is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// An ask whose answer has not come.
    Ask(Ticket),
    /// A timer of this name.
    Timer(Box<str>),
}

/// Those of a stage are next to each other in their order, among them those of a scope, and there the asks come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    stage: u64,
    scope: Scope,
    what: What,
}

struct Alarm {
    stage: Weak<Stage>,
    body: Bytes,
}

/// All alarms of a process.
pub(crate) struct AlarmClock {
    alarms: Mutex<Alarms<Alarm, Id>>,
    /// The first alarm has become an earlier one.
    earlier: Notify,
    clock: Arc<dyn Clock>,
}

impl AlarmClock {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            alarms: Mutex::new(Alarms::new()),
            earlier: Notify::new(),
            clock,
        }
    }

    pub fn set(&self, stage: &Arc<Stage>, scope: &Scope, what: What, at: Timestamp, body: Bytes) {
        let alarm = Alarm {
            stage: Arc::downgrade(stage),
            body,
        };
        let mut alarms = self.alarms.lock();
        let is_first = alarms.next().is_none_or(|next| at < next);
        alarms.set(at, id(stage, scope, &what), alarm);
        drop(alarms);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Whether it was set; it no longer is.
    pub fn cancel(&self, stage: &Arc<Stage>, scope: &Scope, what: &What) -> bool {
        let cancelled = self.alarms.lock().cancel(&id(stage, scope, what));
        cancelled.is_some()
    }

    pub fn is_set(&self, stage: &Arc<Stage>, scope: &Scope, what: &What) -> bool {
        self.alarms.lock().contains(&id(stage, scope, what))
    }

    /// Whether a scope has a timer that is set.
    pub fn has_timer(&self, stage: &Stage, scope: &Scope) -> bool {
        let first = Id {
            stage: stage.id,
            scope: scope.clone(),
            what: What::Timer("".into()),
        };
        let alarms = self.alarms.lock();
        let next = alarms.ids(first..).next();
        next.is_some_and(|id| id.stage == stage.id && id.scope == *scope)
    }

    /// Whether a stage has any alarm.
    pub fn has_any(&self, stage: &Stage) -> bool {
        let alarms = self.alarms.lock();
        let next = alarms.ids(first_of(stage, Scope::FIRST)..).next();
        next.is_some_and(|id| id.stage == stage.id)
    }

    /// Cancels all alarms of a scope.
    pub fn cancel_all(&self, stage: &Stage, scope: &Scope) {
        self.cancel_while(first_of(stage, scope.clone()), |id| {
            id.stage == stage.id && id.scope == *scope
        });
    }

    /// Cancels all alarms of a stage. They are set again from its state when it is back.
    pub fn cancel_stage(&self, stage: &Stage) {
        self.cancel_while(first_of(stage, Scope::FIRST), |id| id.stage == stage.id);
    }

    fn cancel_while(&self, first: Id, is_meant: impl Fn(&Id) -> bool) {
        let mut alarms = self.alarms.lock();
        let meant = alarms.ids(first..).take_while(|id| is_meant(id));
        let meant: Vec<Id> = meant.cloned().collect();
        for id in &meant {
            alarms.cancel(id);
        }
    }

    /// Wakes workers until dropped.
    pub async fn run(&self) {
        loop {
            let now = self.clock.now();
            loop {
                // Delivering takes other locks, so this one is let go first.
                let due = self.alarms.lock().pop_due(now);
                match due {
                    Some((id, alarm)) => go_off(id, alarm),
                    None => break,
                }
            }
            let next = self.alarms.lock().next();
            let sleep = next.map_or(SLEEP_MAX, |at| at.since(now).min(SLEEP_MAX));
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                () = self.earlier.notified() => {}
            }
        }
    }
}

fn id(stage: &Arc<Stage>, scope: &Scope, what: &What) -> Id {
    Id {
        stage: stage.id,
        scope: scope.clone(),
        what: what.clone(),
    }
}

/// Comes before all others of this scope, and of the stage if it is the first scope.
fn first_of(stage: &Stage, scope: Scope) -> Id {
    Id {
        stage: stage.id,
        scope,
        what: What::Ask(Ticket::MIN),
    }
}

fn go_off(id: Id, alarm: Alarm) {
    let Some(stage) = alarm.stage.upgrade() else {
        return;
    };
    let kind = match id.what {
        What::Ask(ticket) => Kind::TimedOut(ticket),
        What::Timer(name) => Kind::Timer(name),
    };
    let incoming = Incoming {
        message: Message::new(alarm.body),
        value: None,
        kind,
        reply_to: ReplyTo::Headers,
        tries: 0,
    };
    stage.push_to(&id.scope, incoming);
}
