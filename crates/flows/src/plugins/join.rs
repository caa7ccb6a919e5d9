//! `join`: events that belong together meet.

use std::collections::{BTreeMap, BTreeSet};

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
    /// From when on something is over, as it is stored.
    #[serde(skip)]
    due_stored: Option<i64>,
    #[serde(skip)]
    has_changed: bool,
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

/// What a batch works with: each group is read once and written once.
struct Desk {
    progress: Progress,
    stored: Option<Progress>,
    groups: BTreeMap<String, Group>,
    /// From when on something is over, of the groups on the desk.
    due: BTreeSet<(i64, String)>,
    /// The same of all others: nothing is over before this.
    next_stored: i64,
    saw_event: bool,
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
        let mut desk = Desk::new(turn).await?;
        for message in messages {
            match &message.kind {
                Kind::Timer(name) if &**name == IDLE => {
                    let latest = desk.progress.latest;
                    let end = latest.saturating_add(self.0.within.as_millis() + 1);
                    self.advance(end, &mut desk, turn).await?;
                }
                Kind::Woken => {}
                _ => self.take(message, &mut desk, turn).await?,
            }
        }
        self.write(desk, turn)
    }
}

impl Desk {
    async fn new(turn: &Turn) -> Result<Self, Failure> {
        let stored: Option<Progress> = state::load(turn, PROGRESS).await?;
        let progress = stored.unwrap_or(Progress {
            watermark: i64::MIN,
            latest: i64::MIN,
            keys: 0,
            next_due: i64::MAX,
        });
        Ok(Self {
            progress,
            stored,
            groups: BTreeMap::new(),
            due: BTreeSet::new(),
            next_stored: progress.next_due,
            saw_event: false,
        })
    }
}

impl Join {
    async fn take(
        &self,
        message: &Incoming,
        desk: &mut Desk,
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
        desk.saw_event = true;
        match time < desk.progress.watermark {
            true => turn.emit_value(LATE, event)?,
            false => self.meet(&event, read, desk, turn).await?,
        }
        desk.progress.latest = desk.progress.latest.max(time);
        self.advance(time - self.0.out_of_order.as_millis(), desk, turn)
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
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        if !desk.groups.contains_key(&read.text) {
            self.load(&read.text, desk, turn).await?;
        }
        let waiting = desk.groups.get(&read.text);
        let waiting = waiting.map_or(0, |group| group.waiting.len());
        if let Some(reason) = self.no_room(waiting, desk.progress.keys) {
            return refuse(event, reason, turn);
        }
        desk.progress.keys += u64::from(waiting == 0);
        let group = desk
            .groups
            .entry(read.text.clone())
            .or_insert_with(|| Group {
                key: read.key.clone(),
                waiting: Vec::new(),
                due_stored: None,
                has_changed: false,
            });
        let due_before = self.due(group);
        let met = self.pair_up(event, &read, group, turn)?;
        group.waiting.push(Waiting {
            time: read.time,
            is_left: read.is_left,
            met,
            event: event.data().clone(),
        });
        group.has_changed = true;
        let due = self.due(group);
        if due != due_before {
            due_before.map(|due| desk.due.remove(&(due, read.text.clone())));
            desk.due.extend(due.map(|due| (due, read.text)));
        }
        Ok(())
    }

    /// Why one more event cannot wait, of a key of which so many do.
    fn no_room(&self, waiting: usize, keys: u64) -> Option<String> {
        let Parameters {
            keys_max,
            events_max,
            ..
        } = &self.0;
        if waiting == 0 && keys >= *keys_max {
            return Some(format!(
                "there are {keys_max} keys already; raise keys_max, or use fewer keys"
            ));
        }
        (waiting >= *events_max)
            .then(|| format!("{events_max} events of this key wait already; raise events_max"))
    }

    /// Emits the pairs of an event with those that wait; true if there are any.
    fn pair_up(
        &self,
        event: &Event,
        read: &Read,
        group: &mut Group,
        turn: &mut Turn,
    ) -> Result<bool, Failure> {
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
        Ok(met)
    }

    /// From when on something that waits is over.
    fn due(&self, group: &Group) -> Option<i64> {
        let first = group.waiting.iter().map(|waiting| waiting.time).min();
        first.map(|time| time.saturating_add(self.0.within.as_millis() + 1))
    }

