//! `/api/v1/alerts`

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use control::alerts::Labels;
use serde::Deserialize;
use serde_json::{Value, json};

use super::app::{App, Node};
use super::body;
use super::problem::Problem;
use crate::alerts::{AlertService, SilenceRequest};

const SILENCE_SECONDS_MAX: u64 = 366 * 24 * 3_600;

pub(super) async fn list(Node(running): Node) -> Json<Value> {
    let service = &running.alerts;
    let (alerts, left_out) = service.list();
    Json(json!({
        "node": service.node(),
        "alerts": alerts,
        "left_out": left_out,
        "receivers": service.receivers(),
    }))
}

pub(super) async fn rules(Node(running): Node) -> Json<Value> {
    Json(json!({ "rules": running.alerts.rules() }))
}

pub(super) async fn silences(Node(running): Node) -> Result<Json<Value>, Problem> {
    let silences = running.alerts.silences().await?;
    Ok(Json(json!({ "silences": silences })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SilenceOrder {
    rule: Option<String>,
    #[serde(default)]
    labels: Labels,
    for_seconds: u64,
    #[serde(default)]
    why: String,
}

pub(super) async fn silence(
    State(app): State<Arc<App>>,
    Node(running): Node,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let bytes = body::read(&app, &headers, body, body::ORDER_BYTES_MAX).await?;
    let order: SilenceOrder = body::parse(&bytes)?;
    if !(1..=SILENCE_SECONDS_MAX).contains(&order.for_seconds) {
        return Err(Problem::bad_request(format!(
            "for_seconds is between 1 and {SILENCE_SECONDS_MAX}"
        )));
    }
    if let Some(rule) = &order.rule {
        check_rule(&running.alerts, rule)?;
    }
    let request = SilenceRequest {
        rule: order.rule,
        labels: order.labels,
        lasts: Duration::from_secs(order.for_seconds),
        why: order.why,
    };
    let silence = running.alerts.silence(&request).await?;
    let silence = silence.map_err(|error| Problem::bad_request(error.to_string()))?;
    Ok(Json(json!(silence)))
}

/// A name that is not a rule's is a slip; one that ends in `*` may be meant for later.
fn check_rule(service: &AlertService, name: &str) -> Result<(), Problem> {
    let rules = service.rules();
    let mut names = rules.iter().map(|rule| rule.name());
    if name.ends_with('*') || names.any(|known| known == name) {
        return Ok(());
    }
    let known: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
    Err(Problem::not_found(format!(
        "there is no alert rule {name:?} on this node; there are: {}",
        known.join(", ")
    )))
}

pub(super) async fn unsilence(
    Node(running): Node,
    path: Result<Path<u64>, PathRejection>,
) -> Result<Json<Value>, Problem> {
    let Path(id) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    match running.alerts.unsilence(id).await? {
        Some(silence) => Ok(Json(json!(silence))),
        None => Err(Problem::not_found(format!(
            "there is no silence {id}: see GET /api/v1/alerts/silences"
        ))),
    }
}

pub(super) async fn test(Node(running): Node) -> Result<Json<Value>, Problem> {
    let tested = running.alerts.test().await;
    if tested.is_empty() {
        return Err(Problem::conflict(
            "nobody is told: add `[[alerts.webhooks]]` or `[[alerts.emails]]` to the configuration",
        ));
    }
    Ok(Json(json!({ "receivers": tested })))
}
