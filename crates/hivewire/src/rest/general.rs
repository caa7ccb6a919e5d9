//! `POST /api/v1/general`: something said to all nodes and all who listen.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::app::{App, Node};
use super::body;
use super::problem::Problem;
use crate::events::{Event, kind};

const NOTE_CHARS_MAX: usize = 1_000;
const FROM_CHARS_MAX: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    note: String,
    #[serde(default)]
    from: String,
}

pub(super) async fn say(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let bytes = body::read(&app, &headers, body, body::ORDER_BYTES_MAX).await?;
    let Note { note, from } = body::parse(&bytes)?;
    if note.is_empty() || note.chars().count() > NOTE_CHARS_MAX {
        return Err(Problem::bad_request(format!(
            "note has between 1 and {NOTE_CHARS_MAX} characters"
        )));
    }
    if from.chars().count() > FROM_CHARS_MAX {
        return Err(Problem::bad_request(format!(
            "from has at most {FROM_CHARS_MAX} characters"
        )));
    }
    let event = Event::new(kind::NOTE, "said").with("text", note);
    let number = running.events.tell(event.with_text("from", &from));
    Ok(Json(json!({ "number": number })))
}
