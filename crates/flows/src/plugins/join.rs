//! `join`: events that belong together meet.

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::event_time::{ahead_max, too_far_ahead};
use super::state::{self, group_of, key_at, key_of, time_and_text};
use super::worker::{OUT, REFUSED_OUTPUT, emit, refuse, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError, Period};
use crate::event::{Data, Event};

/// Parameters of `join`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// What is true for the events of the left side, such as `event.kind == 'order'`; the others are of the right.
    left: Formula,
    /// The key: events of the same key meet. Take what the key of the stage is taken from.
    by: Formula,
    /// When an event happened: milliseconds since 1970, or a text such as `2026-01-31T12:00:00Z`.
    time: Formula,
    /// How far apart in time two events may be.
    within: Period,
    /// Whether a left event that met none comes out alone in the end, with null as `right`.
    #[serde(default)]
    keep_left: bool,
    /// How long the time of an event may lie behind the latest one; what comes later goes to the output `late`.
    #[serde(default = "no_time")]
    out_of_order: Period,
    /// How far the time of an event may lie ahead of the clock. What is further ahead does not move time and goes to the
    /// output `refused`.
    #[serde(default = "ahead_max")]
    ahead_max: Period,
    /// If nothing came for this long, by the clock, nothing more is expected for what waits.
    #[serde(default = "idle")]
    idle: Period,
    /// How many events of one key wait at most; further ones are refused.
    #[serde(default = "events_max")]
    events_max: usize,
    /// How many keys there may be at a time in one bucket of the stage; events of further keys are refused.
    #[serde(default = "keys_max")]
    keys_max: u64,
    /// What happens with an event for which something cannot be computed.
    #[serde(default)]
    on_error: OnError,
}

fn no_time() -> Period {
    Period::from_millis(0)
}

fn idle() -> Period {
    Period::from_millis(60_000)
}

fn events_max() -> usize {
    1_000
}

fn keys_max() -> u64 {
    100_000
}

pub(super) struct Join(Parameters);

/// An event that waits for others.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    #[serde(rename = "t")]
    time: i64,
    #[serde(rename = "l")]
    is_left: bool,
    /// Whether it met another.
    #[serde(rename = "m")]
    met: bool,
    #[serde(rename = "e")]
    event: Data,
}

/// What waits under one key, in the order in which it came.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Group {
    #[serde(rename = "k")]
    key: Data,
    #[serde(rename = "w")]
    waiting: Vec<Waiting>,
}

/// How far time has come in this bucket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Progress {
    /// Nothing earlier than this is expected.
    watermark: i64,
    latest: i64,
    keys: u64,
    /// Nothing is over before this.
    next_due: i64,
}

/// What an event says.
struct Read {
    time: i64,
    is_left: bool,
    key: Data,
    text: String,
}

const GROUP: u8 = b'k';
const DUE: u8 = b'd';
const PROGRESS: &[u8] = b"w";
const IDLE: &str = "idle";
const LATE: &str = "late";
const SCAN_MAX: usize = 256;

impl Plugin for Join {
    const ID: &'static str = "join";
    const DESCRIPTION: &'static str = "Brings events of two sides together that have the same key and happened at about the same time.\n\n\
        Each pair comes out as a record with `key`, `left` and `right`, as soon as both are there. Time is that of the events. \
        Send both sides to the same stage; an expression tells which side an event is of.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "Pairs: `key`, `left` and `right`."),
        (LATE, "Events that came too late."),
        (
            REFUSED_OUTPUT.0,
            "Events beyond `events_max`, `keys_max` or `ahead_max` and, if `on_error` is `refused`, others that could not be handled; as `event` beside the `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "Orders and their payments",
            r#"{"left": "event.kind == 'order'", "by": "event.order", "time": "event.at", "within": "10s"}"#,
        ),
        (
            "Also orders that nobody paid",
            r#"{"left": "event.kind == 'order'", "by": "event.order", "time": "event.at", "within": "2s", "keep_left": true, "out_of_order": "1s"}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self(parameters))
    }
}

#[async_trait]
impl Worker for Join {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let stored: Option<Progress> = state::load(turn, PROGRESS).await?;
        let mut progress = stored.unwrap_or(Progress {
            watermark: i64::MIN,
            latest: i64::MIN,
            keys: 0,
            next_due: i64::MAX,
        });
        let mut saw_event = false;
        for message in messages {
            match &message.kind {
                Kind::Timer(name) if &**name == IDLE => {
                    let end = progress
                        .latest
                        .saturating_add(self.0.within.as_millis() + 1);
                    self.advance(end, &mut progress, turn).await?;
                }
                _ => {
                    saw_event = true;
                    self.take(message, &mut progress, turn).await?;
                }
            }
        }
        if saw_event && progress.keys > 0 {
            turn.set_timer(IDLE, self.0.idle.duration(), Bytes::new())?;
        }
        match stored == Some(progress) || progress.latest == i64::MIN {
            true => Ok(()),
            false => state::store(turn, PROGRESS.to_vec(), &progress),
        }
    }
}

