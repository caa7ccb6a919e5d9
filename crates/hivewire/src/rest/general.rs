//! `POST /api/v1/general`: something said to all nodes and all who listen.

use axum::Json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::Node;
use super::body::Order;
use super::problem::Problem;
use crate::events::{Event, kind};

const NOTE_CHARS_MAX: usize = 1_000;
const FROM_CHARS_MAX: usize = 100;

/// What is said to all.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    /// The text.
    #[schemars(length(min = 1, max = 1_000))]
    note: String,
    /// Who says it.
    #[serde(default)]
    #[schemars(length(max = 100))]
    from: String,
}

/// It was said.
#[derive(Serialize, JsonSchema)]
pub(super) struct Said {
    /// The number of the event on this node.
    number: u64,
}

pub(super) async fn say(
    Node(running): Node,
    Order(Note { note, from }): Order<Note>,
) -> Result<Json<Said>, Problem> {
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
    Ok(Json(Said { number }))
}
