//! `to-http`: events are sent to a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use super::built_in::Plugin;
use super::environment::{Http, Request};
use super::worker::variables;
use super::{Environment, Formula, Outputs, ParameterError, Period};
use crate::event::{Data, Event};

/// Parameters of `to-http`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Where to, such as `https://example.com/alerts`.
    url: String,
    /// What is sent; without it, the event. A text is sent as it is, everything else as JSON.
    body: Option<Formula>,
    /// Headers of the request.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// How long the server may take. It has to be shorter than a turn of the stage may take.
    #[serde(default = "timeout")]
    timeout: Period,
}

pub(super) fn timeout() -> Period {
    Period::from_millis(800)
}

pub(super) struct ToHttp {
    parameters: Parameters,
    url: Url,
    http: Arc<dyn Http>,
}

const ANSWER_BYTES_MAX: usize = 64 << 10;
const SHOWN_CHARS_MAX: usize = 200;

impl Plugin for ToHttp {
    const ID: &'static str = "to-http";
    const DESCRIPTION: &'static str = "Sends each event to a server, with POST.\n\n\
        If the server does not answer with success, the event is tried again as often as the stage allows and then goes to the dead letters. \
        So each event is sent at least once, perhaps twice; the header `idempotency-key`, made from the body, lets the server tell.";
    const OUTPUTS: Outputs = Outputs::None;
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[(
        "Alerts to a chat",
        r#"{"url": "https://chat.example.com/hook", "body": "{'text': event.sensor + ' is too hot'}", "headers": {"x-source": "sensors"}}"#,
    )];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        let url = url("url", &parameters.url)?;
        Ok(Self {
            parameters,
            url,
            http: environment.http()?,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        url("url", &parameters.url).map(drop)
    }
}

/// The address of a server, as far as it can be checked here.
pub(super) fn url(field: &str, text: &str) -> Result<Url, ParameterError> {
    let url = Url::parse(text).map_err(|error| ParameterError::new(field, error.to_string()))?;
    match matches!(url.scheme(), "http" | "https") && url.has_host() {
        true => Ok(url),
        false => Err(ParameterError::new(
            field,
            "write a URL that begins with http:// or https://",
        )),
    }
}

#[async_trait]
impl Worker for ToHttp {
    async fn receive(&mut self, message: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let (body, content_type) = match &self.parameters.body {
            None => (event.encode(), "application/json"),
            Some(body) => match body.evaluate(&variables(&event, message))? {
                Data::Text(text) => (text.into_inner().into(), "text/plain; charset=utf-8"),
                other => (Event::new(other).encode(), "application/json"),
            },
        };
        let id = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&body));
        let own = [
            ("content-type".to_owned(), content_type.to_owned()),
            ("idempotency-key".to_owned(), id),
        ];
        let is_set = |name: &str| {
            self.parameters
                .headers
                .keys()
                .any(|set| set.eq_ignore_ascii_case(name))
        };
        let own = own.into_iter().filter(|(name, _)| !is_set(name));
        let request = Request {
            method: "POST",
            url: self.url.clone(),
            headers: own.chain(self.parameters.headers.clone()).collect(),
            body,
            timeout: self.parameters.timeout.duration(),
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let answer = self.http.ask(request).await;
        let answer = answer
            .map_err(|reason| Failure::new(format!("{} cannot be reached: {reason}", self.url)))?;
        match (200..300).contains(&answer.status) {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&answer.body);
                let said: String = said.chars().take(SHOWN_CHARS_MAX).collect();
                Err(Failure::new(format!(
                    "{} answered with the status {}: {said}",
                    self.url, answer.status
                )))
            }
        }
    }
}