impl Join {
    async fn take(
        &self,
        message: &Incoming,
        progress: &mut Progress,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let read = match self.read(&event, message) {
            Ok(read) => read,
            Err(failure) => return self.0.on_error.refuse(&event, failure, turn),
        };
        let time = read.time;
        if let Some(reason) = too_far_ahead(time, self.0.ahead_max, turn) {
            return refuse(&event, reason, turn);
        }
        match time < progress.watermark {
            true => turn.emit_value(LATE, event)?,
            false => self.meet(&event, read, progress, turn).await?,
        }
        progress.latest = progress.latest.max(time);
        self.advance(time - self.0.out_of_order.as_millis(), progress, turn)
            .await
    }

    fn read(&self, event: &Event, message: &Incoming) -> Result<Read, Failure> {
        let variables = variables(event, message);
        let (key, text) = group_of(Some(&self.0.by), &variables)?;
        Ok(Read {
            time: self.0.time.time_ms(&variables)?,
            is_left: self.0.left.is_true(&variables)?,
            key,
            text,
        })
    }

    /// Brings an event together with those that wait, and lets it wait.
    async fn meet(
        &self,
        event: &Event,
        read: Read,
        progress: &mut Progress,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let stored: Option<Group> = state::load(turn, &key_of(GROUP, &read.text)).await?;
        let is_new = stored.is_none();
        let mut group = stored.unwrap_or(Group {
            key: read.key,
            waiting: Vec::new(),
        });
        if is_new && progress.keys >= self.0.keys_max {
            let reason = format!(
                "there are {} keys already; raise keys_max, or use fewer keys",
                self.0.keys_max
            );
            return refuse(event, reason, turn);
        }
        if group.waiting.len() >= self.0.events_max {
            let reason = format!(
                "{} events of this key wait already; raise events_max",
                self.0.events_max
            );
            return refuse(event, reason, turn);
        }
        progress.keys += u64::from(is_new);
        let due_before = self.due(&group);
        let mut met = false;
        let within = self.0.within.as_millis();
        for other in &mut group.waiting {
            if other.is_left == read.is_left || (other.time - read.time).abs() > within {
                continue;
            }
            (other.met, met) = (true, true);
            let (left, right) = match read.is_left {
                true => (event.data(), &other.event),
                false => (&other.event, event.data()),
            };
            emit(turn, OUT, pair(&group.key, left.clone(), right.clone()))?;
        }
        group.waiting.push(Waiting {
            time: read.time,
            is_left: read.is_left,
            met,
            event: event.data().clone(),
        });
        self.write(&read.text, group, due_before, progress, turn)
    }

    /// From when on something that waits is over.
    fn due(&self, group: &Group) -> Option<i64> {
        let first = group.waiting.iter().map(|waiting| waiting.time).min();
        first.map(|time| time.saturating_add(self.0.within.as_millis() + 1))
    }

    fn write(
        &self,
        text: &str,
        group: Group,
        due_before: Option<i64>,
        progress: &mut Progress,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let due = self.due(&group);
        if due != due_before {
            if let Some(before) = due_before {
                turn.remove_state(key_at(DUE, before, text))?;
            }
            if let Some(due) = due {
                turn.set_state(key_at(DUE, due, text), Bytes::new())?;
                progress.next_due = progress.next_due.min(due);
            }
        }
        match due {
            Some(_) => state::store(turn, key_of(GROUP, text), &group),
            None => {
                progress.keys -= 1;
                turn.remove_state(key_of(GROUP, text))
            }
        }
    }

    /// Time has come this far: what waited for nothing else is over.
    async fn advance(
        &self,
        watermark: i64,
        progress: &mut Progress,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        progress.watermark = progress.watermark.max(watermark);
        while progress.next_due <= progress.watermark {
            progress.next_due = i64::MAX;
            for (key, _) in turn.scan(&[DUE], None, SCAN_MAX).await? {
                let (due, text) = time_and_text(&key)?;
                if due > progress.watermark {
                    progress.next_due = progress.next_due.min(due);
                    break;
                }
                self.finish(text, progress, turn).await?;
                // There may be more than were looked at.
                progress.next_due = progress.next_due.min(due);
            }
        }
        Ok(())
    }

    /// Ends the waiting of those of one key that are over.
    async fn finish(
        &self,
        text: &str,
        progress: &mut Progress,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let Some(mut group) = state::load::<Group>(turn, &key_of(GROUP, text)).await? else {
            return Ok(());
        };
        let due_before = self.due(&group);
        let within = self.0.within.as_millis();
        let is_over = |waiting: &Waiting| waiting.time.saturating_add(within) < progress.watermark;
        let key = group.key.clone();
        for waiting in group.waiting.extract_if(.., |waiting| is_over(waiting)) {
            if self.0.keep_left && waiting.is_left && !waiting.met {
                emit(turn, OUT, pair(&key, waiting.event, Data::Null))?;
            }
        }
        self.write(text, group, due_before, progress, turn)
    }
}

fn pair(key: &Data, left: Data, right: Data) -> Data {
    Data::record([("key", key.clone()), ("left", left), ("right", right)])
}
