//! `/api/v1/examples`

use std::collections::BTreeMap;
use std::sync::Arc;

use ::flows::document::{Document, Parsed};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::app::{App, Node};
use super::body::MaybeOrder;
use super::documents::Applied;
use super::etag::Tagged;
use super::problem::Problem;
use crate::deploy::{ApplyError, Expected, FILES_FOLDER, tag_of};
use crate::examples::{EXAMPLES, Example, Need};

/// Flows to begin with.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExampleList {
    examples: Vec<ExampleShown>,
}

/// A flow to begin with.
#[derive(Serialize, JsonSchema)]
pub(super) struct ExampleShown {
    id: &'static str,
    title: &'static str,
    /// What it does.
    description: String,
    /// The document.
    document: Document,
    /// Parameters that are most likely to be other ones.
    needs: Vec<NeedShown>,
}

/// A parameter of an example.
#[derive(Serialize, JsonSchema)]
pub(super) struct NeedShown {
    stage: &'static str,
    parameter: &'static str,
    /// What to ask for.
    label: &'static str,
    /// What it is if nothing else is said.
    default: Value,
}

impl From<Need> for NeedShown {
    fn from(need: Need) -> Self {
        Self {
            stage: need.stage,
            parameter: need.parameter,
            label: need.label,
            default: need.default,
        }
    }
}

/// How an example is run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ExampleOrder {
    /// What its flow is called; as the example, unless it says otherwise.
    flow: Option<String>,
    /// Parameters by stage, in place of those of the example.
    parameters: BTreeMap<String, Map<String, Value>>,
}

pub(super) async fn list() -> Result<Tagged<ExampleList>, Problem> {
    let shown = |example: &Example| {
        let document = example.document().map_err(ApplyError::Document)?;
        Ok(ExampleShown {
            id: example.id,
            title: example.title,
            description: document.description.clone(),
            needs: example.needs().into_iter().map(NeedShown::from).collect(),
            document,
        })
    };
    let examples: Result<_, ApplyError> = EXAMPLES.iter().map(shown).collect();
    Ok(Tagged(ExampleList {
        examples: examples?,
    }))
}

pub(super) async fn run(
    State(app): State<Arc<App>>,
    Node(running): Node,
    path: Result<Path<String>, PathRejection>,
    MaybeOrder(order): MaybeOrder<ExampleOrder>,
) -> Result<Json<Applied>, Problem> {
    let Path(id) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let example = Example::find(&id).ok_or_else(|| {
        let known: Vec<&str> = EXAMPLES.iter().map(|example| example.id).collect();
        Problem::not_found(format!(
            "there is no example {id:?}; there are: {}",
            known.join(", ")
        ))
    })?;
    let parsed = changed(example, order)?;
    let folder = app.data.join(FILES_FOLDER);
    let put = tokio::task::spawn_blocking(move || example.put_files(&folder)).await;
    put.map_err(|error| Problem::internal(error.to_string()))?
        .map_err(|error| Problem::internal(format!("its files cannot be written: {error}")))?;
    let flow = parsed.document.flow.clone();
    let applied = running
        .deployments
        .apply_flow(parsed.document.clone(), Expected::Anything)
        .await?;
    let etag = Some(format!("\"{}\"", tag_of(&parsed.document)));
    Ok(Json(Applied::of(flow, applied, etag, &parsed)))
}

/// The document of an example with another name and other parameters.
fn changed(example: &Example, order: ExampleOrder) -> Result<Parsed, Problem> {
    let mut document = example.document().map_err(ApplyError::Document)?;
    if let Some(flow) = order.flow {
        document.flow = flow;
    }
    for (name, parameters) in order.parameters {
        let stage = document.stages.get_mut(&name).ok_or_else(|| {
            Problem::bad_request(format!("the example {} has no stage {name:?}", example.id))
        })?;
        if stage.parameters.is_null() {
            stage.parameters = Value::Object(Map::new());
        }
        if let Some(known) = stage.parameters.as_object_mut() {
            known.extend(parameters);
        }
    }
    // What was changed is read again, as if somebody had sent it.
    let text = serde_json::to_vec(&document);
    let text = text.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Document::parse_json(&text).map_err(ApplyError::Document)?)
}
