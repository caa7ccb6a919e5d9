//! `/api/v1/documents`: flow documents, read, checked and applied

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, Path, Query, Request};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use flows::document::{DOCUMENT_BYTES_MAX, Document, Parsed, Problems, Step, schema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::app::{App, Node};
use super::body::{content_type, is_json, read};
use super::etag::{Tagged, expected};
use super::operation::{Asks, JSON, Operation};
use super::problem::Problem;
use super::views::bad_query;
use crate::deploy::{AppliedFlow, ApplyError, FlowRecord, FlowVersion, StoreError, tag_of};

pub(super) const TOML: &str = "application/toml";

/// A document, in TOML or JSON by its content type. It may be wrong.
pub(super) struct Sent(Result<Parsed, Problems>);

impl FromRequest<Arc<App>> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let bytes = read(app, &parts.headers, body, DOCUMENT_BYTES_MAX).await?;
        if bytes.is_empty() {
            return Err(Problem::bad_request(
                "the request has no body: send the document",
            ));
        }
        if is_json(&parts.headers) {
            return Ok(Self(Document::parse_json(&bytes)));
        }
        let is_toml = content_type(&parts.headers).is_none_or(|kind| kind.starts_with(TOML));
        if !is_toml {
            return Err(Problem::bad_request(format!(
                "a document is {TOML} or {JSON}: say which in Content-Type"
            )));
        }
        let text = str::from_utf8(&bytes)
            .map_err(|_| Problem::bad_request("the document is no text in UTF-8"))?;
        Ok(Self(Document::parse(text)))
    }
}

impl Asks for Sent {
    fn asks(operation: &mut Operation) {
        operation.reads_body();
        let schema =
            |generator: &mut schemars::SchemaGenerator| generator.subschema_for::<Document>();
        operation.body.push((JSON, Some(schema)));
        operation.body.push((TOML, None));
        operation.needs_body = true;
    }
}

type FlowPath = Result<Path<String>, PathRejection>;

fn flow_of(path: FlowPath) -> Result<String, Problem> {
    let Path(flow) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    Ok(flow)
}

/// What is wrong with a document.
#[derive(Serialize, JsonSchema)]
pub(super) struct Checked {
    /// Whether it could be applied.
    sound: bool,
    /// Everything that is wrong, with its place in the text.
    problems: Problems,
}

pub(super) async fn check(Node(running): Node, Sent(sent): Sent) -> Result<Json<Checked>, Problem> {
    let problems = match sent {
        Err(problems) => problems,
        Ok(parsed) => {
            let checked = running.deployments.check_document(&parsed.document).await;
            parsed.locate(checked?)
        }
    };
    Ok(Json(Checked {
        sound: !problems.has_errors(),
        problems,
    }))
}

pub(super) async fn show_schema() -> Tagged<Value> {
    Tagged(schema())
}

/// The document, in the type that is asked for. Its ETag names it in If-Match.
pub(super) async fn show(
    Node(running): Node,
    path: FlowPath,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let record = running.deployments.flow_document(&flow_of(path)?).await?;
    Ok(shown(&record, &headers))
}

fn shown(record: &FlowRecord, headers: &HeaderMap) -> Response {
    let accepted = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let wants_toml = accepted.is_some_and(|accept| accept.contains(TOML));
    let etag = (header::ETAG, format!("\"{}\"", tag_of(&record.document)));
    let kind = |kind: &'static str| (header::CONTENT_TYPE, kind.to_owned());
    match wants_toml {
        true => ([etag, kind(TOML)], record.document.to_toml()).into_response(),
        false => ([etag], Json(&record.document)).into_response(),
    }
}

/// How a document is applied.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyQuery {
    /// Whether the steps are only shown.
    #[serde(default)]
    plan: bool,
}

/// What was done, or would be.
#[derive(Serialize, JsonSchema)]
pub(super) struct Applied {
    flow: String,
    /// The number of the version; of a plan, that of what runs, and 0 if nothing does.
    version: u64,
    /// Whether anything is other than before.
    changed: bool,
    /// The ETag of the document that is there now; none if none was applied yet.
    etag: Option<String>,
    /// The steps, in order.
    steps: Vec<StepShown>,
    /// What somebody should look at.
    warnings: Problems,
}

