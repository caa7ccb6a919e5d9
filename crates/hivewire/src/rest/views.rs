//! What handlers have in common: names out of paths, messages as JSON.

use axum::extract::Path;
use axum::extract::rejection::{PathRejection, QueryRejection};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kernel::{Message, Name};
use serde_json::{Map, Value, json};

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

/// Adds body and headers of a message to a JSON object: the body as text if it is text, else in
/// base64. Of a longer body only the first `body_bytes_max` are shown.
pub(super) fn add_message(
    object: &mut Map<String, Value>,
    message: &Message,
    body_bytes_max: usize,
) {
    let whole = message.body.len();
    let shown = &message.body[..whole.min(body_bytes_max)];
    match str::from_utf8(shown) {
        Ok(text) => object.insert("body".into(), text.into()),
        Err(_) => object.insert("body_base64".into(), STANDARD.encode(shown).into()),
    };
    if shown.len() < whole {
        object.insert("body_bytes".into(), whole.into());
    }
    let mut headers = Map::new();
    for (name, value) in message.headers.iter() {
        // Of a header that is repeated, the first counts.
        headers.entry(name).or_insert_with(|| value.into());
    }
    object.insert("headers".into(), headers.into());
    object.insert(
        "published_at".into(),
        json!(message.published_at.as_millis()),
    );
}
