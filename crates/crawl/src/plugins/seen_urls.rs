//! `seen-urls`: each URL passes once.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use flows::plugins::author::{OUT, Plugin};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Kind, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;

use super::urls::{self, Urls};

/// Parameters of `seen-urls`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// How many URLs that came of late each worker remembers in memory, so that it need not look them up on disk.
    #[serde(default = "remembered_max")]
    remembered_max: usize,
    /// Whether URLs that were seen before go to the output `seen`.
    #[serde(default)]
    tell: bool,
}

fn remembered_max() -> usize {
    200_000
}

pub(super) struct SeenUrls {
    parameters: Parameters,
    remembered: Remembered,
}

/// URLs that are known to be on disk: a young and an old generation, each of at most so many.
struct Remembered {
    young: HashSet<u128>,
    old: HashSet<u128>,
    max: usize,
}

const SEEN: u8 = b's';
const SEEN_OUTPUT: &str = "seen";
/// An event that has this field passes as it is.
const AGAIN: &str = "again";

impl Plugin for SeenUrls {
    const ID: &'static str = "seen-urls";
    const DESCRIPTION: &'static str = "Lets each URL pass once.\n\n\
        Key the stage by host (`json:/host`). What was seen is kept on disk, as 128 bits for each URL, and never forgotten while the stage exists. Events with \
        `again` pass in any case, so that pages can be visited anew.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "URLs that were not seen before."),
        (SEEN_OUTPUT, "URLs that were, if `tell` is true."),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[("As usual", "{}")];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        Ok(Self {
            remembered: Remembered {
                young: HashSet::new(),
                old: HashSet::new(),
                max: parameters.remembered_max / 2,
            },
            parameters,
        })
    }
}

#[async_trait]
impl Worker for SeenUrls {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        let mut events = Vec::with_capacity(messages.len());
        for message in messages
            .iter()
            .filter(|message| message.kind == Kind::Message)
        {
            events.push(Event::of(message)?);
        }
        let mut came = Vec::with_capacity(events.len());
        for event in &events {
            came.push(Urls::of(event)?);
        }
        let new = self.look_up(&events, &came, turn).await?;
        let mut new = new.into_iter();
        for (event, urls) in events.iter().zip(&came) {
            if event.data().get(AGAIN).is_some() {
                turn.emit_value(OUT, event.clone())?;
                continue;
            }
            let (fresh, known): (Vec<_>, Vec<_>) = urls
                .all()
                .map(|url| (url, new.next().unwrap_or(false)))
                .partition(|(_, is_new)| *is_new);
            if !fresh.is_empty() {
                pass(event, urls, &fresh, OUT, turn)?;
            }
            if self.parameters.tell && !known.is_empty() {
                pass(event, urls, &known, SEEN_OUTPUT, turn)?;
            }
        }
        Ok(())
    }
}

fn pass(
    event: &Arc<Event>,
    urls: &Urls<'_>,
    these: &[(&str, bool)],
    output: &str,
    turn: &mut Turn,
) -> Result<(), Failure> {
    if these.len() == urls.all().count() {
        return turn.emit_value(output, event.clone());
    }
    let data = urls::data(urls, these.iter().map(|(url, _)| *url));
    turn.emit_value(output, Arc::new(Event::new(data).held_like(event)))
}

impl SeenUrls {
    /// Whether each URL is new, in order; those that are have been seen from now on.
    async fn look_up(
        &mut self,
        events: &[Arc<Event>],
        came: &[Urls<'_>],
        turn: &mut Turn,
    ) -> Result<Vec<bool>, Failure> {
        let is_counted = |(event, _): &(&Arc<Event>, &Urls<'_>)| {
            event.data().get(AGAIN).map(Data::as_bool).is_none()
        };
        let counted = events.iter().zip(came).filter(is_counted);
        let prints: Vec<u128> = counted
            .flat_map(|(_, urls)| urls.all())
            .map(|url| xxhash_rust::xxh3::xxh3_128(url.as_bytes()))
            .collect();
        let mut here = HashSet::with_capacity(prints.len());
        let asked: Vec<u128> = prints
            .iter()
            .copied()
            .filter(|print| !self.remembered.has(*print) && here.insert(*print))
            .collect();
        let keys: Vec<Bytes> = asked.iter().map(|print| key(*print)).collect();
        let stored = turn.states(&keys).await?;
        let mut new = HashSet::with_capacity(asked.len());
        for ((print, key), stored) in asked.into_iter().zip(keys).zip(stored) {
            match stored {
                // Only what is on disk is remembered: a turn may be undone.
                Some(_) => self.remembered.add(print),
                None => {
                    turn.set_state(key, Bytes::new())?;
                    new.insert(print);
                }
            }
        }
        // Of equal ones the first is new.
        Ok(prints.into_iter().map(|print| new.remove(&print)).collect())
    }
}

fn key(print: u128) -> Bytes {
    let mut key = Vec::with_capacity(17);
    key.push(SEEN);
    key.extend_from_slice(&print.to_be_bytes());
    key.into()
}

impl Remembered {
    fn has(&self, print: u128) -> bool {
        self.young.contains(&print) || self.old.contains(&print)
    }

    fn add(&mut self, print: u128) {
        if self.young.len() >= self.max {
            self.old = std::mem::take(&mut self.young);
        }
        if self.max > 0 {
            self.young.insert(print);
        }
    }
}