/// A step.
#[derive(Serialize, JsonSchema)]
pub(super) struct StepShown {
    #[serde(flatten)]
    step: Step,
    /// What it does, for people.
    sentence: String,
}

impl Applied {
    pub(super) fn of(
        flow: String,
        applied: AppliedFlow,
        etag: Option<String>,
        parsed: &Parsed,
    ) -> Self {
        let shown = |step: Step| StepShown {
            sentence: step.to_string(),
            step,
        };
        Self {
            flow,
            version: applied.version,
            changed: applied.changed,
            etag,
            steps: applied.steps.into_iter().map(shown).collect(),
            warnings: parsed.locate(applied.warnings),
        }
    }
}

pub(super) async fn apply(
    Node(running): Node,
    path: FlowPath,
    query: Result<Query<ApplyQuery>, QueryRejection>,
    headers: HeaderMap,
    Sent(sent): Sent,
) -> Result<Json<Applied>, Problem> {
    let flow = flow_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let parsed = sent.map_err(ApplyError::Document)?;
    let said = parsed.document.flow.clone();
    if said != flow {
        return Err(ApplyError::OtherFlow { flow, said }.into());
    }
    let (deployments, expected) = (&running.deployments, expected(&headers));
    let applied = match query.plan {
        true => deployments.plan_flow(&parsed.document, &expected).await,
        false => {
            deployments
                .apply_flow(parsed.document.clone(), expected)
                .await
        }
    };
    let applied = applied.map_err(|error| located(error, &parsed))?;
    if !query.plan {
        // Whoever has applied a document may ask at its routes at once.
        running.services.refresh().await;
    }
    let there = match query.plan {
        true => deployments
            .flow_document(&flow)
            .await
            .ok()
            .map(|record| record.document),
        false => Some(parsed.document.clone()),
    };
    let etag = there.map(|document| format!("\"{}\"", tag_of(&document)));
    Ok(Json(Applied::of(flow, applied, etag, &parsed)))
}

/// Says where in the text the problems are.
fn located(error: ApplyError, parsed: &Parsed) -> ApplyError {
    match error {
        ApplyError::Document(problems) => ApplyError::Document(parsed.locate(problems)),
        other => other,
    }
}

/// The versions of a flow that are kept.
#[derive(Serialize, JsonSchema)]
pub(super) struct FlowVersions {
    /// The newest first.
    versions: Vec<FlowVersion>,
}

pub(super) async fn versions(
    Node(running): Node,
    path: FlowPath,
) -> Result<Tagged<FlowVersions>, Problem> {
    let versions = running.deployments.flow_versions(&flow_of(path)?).await?;
    Ok(Tagged(FlowVersions { versions }))
}

pub(super) async fn show_version(
    Node(running): Node,
    path: Result<Path<(String, u64)>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let Path((flow, version)) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let record = running.deployments.flow_version(&flow, version).await?;
    Ok(shown(&record, &headers))
}

impl From<ApplyError> for Problem {
    fn from(error: ApplyError) -> Self {
        let detail = error.to_string();
        match error {
            ApplyError::Document(problems) => Self::not_sound(problems),
            ApplyError::OtherFlow { .. } => Self::bad_request(detail),
            ApplyError::Unknown { .. } => Self::not_found(detail),
            ApplyError::NotExpected { .. } => Self::changed(detail),
            ApplyError::Changed { .. } => Self::conflict(detail),
            ApplyError::Unfit { error, .. } => Self::not_deployed(error.check(), detail),
            ApplyError::Step { .. } => Self::not_deployed("step", detail),
            ApplyError::Store(StoreError::Bus(error)) => error.into(),
            ApplyError::Store(_) => Self::not_ready(detail),
            ApplyError::Broken(_) => Self::internal(detail),
        }
    }
}
