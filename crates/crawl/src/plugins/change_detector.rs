//! `change-detector`: what has changed since the last visit, and when to look again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flows::plugins::author::{Plugin, state, variables};
use flows::plugins::{Environment, Formula, Outputs, ParameterError, Period};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::page::Page;

/// Parameters of `change-detector`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// What has to differ, such as `event.text` or `event.price`. Without it, the `hash` of the body.
    by: Option<Formula>,
    /// When a new page is looked at again.
    #[serde(default = "first")]
    first: Period,
    /// The shortest time between two visits: a page that changed is visited after half the time of before.
    #[serde(default = "shortest")]
    shortest: Period,
    /// The longest time between two visits: a page that did not change is visited after one and a half of the time of before.
    #[serde(default = "longest")]
    longest: Period,
    /// Whether URLs come out when they are due.
    #[serde(default = "visit_again")]
    visit_again: bool,
}

fn first() -> Period {
    Period::from_millis(DAY_MS)
}

fn shortest() -> Period {
    Period::from_millis(DAY_MS / 24)
}

fn longest() -> Period {
    Period::from_millis(30 * DAY_MS)
}

fn visit_again() -> bool {
    true
}

const DAY_MS: u64 = 86_400_000;

pub(super) struct ChangeDetector(Parameters);

/// What is known of a page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    url: String,
    host: String,
    depth: i64,
    /// What it was the last time.
    print: String,
    /// When it was seen to have changed.
    changed_at: i64,
    interval_ms: i64,
    /// When it is looked at again.
    due_at: i64,
}

const KNOWN: u8 = b'k';
const DUE: u8 = b'd';
/// When the timer goes off that is set.
const TIMER_AT: &[u8] = b"t";
const TIMER: &str = "due";
/// How many URLs come out in one turn.
const DUE_MAX: usize = 500;

const NEW: &str = "new";
const CHANGED: &str = "changed";
const UNCHANGED: &str = "unchanged";
const AGAIN: &str = "again";

impl Plugin for ChangeDetector {
    const ID: &'static str = "change-detector";
    const DESCRIPTION: &'static str = "Tells pages that have changed from those that have not, and when to visit them again.\n\n\
        Key the stage by host (`json:/host`). A page that changed is visited again after half the time of before, one that did not after one and a half of it. Connect \
        `again` with the frontier, or with a stage before it. An answer with status 304 has not changed.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            NEW,
            "Pages that were not here before, with `next_visit_at`.",
        ),
        (
            CHANGED,
            "Pages that differ from the last time, with `changed_at` and `next_visit_at`.",
        ),
        (
            UNCHANGED,
            "Pages that do not, with `changed_at` and `next_visit_at`.",
        ),
        (
            AGAIN,
            "URLs that are due: `host`, `urls`, `depth`, `from` and `again`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("As usual", "{}"),
        (
            "News, by their text",
            r#"{"by": "event.text", "first": "1h", "shortest": "5m", "longest": "7d"}"#,
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
    if parameters.shortest.as_millis() == 0 {
        return Err(ParameterError::new(
            "shortest",
            "write a time above nothing, such as 1h",
        ));
    }
    match parameters.shortest <= parameters.longest {
        true => Ok(()),
        false => Err(ParameterError::new(
            "longest",
            "write a time of at least `shortest`",
        )),
    }
}

#[async_trait]
impl Worker for ChangeDetector {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            match &message.kind {
                Kind::Message => self.take(message, turn).await?,
                Kind::Timer(name) if **name == *TIMER => {
                    turn.remove_state(TIMER_AT)?;
                    self.visit_again(turn).await?;
                }
                _ => (),
            }
        }
        set_timer(turn).await
    }
}

impl ChangeDetector {
    async fn take(&self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let page = Page::of(&event)?;
        let now = turn.now().as_millis() as i64;
        let id = id_of(page.url);
        let before: Option<Known> = state::load(turn, &state::key_of(KNOWN, &id)).await?;
        let is_not_modified = page.number("status") == Some(304);
        let print = match &before {
            Some(before) if is_not_modified => before.print.clone(),
            _ => self.print(&event, message)?,
        };
        let (output, known) = self.next(&page, before.as_ref(), print, now);
        if let Some(before) = &before {
            turn.remove_state(state::key_at(DUE, before.due_at, &id))?;
        }
        if self.0.visit_again {
            turn.set_state(state::key_at(DUE, known.due_at, &id), Bytes::new())?;
        }
        state::store(turn, state::key_of(KNOWN, &id), &known)?;
        let fields = [
            ("changed_at", Data::from(known.changed_at)),
            ("next_visit_at", Data::from(known.due_at)),
        ];
        turn.emit_value(output, Arc::new(page.with(fields)))
    }

