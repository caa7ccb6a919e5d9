//! `/api/v1/messages/{address}` and `/api/v1/asks/{address}`

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use broker::Publication;
use kernel::{Address, Message};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::{Node, Running};
use super::messages::{CONTENT_TYPE_HEADER, HEADER_PREFIX, Messages};
use super::problem::Problem;
use super::views::{MessageShown, bad_query};

/// Headers of a reply that HTTP cannot carry are left out and counted here.
const LEFT_OUT_HEADER: &str = "hivewire-headers-left-out";
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
const ASK_MS_MAX: u64 = 300_000;

fn address_of(path: Result<Path<String>, PathRejection>) -> Result<Address, Problem> {
    let Path(text) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let address = text.parse();
    address.map_err(|error: kernel::AddressError| Problem::bad_request(error.to_string()))
}

/// A message to a stage that is not there would wait for ever, and is most likely a mistake.
fn check_stage(running: &Running, address: &Address) -> Result<(), Problem> {
    let stage = match address {
        Address::Stage(stage) => stage,
        Address::Worker(worker) => worker.stage(),
        Address::Queue(_) | Address::Topic(_) => return Ok(()),
    };
    match running.deployments.exists(stage) {
        true => Ok(()),
        false => Err(running.deployments.unknown(stage).into()),
    }
}

/// What became of messages that were sent.
#[derive(Serialize, JsonSchema)]
pub(super) struct Sent {
    /// How many were taken in.
    accepted: usize,
}

pub(super) async fn send(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    Messages(batch): Messages,
) -> Result<Json<Sent>, Problem> {
    let address = address_of(path)?;
    check_stage(&running, &address)?;
    let mut accepted = 0;
    for publication in batch {
        let sent = running.runtime().send(&address, publication.message);
        let sent = sent.await;
        sent.map_err(|error| Problem::from(error).accepted(accepted))?;
        accepted += 1;
    }
    Ok(Json(Sent { accepted }))
}

/// How a question is asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskQuery {
    /// How long to wait for the reply: 5,000 unless it says otherwise, and never more than 300,000.
    #[schemars(range(max = ASK_MS_MAX))]
    timeout_ms: Option<u64>,
}

pub(super) async fn ask(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<AskQuery>, QueryRejection>,
    headers: HeaderMap,
    Messages(batch): Messages,
) -> Result<Response, Problem> {
    let address = address_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let timeout = match query.timeout_ms {
        Some(ms) if ms > ASK_MS_MAX => {
            return Err(Problem::bad_request(format!(
                "timeout_ms is at most {ASK_MS_MAX}"
            )));
        }
        Some(ms) => Duration::from_millis(ms),
        None => ASK_TIMEOUT,
    };
    check_stage(&running, &address)?;
    let question = question_of(batch)?;
    let reply = running.runtime().ask(&address, question, timeout).await?;
    Ok(match wants_json(&headers) {
        true => as_json(&reply).into_response(),
        false => as_it_is(reply),
    })
}

fn question_of(mut batch: Vec<Publication>) -> Result<Message, Problem> {
    match (batch.pop(), batch.is_empty()) {
        (Some(question), true) => Ok(question.message),
        _ => Err(Problem::bad_request("one message is asked at a time")),
    }
}

fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|a| a.to_str().ok());
    accept.is_some_and(|accept| accept.contains("application/json"))
}

fn as_json(reply: &Message) -> Json<MessageShown> {
    Json(MessageShown::new(reply, usize::MAX))
}

/// The body of the reply as the body of the answer, its headers as headers.
fn as_it_is(reply: Message) -> Response {
    let mut left_out = 0_usize;
    let mut headers = HeaderMap::new();
    for (name, value) in reply.headers.iter() {
        let name = match name {
            CONTENT_TYPE_HEADER => Ok(header::CONTENT_TYPE),
            name => HeaderName::try_from(format!("{HEADER_PREFIX}{name}")),
        };
        match (name, HeaderValue::from_str(value)) {
            (Ok(name), Ok(value)) => {
                headers.append(name, value);
            }
            _ => left_out += 1,
        }
    }
    if left_out > 0 {
        headers.insert(HeaderName::from_static(LEFT_OUT_HEADER), left_out.into());
    }
    if !headers.contains_key(header::CONTENT_TYPE) {
        let unknown = HeaderValue::from_static("application/octet-stream");
        headers.insert(header::CONTENT_TYPE, unknown);
    }
    (headers, reply.body).into_response()
}

#[cfg(test)]
mod tests {
    use kernel::Headers;

    use super::*;

    #[test]
    fn what_http_cannot_carry_is_counted() {
        let headers = [
            ("k", "v"),
            ("content-type", "text/plain"),
            ("a b", "x"),
            ("n", "a\nb"),
        ];
        let reply = Message::new("hi").with_headers(Headers::from_pairs(headers).unwrap());
        let answer = as_it_is(reply);
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("hivewire-header-k"), "v");
        assert_eq!(header("content-type"), "text/plain");
        assert_eq!(header(LEFT_OUT_HEADER), "2");
    }
}
