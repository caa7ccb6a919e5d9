//! ETags: an answer that the client knows already is not sent again.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_128;

use super::operation::{Answers, JSON, Operation};
use super::problem::Problem;
use crate::deploy::Expected;

/// The ETag of something that is sent as these bytes.
pub(super) fn etag_of(bytes: &[u8]) -> String {
    format!("\"{:032x}\"", xxh3_128(bytes))
}

/// JSON with an ETag that follows from what it says.
pub(super) struct Tagged<T>(pub T);

impl<T: Serialize> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => {
                let headers = [
                    (header::CONTENT_TYPE, JSON.to_owned()),
                    (header::ETAG, etag_of(&bytes)),
                ];
                (headers, bytes).into_response()
            }
            Err(error) => Problem::internal(error.to_string()).into_response(),
        }
    }
}

impl<T: JsonSchema> Answers for Tagged<T> {
    fn answers(operation: &mut Operation) {
        operation.gives_json::<T>(200);
        operation.has_etag(200);
    }
}

/// Leaves out the body of an answer that the client knows already.
pub(super) async fn spare(request: Request, next: Next) -> Response {
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_reading || !request.headers().contains_key(header::IF_NONE_MATCH) {
        return next.run(request).await;
    }
    let known = request.headers().clone();
    let answer = next.run(request).await;
    let etag = answer.headers().get(header::ETAG);
    let etag = etag.and_then(|etag| etag.to_str().ok());
    let is_same = etag.is_some_and(|etag| is_known(&known, etag));
    if answer.status() != StatusCode::OK || !is_same {
        return answer;
    }
    let (mut parts, _) = answer.into_parts();
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(header::CONTENT_TYPE);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::empty())
}

/// Whether the client says that it has what this ETag names.
pub(super) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = known
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tags.any(|tag| {
        let tag = tag.trim();
        tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
    })
}

/// What a request says in If-Match about the definition that it changes.
pub(super) fn expected(headers: &HeaderMap) -> Expected {
    let values = headers.get_all(header::IF_MATCH).iter();
    let text: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    let text = text.join(",");
    let tags: Vec<&str> = text.split(',').map(str::trim).collect();
    if !headers.contains_key(header::IF_MATCH) {
        return Expected::Anything;
    }
    if tags.contains(&"*") {
        return Expected::Something;
    }
    // Those that are weak do not tell definitions apart, and fit nothing.
    let strong = tags
        .iter()
        .filter_map(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
    Expected::OneOf(strong.map(str::to_owned).collect())
}
