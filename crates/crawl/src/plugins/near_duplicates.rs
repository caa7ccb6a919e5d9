//! `near-duplicates`: pages that say what another one said do not pass.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use flows::plugins::author::{OUT, Plugin, REFUSED, state};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Kind as MessageKind, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::page::Page;
use crate::simhash::{self, DISTANCE_MAX};
use crate::sniff::Kind;
use crate::text::{Rules, read};

/// Parameters of `near-duplicates`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// In how many of the 64 bits of their fingerprints texts may differ that are near each other: 0 to 3.
    #[serde(default = "distance_max")]
    distance_max: u32,
    /// How many words a text must have to be compared. Shorter ones have too little to tell them apart.
    #[serde(default = "words_min")]
    words_min: usize,
    /// Whether a page with the same `hash` as another one is refused, too, whatever its text is.
    #[serde(default = "exact")]
    exact: bool,
    /// How many pages that are alike in a quarter of their fingerprints are compared with a new one.
    #[serde(default = "candidates_max")]
    candidates_max: usize,
}

fn distance_max() -> u32 {
    DISTANCE_MAX
}

fn words_min() -> usize {
    20
}

fn exact() -> bool {
    true
}

fn candidates_max() -> usize {
    1_000
}

pub(super) struct NearDuplicates {
    parameters: Parameters,
    rules: Rules,
}

/// What is known of the page at a URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    #[serde(rename = "h", skip_serializing_if = "Option::is_none", default)]
    hash: Option<String>,
    #[serde(rename = "s", skip_serializing_if = "Option::is_none", default)]
    simhash: Option<u64>,
}

/// Why a page does not pass.
struct Duplicate {
    rule: &'static str,
    of: String,
    reason: String,
}

/// The page at a URL.
const PAGE: u8 = b'p';
/// The first URL with a hash.
const EXACT: u8 = b'e';
/// The first URL with a fingerprint.
const NEAR: u8 = b'n';
/// The fingerprints that share a quarter.
const BAND: u8 = b'b';

impl Plugin for NearDuplicates {
    const ID: &'static str = "near-duplicates";
    const DESCRIPTION: &'static str = "Lets the first of pages pass whose texts are the same or nearly so.\n\n\
        Texts are compared by 64-bit fingerprints of their words, two at a time. Pages are compared within one worker: key the stage by host (`json:/host`) \
        to find copies within each host, spread over workers and nodes, which is where most are; or give it no key and one worker to find them across all hosts. \
        A page that comes again from the same URL passes. It uses the `text` of a text extractor, or else reads the text itself; about 150 bytes and two \
        addresses are kept for each page.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            OUT,
            "Pages that are unlike those before, with their `simhash` if they have enough words.",
        ),
        (
            REFUSED,
            "Pages that are not, without their body, with `rule`, `reason` and `duplicate_of`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("As usual", "{}"),
        (
            "Only what is the same but for white space",
            r#"{"distance_max": 0, "words_min": 5}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let rules = Rules {
            guesses_language: false,
            ..Rules::default()
        };
        Ok(Self { parameters, rules })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    match parameters.distance_max <= DISTANCE_MAX {
        true => Ok(()),
        false => Err(ParameterError::new(
            "distance_max",
            format!(
                "write a number from 0 to {DISTANCE_MAX}: texts that differ more are not near each other"
            ),
        )),
    }
}

#[async_trait]
impl Worker for NearDuplicates {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        if message.kind != MessageKind::Message {
            return Ok(());
        }
        let event = Event::of(message)?;
        let page = Page::of(&event)?;
        let simhash = self.fingerprint(&page);
        let known = Known {
            hash: page
                .text("hash")
                .filter(|_| self.parameters.exact)
                .map(str::to_owned),
            simhash,
        };
        if let Some(duplicate) = self.duplicate(page.url, &known, turn).await? {
            let of = [("duplicate_of", duplicate.of.into())];
            return page.refuse(duplicate.rule, duplicate.reason, of, turn);
        }
        remember(page.url, known, turn).await?;
        let simhash = simhash.map(|simhash| ("simhash", Data::from(format!("{simhash:016x}"))));
        turn.emit_value(OUT, Arc::new(page.with(simhash)))
    }
}

