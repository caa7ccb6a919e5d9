//! What handlers have in common: names out of paths, messages as JSON.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::extract::rejection::{PathRejection, QueryRejection};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kernel::{Message, Name};
use schemars::JsonSchema;
use serde::Serialize;

use super::problem::Problem;

/// The name in a path. Slashes in it come percent-encoded.
pub(super) fn name_of(path: Result<Path<String>, PathRejection>) -> Result<Name, Problem> {
    let Path(text) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    Name::new(&text).map_err(|error| Problem::bad_request(error.to_string()))
}

/// Says what is wrong with the part of the address behind the question mark.
pub(super) fn bad_query(error: QueryRejection) -> Problem {
    Problem::bad_request(error.body_text())
}

/// A message as JSON: the body as text if it is text, else in base64.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessageShown {
    /// The body, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    /// The body in base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// How long the body is, if only its beginning is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<usize>,
    /// Of a header that is repeated, the first counts.
    headers: BTreeMap<String, String>,
    /// When it was published, in milliseconds since 1970.
    published_at: u64,
}

impl MessageShown {
    /// Of a longer body only the first `body_bytes_max` are shown.
    pub fn new(message: &Message, body_bytes_max: usize) -> Self {
        let whole = message.body.len();
        let shown = &message.body[..whole.min(body_bytes_max)];
        let (body, body_base64) = match str::from_utf8(shown) {
            Ok(text) => (Some(text.to_owned()), None),
            Err(_) => (None, Some(STANDARD.encode(shown))),
        };
        let mut headers = BTreeMap::new();
        for (name, value) in message.headers.iter() {
            headers
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
        }
        Self {
            body,
            body_base64,
            body_bytes: (shown.len() < whole).then_some(whole),
            headers,
            published_at: message.published_at.as_millis(),
        }
    }
}
