//! `/api/v1/nodes/{node}/profile`

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use serde::Deserialize;
use serde_json::{Value, json};

use super::app::Node;
use super::problem::Problem;
use super::views::{bad_query, name_of};
use crate::desk::Request;
use crate::profile::{self, Profile};

const SECONDS_DEFAULT: u32 = 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileQuery {
    seconds: Option<u32>,
}

pub(super) async fn take(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<ProfileQuery>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let node = name_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let seconds = query.seconds.unwrap_or(SECONDS_DEFAULT);
    let asked = running
        .desk
        .ask(Some(node.as_str()), Request::Profile { seconds });
    let profile: Profile = asked.await?;
    let title = format!("{node}: {} samples in {seconds} s", profile.samples);
    Ok(Json(json!({
        "node": node.as_str(),
        "seconds": profile.seconds,
        "frequency_hz": profile.frequency_hz,
        "samples": profile.samples,
        "left_out": profile.left_out,
        "svg": profile::svg(&title, &profile.folded),
        "folded": profile.folded,
    })))
}