impl NearDuplicates {
    /// The fingerprint of the text, if there is enough of it.
    fn fingerprint(&self, page: &Page<'_>) -> Option<u64> {
        let has_enough = |text: &str| {
            let words = text.split(|character: char| !character.is_alphanumeric());
            let words = words.filter(|word| !word.is_empty());
            words.take(self.parameters.words_min).count() >= self.parameters.words_min
        };
        if let Some(text) = page.text("text") {
            return has_enough(text).then(|| simhash::of_text(text));
        }
        let body = page.body();
        if !matches!(page.kind(&body), Kind::Html | Kind::Xhtml) {
            return None;
        }
        let text = read(&body, &self.rules).text;
        has_enough(&text).then(|| simhash::of_text(&text))
    }

    /// What a page is a duplicate of. It is none of itself.
    async fn duplicate(
        &self,
        url: &str,
        known: &Known,
        turn: &Turn,
    ) -> Result<Option<Duplicate>, Failure> {
        if let Some(hash) = &known.hash
            && let Some(of) = text_at(turn, &state::key_of(EXACT, hash)).await?
            && of != url
        {
            return Ok(Some(Duplicate {
                rule: "duplicate",
                reason: format!("it is the same as {of}, byte by byte"),
                of,
            }));
        }
        let Some(simhash) = known.simhash else {
            return Ok(None);
        };
        for band in simhash::bands(simhash) {
            let prefix = [&[BAND][..], &band].concat();
            let candidates = turn
                .scan(&prefix, None, self.parameters.candidates_max)
                .await?;
            for (key, _) in candidates {
                let Some(other) = fingerprint_in(&key, prefix.len()) else {
                    continue;
                };
                let distance = simhash::distance(simhash, other);
                if distance > self.parameters.distance_max {
                    continue;
                }
                if let Some(of) = text_at(turn, &near_key(other)).await?
                    && of != url
                {
                    return Ok(Some(Duplicate {
                        rule: "near-duplicate",
                        reason: format!(
                            "its text is nearly that of {of}: {distance} of 64 bits differ"
                        ),
                        of,
                    }));
                }
            }
        }
        Ok(None)
    }
}

/// Remembers a page, and forgets what was at its URL before.
async fn remember(url: &str, known: Known, turn: &mut Turn) -> Result<(), Failure> {
    let mut page_key = vec![PAGE];
    page_key.extend_from_slice(&xxh3_128(url.as_bytes()).to_be_bytes());
    let before: Option<Known> = state::load(turn, &page_key).await?;
    if before.as_ref() == Some(&known) {
        return Ok(());
    }
    if let Some(before) = before {
        forget(url, &before, turn).await?;
    }
    let address = Bytes::copy_from_slice(url.as_bytes());
    if let Some(hash) = &known.hash {
        turn.set_state(state::key_of(EXACT, hash), address.clone())?;
    }
    if let Some(simhash) = known.simhash {
        turn.set_state(near_key(simhash), address)?;
        for key in band_keys(simhash) {
            turn.set_state(key, Bytes::new())?;
        }
    }
    state::store(turn, page_key, &known)
}

/// Forgets what a URL was known by, as far as it is the one that stands there.
async fn forget(url: &str, before: &Known, turn: &mut Turn) -> Result<(), Failure> {
    if let Some(hash) = &before.hash {
        let key = state::key_of(EXACT, hash);
        if text_at(turn, &key).await?.as_deref() == Some(url) {
            turn.remove_state(key)?;
        }
    }
    if let Some(simhash) = before.simhash
        && text_at(turn, &near_key(simhash)).await?.as_deref() == Some(url)
    {
        turn.remove_state(near_key(simhash))?;
        for key in band_keys(simhash) {
            turn.remove_state(key)?;
        }
    }
    Ok(())
}

async fn text_at(turn: &Turn, key: &[u8]) -> Result<Option<String>, Failure> {
    let stored = turn.state(key).await?;
    Ok(stored.map(|stored| String::from_utf8_lossy(&stored).into_owned()))
}

fn near_key(simhash: u64) -> Vec<u8> {
    let mut key = vec![NEAR];
    key.extend_from_slice(&simhash.to_be_bytes());
    key
}

fn band_keys(simhash: u64) -> [Vec<u8>; 4] {
    simhash::bands(simhash).map(|band| {
        let mut key = vec![BAND];
        key.extend_from_slice(&band);
        key.extend_from_slice(&simhash.to_be_bytes());
        key
    })
}

/// The fingerprint behind the quarter in a key.
fn fingerprint_in(key: &[u8], start: usize) -> Option<u64> {
    let bytes = key.get(start..)?.try_into().ok()?;
    Some(u64::from_be_bytes(bytes))
}