    /// Brings a group to the desk, if it is stored.
    async fn load(&self, text: &str, desk: &mut Desk, turn: &Turn) -> Result<(), Failure> {
        let Some(mut group) = state::load::<Group>(turn, &key_of(GROUP, text)).await? else {
            return Ok(());
        };
        group.due_stored = self.due(&group);
        desk.due
            .extend(group.due_stored.map(|due| (due, text.to_owned())));
        desk.groups.insert(text.to_owned(), group);
        Ok(())
    }

    /// Time has come this far: what waited for nothing else is over.
    async fn advance(
        &self,
        watermark: i64,
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let watermark = desk.progress.watermark.max(watermark);
        desk.progress.watermark = watermark;
        if desk.next_stored <= watermark {
            self.load_due(watermark, desk, turn).await?;
        }
        while desk.due.first().is_some_and(|(due, _)| *due <= watermark) {
            let Some((_, text)) = desk.due.pop_first() else {
                break;
            };
            if let Some(group) = desk.groups.get_mut(&text) {
                self.finish(watermark, group, turn)?;
                let due = self.due(group);
                desk.progress.keys -= u64::from(due.is_none());
                desk.due.extend(due.map(|due| (due, text)));
            }
        }
        Ok(())
    }

    /// Brings groups to the desk of which something is over, and finds out when the others are.
    async fn load_due(&self, watermark: i64, desk: &mut Desk, turn: &Turn) -> Result<(), Failure> {
        let mut after: Option<Bytes> = None;
        loop {
            let found = turn.scan(&[DUE], after.as_deref(), SCAN_MAX).await?;
            for (key, _) in &found {
                let (due, text) = time_and_text(key)?;
                if desk.groups.contains_key(text) {
                    continue;
                }
                if due > watermark {
                    desk.next_stored = due;
                    return Ok(());
                }
                self.load(text, desk, turn).await?;
            }
            match found.last() {
                Some((last, _)) if found.len() == SCAN_MAX => after = Some(last.clone()),
                _ => {
                    desk.next_stored = i64::MAX;
                    return Ok(());
                }
            }
        }
    }

    /// Ends the waiting of those of one key that are over.
    fn finish(&self, watermark: i64, group: &mut Group, turn: &mut Turn) -> Result<(), Failure> {
        let within = self.0.within.as_millis();
        let is_over = |waiting: &mut Waiting| waiting.time.saturating_add(within) < watermark;
        group.has_changed = true;
        for waiting in group.waiting.extract_if(.., is_over) {
            if self.0.keep_left && waiting.is_left && !waiting.met {
                emit(turn, OUT, pair(&group.key, waiting.event, Data::Null))?;
            }
        }
        Ok(())
    }

    fn write(&self, mut desk: Desk, turn: &mut Turn) -> Result<(), Failure> {
        let next_due = desk.due.first().map_or(i64::MAX, |(due, _)| *due);
        desk.progress.next_due = next_due.min(desk.next_stored);
        for (text, group) in &desk.groups {
            if group.has_changed {
                self.write_group(text, group, turn)?;
            }
        }
        if desk.saw_event && desk.progress.keys > 0 {
            turn.set_timer(IDLE, self.0.idle.duration(), Bytes::new())?;
        }
        match desk.stored == Some(desk.progress) || desk.progress.latest == i64::MIN {
            true => Ok(()),
            false => state::store(turn, PROGRESS.to_vec(), &desk.progress),
        }
    }

    fn write_group(&self, text: &str, group: &Group, turn: &mut Turn) -> Result<(), Failure> {
        let due = self.due(group);
        if due != group.due_stored {
            if let Some(stored) = group.due_stored {
                turn.remove_state(key_at(DUE, stored, text))?;
            }
            if let Some(due) = due {
                turn.set_state(key_at(DUE, due, text), Bytes::new())?;
            }
        }
        match due {
            Some(_) => state::store(turn, key_of(GROUP, text), group),
            None if group.due_stored.is_some() => turn.remove_state(key_of(GROUP, text)),
            None => Ok(()),
        }
    }
}

fn pair(key: &Data, left: Data, right: Data) -> Data {
    Data::record([("key", key.clone()), ("left", left), ("right", right)])
}
