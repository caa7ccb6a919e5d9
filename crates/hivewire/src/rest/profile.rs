//! `/api/v1/nodes/{node}/profile`

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::Node;
use super::problem::Problem;
use super::views::{bad_query, name_of};
use crate::desk::Request;
use crate::profile::{self, Profile};

const SECONDS_DEFAULT: u32 = 10;

/// How long to look.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileQuery {
    /// So many seconds: 10 unless it says otherwise, and never more than 60.
    #[schemars(range(min = 1, max = 60))]
    seconds: Option<u32>,
}

/// Where a node spent its time.
#[derive(Serialize, JsonSchema)]
pub(super) struct ProfileShown {
    node: String,
    seconds: u32,
    /// How often in a second it was looked at.
    frequency_hz: u32,
    samples: u64,
    /// Stacks that were seen too rarely to be shown.
    left_out: u64,
    /// A flame graph.
    svg: String,
    /// One line for each stack: its frames with semicolons between them, and how often it was seen.
    folded: String,
}

pub(super) async fn take(
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    query: Result<Query<ProfileQuery>, QueryRejection>,
) -> Result<Json<ProfileShown>, Problem> {
    let node = name_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let seconds = query.seconds.unwrap_or(SECONDS_DEFAULT);
    let asked = running
        .desk
        .ask(Some(node.as_str()), Request::Profile { seconds });
    let profile: Profile = asked.await?;
    let title = format!("{node}: {} samples in {seconds} s", profile.samples);
    Ok(Json(ProfileShown {
        node: node.to_string(),
        seconds: profile.seconds,
        frequency_hz: profile.frequency_hz,
        samples: profile.samples,
        left_out: profile.left_out,
        svg: profile::svg(&title, &profile.folded),
        folded: profile.folded,
    }))
}
