//! `from-http`: asks a server again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::descriptor::PluginKind;
use kernel::worker::{Failure, Incoming, LogLevel, Provided, Turn, Worker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use super::built_in::Plugin;
use super::environment::{Answer, Http, Request};
use super::to_http::{timeout, url};
use super::worker::{OUT, REFUSED, emit};
use super::{Environment, Outputs, ParameterError, Period, state};
use crate::event::{Data, Event};

/// Parameters of `from-http`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// What to ask for, such as `https://example.com/prices.json`.
    url: String,
    /// How long after a question the next one is asked.
    every: Period,
    /// Headers of the request.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Whether each value of an answer that is a list becomes an event.
    #[serde(default)]
    each: bool,
    /// Whether an answer that is the same as the one before comes out, too.
    #[serde(default)]
    unchanged: bool,
    /// How long the server may take. It has to be shorter than a turn of the stage may take.
    #[serde(default = "timeout")]
    timeout: Period,
    /// How long an answer may be; at most 16 MiB.
    #[serde(default = "answer_bytes_max")]
    answer_bytes_max: usize,
}

fn answer_bytes_max() -> usize {
    1 << 20
}

pub(super) struct FromHttp {
    parameters: Parameters,
    url: Url,
    http: Arc<dyn Http>,
    /// What the last try failed with; empty if it did not.
    trouble: String,
}

/// When to ask next, and what came last.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Position {
    due_ms: u64,
    hash: Option<u64>,
    etag: Option<String>,
}

const POSITION: &[u8] = b"p";
const ANSWER_BYTES_MAX: usize = 16 << 20;
const ETAG_BYTES_MAX: usize = 1_024;
const EVERY_MS_MIN: i64 = 100;
const NOT_MODIFIED: u16 = 304;

impl Plugin for FromHttp {
    const ID: &'static str = "from-http";
    const KIND: PluginKind = PluginKind::Provider;
    const DESCRIPTION: &'static str = "Asks a server every so often, and gives what it answers.\n\n\
        JSON becomes an event, other text a string. An answer that did not change comes out once, also over restarts. \
        If the server cannot be reached, that is told at the output `refused`, and asked again.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (OUT, "The answers."),
        (
            REFUSED,
            "Why there was no answer that could be used: the `url` and the `reason`.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Prices, every ten seconds",
        r#"{"url": "https://shop.example.com/prices.json", "every": "10s", "each": true}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        let url = check(&parameters)?;
        Ok(Self {
            parameters,
            url,
            http: environment.http()?,
            trouble: String::new(),
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters).map(drop)
    }
}

fn check(parameters: &Parameters) -> Result<Url, ParameterError> {
    if parameters.every.as_millis() < EVERY_MS_MIN {
        return Err(ParameterError::new(
            "every",
            format!("write {EVERY_MS_MIN}ms or more"),
        ));
    }
    if !(1..=ANSWER_BYTES_MAX).contains(&parameters.answer_bytes_max) {
        return Err(ParameterError::new(
            "answer_bytes_max",
            format!("write 1 to {ANSWER_BYTES_MAX}"),
        ));
    }
    url("url", &parameters.url)
}

#[async_trait]
impl Worker for FromHttp {
    async fn receive(&mut self, _: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        Err(Failure::new("from-http has no input"))
    }

    async fn provide(&mut self, turn: &mut Turn) -> Result<Provided, Failure> {
        let mut position: Position = state::load(turn, POSITION).await?.unwrap_or_default();
        let now = turn.now().as_millis();
        if now < position.due_ms {
            return Ok(Provided::After(Duration::from_millis(
                position.due_ms - now,
            )));
        }
        let answer = self.http.ask(self.request(&position)).await;
        let taken = answer.and_then(|answer| self.take(answer, &mut position));
        match taken {
            Ok(events) => {
                self.trouble.clear();
                events
                    .into_iter()
                    .try_for_each(|event| emit(turn, OUT, event))?;
            }
            Err(reason) => {
                self.tell(turn, &reason);
                let refused = [
                    ("url", Data::from(self.url.to_string())),
                    ("reason", reason.into()),
                ];
                emit(turn, REFUSED, Data::record(refused))?;
            }
        }
        position.due_ms = now + self.parameters.every.as_millis() as u64;
        state::store(turn, POSITION.to_vec(), &position)?;
        Ok(Provided::After(self.parameters.every.duration()))
    }
}

impl FromHttp {
    /// Writes a line when the trouble is another than before, as nobody may listen to what was refused.
    fn tell(&mut self, turn: &Turn, reason: &str) {
        if self.trouble != reason {
            turn.log(LogLevel::Warn, &format!("{}: {reason}", self.url));
            reason.clone_into(&mut self.trouble);
        }
    }

    fn request(&self, position: &Position) -> Request {
        let etag = position.etag.iter().filter(|_| !self.parameters.unchanged);
        let etag = etag.map(|etag| ("if-none-match".to_owned(), etag.clone()));
        Request {
            method: "GET",
            url: self.url.clone(),
            headers: self
                .parameters
                .headers
                .clone()
                .into_iter()
                .chain(etag)
                .collect(),
            body: Bytes::new(),
            timeout: self.parameters.timeout.duration(),
            answer_bytes_max: self.parameters.answer_bytes_max,
        }
    }

    /// The events in an answer.
    fn take(&self, answer: Answer, position: &mut Position) -> Result<Vec<Data>, String> {
        if answer.status == NOT_MODIFIED && position.etag.is_some() {
            return Ok(Vec::new());
        }
        if !(200..300).contains(&answer.status) {
            return Err(format!(
                "the server answered with the status {}",
                answer.status
            ));
        }
        let hash = xxhash_rust::xxh3::xxh3_64(&answer.body);
        let is_same = position.hash == Some(hash);
        let event = Event::parse(&answer.body).map_err(|error| error.to_string())?;
        let etag = answer.headers.into_iter().find(|(name, _)| name == "etag");
        position.etag = etag
            .map(|(_, etag)| etag)
            .filter(|etag| etag.len() <= ETAG_BYTES_MAX);
        position.hash = Some(hash);
        Ok(match event.data() {
            _ if is_same && !self.parameters.unchanged => Vec::new(),
            Data::List(list) if self.parameters.each => list.clone().into_values(),
            data => vec![data.clone()],
        })
    }
}
