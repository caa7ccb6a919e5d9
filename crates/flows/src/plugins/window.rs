//! `window`: values over the events of a key within spans of time. How far time has come, and which keys have
//! something due; the windows of one key are in `panes`.

mod panes;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::built_in::Plugin;
use super::event_time::{ahead_max, too_far_ahead};
use super::state::{self, group_of, key_at, key_of, time_and_text};
use super::worker::{OUT, REFUSED_OUTPUT, refuse, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError, Period};
use crate::event::{Data, Event};
use crate::window::compute::Computations;
use crate::window::spans::Cut;
use panes::Group;

/// Parameters of `window`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How time is cut: `{"tumbling": "10s"}`, `{"sliding": {"size": "1m", "every": "10s"}}` or `{"session": "30m"}`.
    cut: Cut,
    /// When an event happened: milliseconds since 1970, or a text such as `2026-01-31T12:00:00Z`.
    time: Formula,
    /// The key: events of the same key belong together. Take what the key of the stage is taken from. Without it all
    /// events of a worker belong together.
    by: Option<Formula>,
    /// What is computed, by name, as for `aggregate`.
    compute: Computations,
    /// How long the time of an event may lie behind the latest one and still be in time. A window is complete once an
    /// event came whose time is this much later than the end of the window.
    #[serde(default = "no_time")]
    out_of_order: Period,
    /// How long after a window was complete an event still changes it; the changed window comes out again, with
    /// `update` set to true. What comes later than that goes to the output `late`.
    #[serde(default = "no_time")]
    lateness: Period,
    /// How far the time of an event may lie ahead of the clock. What is further ahead does not move time and goes to the
    /// output `refused`.
    #[serde(default = "ahead_max")]
    ahead_max: Period,
    /// If nothing came for this long, by the clock, all windows are taken as complete.
    #[serde(default = "idle")]
    idle: Period,
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

fn keys_max() -> u64 {
    100_000
}

pub(super) struct Window(Parameters);

/// How far time has come in this bucket.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Progress {
    /// Nothing earlier than this is expected.
    watermark: i64,
    /// The latest time of an event.
    latest: i64,
    /// How many keys have windows.
    keys: u64,
}

/// What a batch works with: each group is read once and written once.
struct Desk {
    progress: Progress,
    stored: Option<Progress>,
    groups: BTreeMap<String, Group>,
    /// When something has to be done, of the groups on the desk.
    due: BTreeSet<(i64, String)>,
    /// The same of all others: from when on.
    next_stored: Option<i64>,
    saw_event: bool,
}

const GROUP: u8 = b'k';
const DUE: u8 = b'd';
const PROGRESS: &[u8] = b"w";
const IDLE: &str = "idle";
const MORE: &str = "more";
const LATE: &str = "late";
/// So many windows come out in one turn; the rest follow in the next.
const EMITS_MAX: usize = 2_000;
const SCAN_MAX: usize = 256;

impl Plugin for Window {
    const ID: &'static str = "window";
    const DESCRIPTION: &'static str = "Computes values over the events of a key within windows of time: tumbling, sliding or session.\n\n\
        Windows are those of the time that the events themselves tell. A window comes out once it is complete: as a record with `key`, `start` and `end` \
        (milliseconds since 1970; the end is not part of it) and the computed values. Given the same events in the same order, the same windows come out.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            OUT,
            "Windows: `key`, `start`, `end` and the computed values; `update` is true if the window came out before.",
        ),
        (LATE, "Events that came too late for all their windows."),
        (
            REFUSED_OUTPUT.0,
            "Events of keys beyond `keys_max` or ahead of the clock beyond `ahead_max` and, if `on_error` is `refused`, others that could not be handled; as `event` beside the `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "The average temperature of each sensor, each minute",
            r#"{"cut": {"tumbling": "1m"}, "time": "event.at", "by": "event.sensor", "out_of_order": "5s", "compute": {"average": {"average": "event.celsius"}}}"#,
        ),
        (
            "How long people stay",
            r#"{"cut": {"session": "30m"}, "time": "event.at", "by": "event.user", "lateness": "1h", "compute": {"clicks": "count", "pages": {"distinct": "event.page"}}}"#,
        ),
        (
            "The last five minutes, every minute",
            r#"{"cut": {"sliding": {"size": "5m", "every": "1m"}}, "time": "event.at", "compute": {"top": {"top": {"of": "event.article", "k": 10}}}}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        Ok(Self(parameters))
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    parameters.compute.check("compute")?;
    parameters.cut.check("cut")
}

