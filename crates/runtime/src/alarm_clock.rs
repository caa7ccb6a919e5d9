//! The one clock that wakes workers: timers that go off, and asks whose time is up.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use kernel::worker::{Incoming, Kind, ReplyTo, Ticket};
use kernel::{Clock, Message, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::alarms::Alarms;
use crate::mailbox::Envelope;
use crate::scope::Scope;
use crate::stage::Stage;

/// How long the clock sleeps at most, so that a clock that is set is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What an alarm is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum What {
    /// An ask whose answer has not come.
    Ask(Ticket),
    /// A timer of this name.
    Timer(Box<str>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// Cancels all alarms of a scope.
    pub fn cancel_all(&self, stage: &Arc<Stage>, scope: &Scope) {
        self.cancel_where(|id| id.stage == stage.id && id.scope == *scope);
    }

    /// Cancels all alarms of a stage. They are set again from its state when it is back.
    pub fn cancel_stage(&self, stage: &Stage) {
        self.cancel_where(|id| id.stage == stage.id);
    }

    fn cancel_where(&self, is_meant: impl Fn(&Id) -> bool) {
        let mut alarms = self.alarms.lock();
        let meant: HashSet<Id> = alarms.ids().filter(|id| is_meant(id)).cloned().collect();
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
    match id.scope {
        Scope::Bucket(bucket) => {
            let envelope = Envelope::local(incoming, bucket);
            stage.push_to_bucket(bucket, std::iter::once(envelope));
        }
        scope => {
            if let Some(cell) = stage.cell_of(&scope) {
                cell.push(Envelope::local(incoming, 0));
            }
        }
    }
}
