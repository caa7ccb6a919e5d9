//! Reading bodies of requests: limited in size, time and memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::app::{App, BUDGET_UNIT_BYTES, Node};
use super::operation::{Asks, JSON, Operation};
use super::problem::Problem;

/// Room for the largest body of a message in base64, with something around it.
pub(super) const REQUEST_BYTES_MAX: usize = kernel::limits::BODY_BYTES_MAX / 3 * 4 + (1 << 20);
/// Requests that only say what to do.
pub(super) const ORDER_BYTES_MAX: usize = 64 << 10;
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a body is waited for that nobody wants.
const UNWANTED_TIMEOUT: Duration = Duration::from_secs(5);
const BUDGET_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a whole body of at most `bytes_max`.
pub(super) async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    let length = content_length(headers).unwrap_or(bytes_max);
    let too_large = || Problem::too_large(format!("a body here has at most {bytes_max} bytes"));
    if length > bytes_max {
        return Err(too_large());
    }
    let _permit = budget(app, length).await?;
    match timeout(READ_TIMEOUT, to_bytes(body, bytes_max)).await {
        Err(_) => Err(Problem::too_slow(format!(
            "the body took more than {READ_TIMEOUT:?}"
        ))),
        Ok(Ok(bytes)) => Ok(bytes),
        // Without a length in advance, the limit shows only while reading.
        Ok(Err(_)) if content_length(headers).is_none() => Err(too_large()),
        Ok(Err(error)) => Err(Problem::bad_request(format!("the body broke off: {error}"))),
    }
}

/// Reads what a request brings although its handler wants nothing. What lies unread when a connection ends makes the system throw
/// away the rest of a large answer before the client has read it.
pub(super) async fn leave_nothing(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let reading = read(&app, &parts.headers, body, ORDER_BYTES_MAX);
    if !matches!(timeout(UNWANTED_TIMEOUT, reading).await, Ok(Ok(_))) {
        tracing::debug!("a body that nobody wants cannot be read");
    }
    next.run(Request::from_parts(parts, Body::empty())).await
}

/// Waits a little for room for so many bytes, which is given back when the permit is dropped.
pub(super) async fn budget(app: &App, bytes: usize) -> Result<OwnedSemaphorePermit, Problem> {
    let permits = bytes.div_ceil(BUDGET_UNIT_BYTES) as u32;
    let acquiring = app.bodies.clone().acquire_many_owned(permits);
    match timeout(BUDGET_TIMEOUT, acquiring).await {
        Ok(Ok(permit)) => Ok(permit),
        _ => Err(Problem::not_ready(
            "too many large requests at once: try again",
        )),
    }
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// Whether the body is JSON, by its content type.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    content_type(headers).is_some_and(|kind| {
        let kind = kind.split(';').next().unwrap_or_default();
        kind.trim().eq_ignore_ascii_case("application/json")
    })
}

/// The content type, if it is text.
pub(super) fn content_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()
}

/// Reads a body that must be a JSON object.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Otherwise `[]` would pass for an object in which everything has its default: an order to
    // purge nothing in particular would purge all.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::bad_request("a JSON object is expected here"));
    }
    serde_json::from_slice(bytes).map_err(|error| {
        Problem::bad_request(format!("the body is not the JSON expected here: {error}"))
    })
}

/// A body that is a JSON object of this type and says what to do.
pub(super) struct Order<T, const BYTES_MAX: usize = ORDER_BYTES_MAX>(pub T);

impl<T: DeserializeOwned, const BYTES_MAX: usize> FromRequest<Arc<App>> for Order<T, BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(app, &parts.headers, body, BYTES_MAX).await?;
        parse(&bytes).map(Self)
    }
}

impl<T: JsonSchema, const BYTES_MAX: usize> Asks for Order<T, BYTES_MAX> {
    fn asks(operation: &mut Operation) {
        takes_json::<T>(operation);
        operation.needs_body = true;
    }
}

/// The same where no body means that nothing is said.
pub(super) struct MaybeOrder<T>(pub T);

impl<T: DeserializeOwned + Default> FromRequest<Arc<App>> for MaybeOrder<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(app, &parts.headers, body, ORDER_BYTES_MAX).await?;
        match bytes.is_empty() {
            true => Ok(Self(T::default())),
            false => parse(&bytes).map(Self),
        }
    }
}

impl<T: JsonSchema> Asks for MaybeOrder<T> {
    fn asks(operation: &mut Operation) {
        takes_json::<T>(operation);
    }
}

fn takes_json<T: JsonSchema>(operation: &mut Operation) {
    operation.reads_body();
    let schema = |generator: &mut schemars::SchemaGenerator| generator.subschema_for::<T>();
    operation.body.push((JSON, Some(schema)));
}

/// The bytes of a component.
pub(super) struct Upload(pub Bytes);

impl FromRequest<Arc<App>> for Upload {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Node(running) = Node::from_request_parts(&mut parts, app).await?;
        let bytes_max = usize::try_from(running.deployments.component_bytes_max());
        let bytes_max = bytes_max.unwrap_or(usize::MAX);
        let bytes = read(app, &parts.headers, body, bytes_max).await?;
        match bytes.is_empty() {
            true => Err(Problem::bad_request(
                "the body is empty: send the bytes of a component",
            )),
            false => Ok(Self(bytes)),
        }
    }
}

impl Asks for Upload {
    fn asks(operation: &mut Operation) {
        operation.reads_body();
        operation.body.push(("application/wasm", None));
        operation.needs_body = true;
    }
}