#[async_trait]
impl Worker for Window {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut desk = Desk::new(turn).await?;
        for message in messages {
            match &message.kind {
                Kind::Timer(name) if &**name == IDLE => {
                    let end = desk.progress.latest.saturating_add(self.0.cut.length_ms());
                    self.advance(end, &mut desk, turn).await?;
                }
                Kind::Timer(name) if &**name == MORE => self.fire(&mut desk, turn).await?,
                Kind::Woken => {}
                _ => self.add(message, &mut desk, turn).await?,
            }
        }
        self.write(desk, turn).await
    }
}

impl Desk {
    async fn new(turn: &Turn) -> Result<Self, Failure> {
        let stored: Option<Progress> = state::load(turn, PROGRESS).await?;
        let nothing = Progress {
            watermark: i64::MIN,
            latest: i64::MIN,
            keys: 0,
        };
        let mut desk = Self {
            progress: stored.unwrap_or(nothing),
            stored,
            groups: BTreeMap::new(),
            due: BTreeSet::new(),
            next_stored: None,
            saw_event: false,
        };
        let first = turn.scan(&[DUE], None, 1).await?;
        if let Some((key, _)) = first.first() {
            desk.next_stored = Some(time_and_text(key)?.0);
        }
        Ok(desk)
    }
}

impl Window {
    async fn add(
        &self,
        message: &Incoming,
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let variables = variables(&event, message);
        let read = || {
            let time = self.0.time.time_ms(&variables)?;
            let group = group_of(self.0.by.as_ref(), &variables)?;
            Ok((time, group, self.0.compute.inputs(&variables)?))
        };
        let (time, (key, text), inputs) = match read() {
            Ok(read) => read,
            Err(failure) => return self.0.on_error.refuse(&event, failure, turn),
        };
        if let Some(reason) = too_far_ahead(time, self.0.ahead_max, turn) {
            return refuse(&event, reason, turn);
        }
        desk.saw_event = true;
        let has_room = self.load(key, &text, desk, turn).await?;
        if !has_room {
            let reason = format!(
                "there are {} keys already; raise keys_max, or use fewer keys",
                self.0.keys_max
            );
            refuse(&event, reason, turn)?;
        } else if !self.add_to_panes(time, &text, &inputs, desk, turn)? {
            turn.emit_value(LATE, event)?;
        }
        desk.progress.latest = desk.progress.latest.max(time);
        self.advance(time - self.0.out_of_order.as_millis(), desk, turn)
            .await
    }

    /// Brings a group to the desk; false if there is no room for another key.
    async fn load(
        &self,
        key: Data,
        text: &str,
        desk: &mut Desk,
        turn: &Turn,
    ) -> Result<bool, Failure> {
        if !desk.groups.contains_key(text) {
            self.load_stored(text, desk, turn).await?;
        }
        if desk
            .groups
            .get(text)
            .is_some_and(|group| !group.panes.is_empty())
        {
            return Ok(true);
        }
        if desk.progress.keys >= self.0.keys_max {
            return Ok(false);
        }
        desk.progress.keys += 1;
        if desk.groups.contains_key(text) {
            return Ok(true);
        }
        let group = Group {
            key,
            panes: Vec::new(),
            due_stored: None,
        };
        desk.groups.insert(text.to_owned(), group);
        Ok(true)
    }

    async fn load_stored(&self, text: &str, desk: &mut Desk, turn: &Turn) -> Result<(), Failure> {
        let Some(mut group) = state::load::<Group>(turn, &key_of(GROUP, text)).await? else {
            return Ok(());
        };
        if !group
            .panes
            .iter()
            .all(|pane| self.0.compute.fit(&pane.accumulators))
        {
            let reason = "open windows were computed with other parameters; put them back, or remove the stage and add it anew";
            return Err(Failure::new(reason));
        }
        group.due_stored = self.due(&group);
        desk.due
            .extend(group.due_stored.map(|due| (due, text.to_owned())));
        desk.groups.insert(text.to_owned(), group);
        Ok(())
    }

