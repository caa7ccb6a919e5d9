//! `answer`: whoever asks gets an answer.

use std::collections::BTreeMap;

use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Turn, Value};
use kernel::{HeadersBuilder, Message};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::worker::{HandlesEach, OUT, REFUSED_OUTPUT, handles_each, variables};
use super::{Environment, Formula, OnError, Outputs, ParameterError};
use crate::event::{Data, Event};

/// Parameters of `answer`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// What is answered; without it, the event. A text is answered as it is, everything else as JSON.
    with: Option<Formula>,
    /// The status of the answer to a request over HTTP, from 200 to 599; without it, 200.
    status: Option<Formula>,
    /// Headers of the answer to a request over HTTP.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// What happens with an event for which the answer cannot be computed. With `refused`, whoever asked is told so, over
    /// HTTP with the status 422.
    #[serde(default = "refused")]
    on_error: OnError,
}

fn refused() -> OnError {
    OnError::Refused
}

const CONTENT_TYPE: &str = "content-type";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const STATUS: &str = "http-status";
const STATUS_REFUSED: i64 = 422;
const HEADER_PREFIX: &str = "http-header-";

pub(super) struct Answer(Parameters);

impl Plugin for Answer {
    const ID: &'static str = "answer";
    const DESCRIPTION: &'static str = "Answers whoever asks, and passes events on.\n\n\
        A stage is asked by `hivewire ask`, by another worker, or by a request over HTTP if the flow has a route to it. \
        Of a request, expressions see the body as `event`, and in `headers` the method, the path, what stands in its braces and the query: \
        `headers['http-method']`, `headers['http-path']`, `headers['http-param-NAME']`, `headers['http-query']`.";
    const OUTPUTS: Outputs = Outputs::Optional(&[
        (
            OUT,
            "The events, also those to which nobody waits for an answer.",
        ),
        REFUSED_OUTPUT,
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "A greeting, for `GET /hello/{name}`",
            r#"{"with": "'hello ' + headers['http-param-name']"}"#,
        ),
        (
            "An order is taken in",
            r#"{"with": "{'order': event.id, 'total': event.price * event.count}", "status": "event.count > 0 ? 201 : 400"}"#,
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
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = |name: &&String| !name.is_empty() && name.chars().all(is_name);
    match parameters.headers.keys().find(|name| !fits(name)) {
        None => Ok(()),
        Some(name) => Err(ParameterError::new(
            format!("headers.{name}"),
            "write the name of a header in lower case",
        )),
    }
}

impl HandlesEach for Answer {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        if message.expects_reply() {
            match self.answer(&event, message) {
                Ok(answer) => turn.reply(message, answer)?,
                Err(reason) => return self.refuse(&event, reason, message, turn),
            }
        }
        turn.emit_value(OUT, event)
    }
}

handles_each!(Answer);

impl Answer {
    fn answer(&self, event: &Event, message: &Incoming) -> Result<Message, Failure> {
        let variables = variables(event, message);
        let status = match &self.0.status {
            None => None,
            Some(status) => Some(status_of(&status.evaluate(&variables)?)?),
        };
        let (body, kind) = match &self.0.with {
            None => shown(event.data().clone()),
            Some(with) => shown(with.evaluate(&variables)?),
        };
        self.message(body, kind, status)
    }

    fn message(&self, body: Bytes, kind: &str, status: Option<i64>) -> Result<Message, Failure> {
        let mut headers = HeadersBuilder::default();
        let wrong = |error: kernel::HeadersError| Failure::new(error.to_string());
        if !self.0.headers.contains_key(CONTENT_TYPE) {
            headers.push(CONTENT_TYPE, kind).map_err(wrong)?;
        }
        if let Some(status) = status {
            headers.push(STATUS, &status.to_string()).map_err(wrong)?;
        }
        for (name, value) in &self.0.headers {
            match name.as_str() {
                CONTENT_TYPE => headers.push(CONTENT_TYPE, value),
                name => headers.push(&format!("{HEADER_PREFIX}{name}"), value),
            }
            .map_err(wrong)?;
        }
        Ok(Message::new(body).with_headers(headers.build()))
    }

    /// Whoever asked need not wait until nothing comes.
    fn refuse(
        &self,
        event: &Event,
        reason: Failure,
        message: &Incoming,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        if self.0.on_error == OnError::Refused {
            let said = Bytes::from(reason.reason.clone());
            turn.reply(message, self.message(said, TEXT, Some(STATUS_REFUSED))?)?;
        }
        self.0.on_error.refuse(event, reason, turn)
    }
}

fn status_of(data: &Data) -> Result<i64, Failure> {
    let status = data.as_int().filter(|status| (200..600).contains(status));
    status.ok_or_else(|| {
        let given = String::from_utf8_lossy(&Event::new(data.clone()).encode()).into_owned();
        Failure::new(format!(
            "the status is {given}, and has to be from 200 to 599"
        ))
    })
}

fn shown(data: Data) -> (Bytes, &'static str) {
    match data {
        Data::Text(text) => (text.into_inner().into(), TEXT),
        other => (Event::new(other).encode(), JSON),
    }
}