    /// What a page is compared by, in a few digits.
    fn print(&self, event: &Event, message: &Incoming) -> Result<String, Failure> {
        let Some(by) = &self.0.by else {
            let hash = event.data().get("hash").and_then(Data::as_text);
            return match hash {
                Some(hash) => Ok(hash.to_owned()),
                None => Ok(id_of_bytes(&event.body().unwrap_or_default())),
            };
        };
        let value = by.evaluate(&variables(event, message))?;
        Ok(id_of(&value.key_text()))
    }

    fn next(
        &self,
        page: &Page<'_>,
        before: Option<&Known>,
        print: String,
        now: i64,
    ) -> (&'static str, Known) {
        let (shortest, longest) = (self.0.shortest.as_millis(), self.0.longest.as_millis());
        let (output, interval, changed_at) = match before {
            None => (NEW, self.0.first.as_millis(), now),
            Some(before) if before.print == print => (
                UNCHANGED,
                before.interval_ms + before.interval_ms / 2,
                before.changed_at,
            ),
            Some(before) => (CHANGED, before.interval_ms / 2, now),
        };
        let interval_ms = interval.clamp(shortest, longest);
        let known = Known {
            url: page.url.to_owned(),
            host: page.text("host").unwrap_or_default().to_owned(),
            depth: page.number("depth").unwrap_or(0),
            print,
            changed_at,
            interval_ms,
            due_at: now.saturating_add(interval_ms),
        };
        (output, known)
    }

    /// Emits what is due.
    async fn visit_again(&self, turn: &mut Turn) -> Result<(), Failure> {
        let now = turn.now().as_millis() as i64;
        let mut due: BTreeMap<(String, i64), Vec<Data>> = BTreeMap::new();
        for (key, _) in turn.scan(&[DUE], None, DUE_MAX).await? {
            let (at, id) = state::time_and_text(&key)?;
            if at > now {
                break;
            }
            turn.remove_state(key.clone())?;
            let known: Option<Known> = state::load(turn, &state::key_of(KNOWN, id)).await?;
            let Some(mut known) = known else {
                continue;
            };
            // If nothing comes of this visit, there is another one after the same time.
            known.due_at = now.saturating_add(known.interval_ms);
            turn.set_state(state::key_at(DUE, known.due_at, id), Bytes::new())?;
            state::store(turn, state::key_of(KNOWN, id), &known)?;
            let urls = due.entry((known.host, known.depth)).or_default();
            urls.push(known.url.into());
        }
        for ((host, depth), urls) in due {
            let data = Data::record([
                ("again", Data::from(true)),
                ("depth", depth.into()),
                ("from", "".into()),
                ("host", host.into()),
                ("urls", urls.into()),
            ]);
            turn.emit_value(AGAIN, Arc::new(Event::new(data)))?;
        }
        Ok(())
    }
}

/// Sets the timer for what is due first, unless it goes off by then anyhow.
async fn set_timer(turn: &mut Turn) -> Result<(), Failure> {
    let first = turn.scan(&[DUE], None, 1).await?;
    let Some((key, _)) = first.first() else {
        return Ok(());
    };
    let (at, _) = state::time_and_text(key)?;
    let set: Option<i64> = state::load(turn, TIMER_AT).await?;
    if set.is_some_and(|set| set <= at) {
        return Ok(());
    }
    let now = turn.now().as_millis() as i64;
    let after = Duration::from_millis(at.saturating_sub(now).max(1) as u64);
    state::store(turn, TIMER_AT.to_vec(), &at)?;
    turn.set_timer(TIMER, after, Bytes::new())
}

fn id_of(text: &str) -> String {
    id_of_bytes(text.as_bytes())
}

fn id_of_bytes(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}