    /// Adds an event to its windows; false if it is too late for all of them.
    fn add_to_panes(
        &self,
        time: i64,
        text: &str,
        inputs: &[Data],
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<bool, Failure> {
        let watermark = desk.progress.watermark;
        let Some(group) = desk.groups.get_mut(text) else {
            return Ok(false);
        };
        let due_before = self.due(group);
        let is_in_time = self.add_to_group(time, inputs, watermark, group, turn)?;
        let due = self.due(group);
        if due != due_before {
            due_before.map(|due| desk.due.remove(&(due, text.to_owned())));
            desk.due.extend(due.map(|due| (due, text.to_owned())));
        }
        if group.panes.is_empty() {
            // A key whose only event was late leaves nothing.
            desk.progress.keys -= 1;
        }
        Ok(is_in_time)
    }

    /// Time has come this far.
    async fn advance(
        &self,
        watermark: i64,
        desk: &mut Desk,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        if watermark <= desk.progress.watermark {
            return Ok(());
        }
        desk.progress.watermark = watermark;
        self.fire(desk, turn).await
    }

    /// Lets windows come out that are complete, and forgets those that nothing can change any more.
    async fn fire(&self, desk: &mut Desk, turn: &mut Turn) -> Result<(), Failure> {
        let watermark = desk.progress.watermark;
        loop {
            if desk.next_stored.is_some_and(|next| next <= watermark) {
                self.load_due(watermark, desk, turn).await?;
            }
            let Some((due, text)) = desk
                .due
                .first()
                .filter(|(due, _)| *due <= watermark)
                .cloned()
            else {
                return Ok(());
            };
            if turn.effects().sends_count() >= EMITS_MAX {
                return turn.set_timer(MORE, std::time::Duration::from_millis(1), Bytes::new());
            }
            desk.due.pop_first();
            if let Some(group) = desk.groups.get_mut(&text) {
                self.fire_group(due, group, turn)?;
                let due = self.due(group);
                desk.progress.keys -= u64::from(due.is_none());
                desk.due.extend(due.map(|due| (due, text)));
            }
        }
    }

    /// Brings groups to the desk that have something due, and finds out when the others have.
    async fn load_due(&self, watermark: i64, desk: &mut Desk, turn: &Turn) -> Result<(), Failure> {
        let mut after: Option<Bytes> = None;
        loop {
            let found = turn.scan(&[DUE], after.as_deref(), SCAN_MAX).await?;
            for (key, _) in &found {
                let (time, text) = time_and_text(key)?;
                if desk.groups.contains_key(text) {
                    continue;
                }
                if time > watermark {
                    desk.next_stored = Some(time);
                    return Ok(());
                }
                self.load_stored(text, desk, turn).await?;
            }
            match found.last() {
                Some((last, _)) if found.len() == SCAN_MAX => after = Some(last.clone()),
                _ => {
                    desk.next_stored = None;
                    return Ok(());
                }
            }
        }
    }

    async fn write(&self, desk: Desk, turn: &mut Turn) -> Result<(), Failure> {
        for (text, group) in desk.groups {
            let due = self.due(&group);
            if due != group.due_stored {
                if let Some(stored) = group.due_stored {
                    turn.remove_state(key_at(DUE, stored, &text))?;
                }
                if let Some(due) = due {
                    turn.set_state(key_at(DUE, due, &text), Bytes::new())?;
                }
            }
            match group.panes.is_empty() {
                false => state::store(turn, key_of(GROUP, &text), &group)?,
                true if group.due_stored.is_some() => turn.remove_state(key_of(GROUP, &text))?,
                true => {}
            }
        }
        if desk.stored != Some(desk.progress) && desk.progress.latest > i64::MIN {
            state::store(turn, PROGRESS.to_vec(), &desk.progress)?;
        }
        match desk.saw_event && desk.progress.keys > 0 {
            true => turn.set_timer(IDLE, self.0.idle.duration(), Bytes::new()),
            false => Ok(()),
        }
    }
}
