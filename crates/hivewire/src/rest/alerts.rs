//! `/api/v1/alerts`

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use control::alerts::{Alert, AlertState, Labels, Severity, Silence};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::Node;
use super::body::Order;
use super::etag::Tagged;
use super::paging::{LIMIT_MAX, limit_of, next_of};
use super::problem::Problem;
use super::views::bad_query;
use crate::alerts::{
    AlertService, AlertShown, AlertsSeen, NodeReceiver, RuleShown, SilenceRequest, Tested, together,
};
use crate::desk::{Answered, Request};

const SILENCE_SECONDS_MAX: u64 = 366 * 24 * 3_600;

/// Which alerts somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AlertsQuery {
    /// Those of all nodes, not only of the one that answers.
    #[serde(default)]
    all: bool,
    /// Those of this rule.
    rule: Option<String>,
    /// Those that are so.
    state: Option<AlertState>,
    /// Those that are so bad.
    severity: Option<Severity>,
    /// The `next` of the page before.
    after: Option<usize>,
    /// How many at most: 1,000 unless it says otherwise, and never more than 10,000.
    #[schemars(range(max = LIMIT_MAX))]
    limit: Option<usize>,
}

impl AlertsQuery {
    fn wants(&self, alert: &Alert) -> bool {
        self.rule.as_ref().is_none_or(|rule| *rule == alert.rule)
            && self.state.is_none_or(|state| state == alert.state)
            && self
                .severity
                .is_none_or(|severity| severity == alert.severity)
    }
}

/// What is wrong, as this node sees it, or all of them.
#[derive(Serialize, JsonSchema)]
pub(super) struct AlertPage {
    /// The node that answers.
    node: String,
    alerts: Vec<AlertShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
    /// How many more are wrong than are kept.
    left_out: usize,
    receivers: Vec<NodeReceiver>,
    /// Nodes that were asked and did not answer, and why.
    missing: BTreeMap<String, String>,
}

/// The rules of this node.
#[derive(Serialize, JsonSchema)]
pub(super) struct Rules {
    rules: Vec<RuleShown>,
}

/// The silences that hold.
#[derive(Serialize, JsonSchema)]
pub(super) struct SilenceList {
    silences: Vec<Silence>,
}

/// What came of a test.
#[derive(Serialize, JsonSchema)]
pub(super) struct TestResult {
    receivers: Vec<Tested>,
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<AlertsQuery>, QueryRejection>,
) -> Result<Tagged<AlertPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = limit_of(query.limit)?;
    let name = running.alerts.node().to_owned();
    let Answered { answers, missing } = match query.all {
        true => {
            let nodes = running.desk.nodes();
            running.desk.ask_each(nodes, &Request::Alerts).await?
        }
        false => Answered {
            answers: vec![(name.clone(), running.alerts.seen())],
            missing: BTreeMap::new(),
        },
    };
    let alerts = together(&answers).into_iter();
    let wanted = alerts.filter(|shown| query.wants(&shown.alert));
    // There are few hundreds at most, so their place in the list will do.
    let rest = wanted.enumerate().skip(query.after.unwrap_or_default());
    let (alerts, next) = next_of(rest.collect(), limit, |(index, _)| (index + 1).to_string());
    Ok(Tagged(AlertPage {
        node: name,
        alerts: alerts.into_iter().map(|(_, alert)| alert).collect(),
        next,
        left_out: answers.iter().map(|(_, seen)| seen.left_out).sum(),
        receivers: receivers(answers),
        missing,
    }))
}

fn receivers(answers: Vec<(String, AlertsSeen)>) -> Vec<NodeReceiver> {
    let each = answers.into_iter().flat_map(|(node, seen)| {
        let receivers = seen.receivers.into_iter();
        receivers.map(move |receiver| NodeReceiver {
            node: node.clone(),
            receiver,
        })
    });
    each.collect()
}

pub(super) async fn rules(Node(running): Node) -> Tagged<Rules> {
    let rules = running.alerts.rules();
    Tagged(Rules { rules })
}

pub(super) async fn silences(Node(running): Node) -> Result<Tagged<SilenceList>, Problem> {
    let silences = running.alerts.silences().await?;
    Ok(Tagged(SilenceList { silences }))
}

/// Of which alerts nobody is to be told, and for how long.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SilenceOrder {
    /// The rule; a `*` at its end stands for any rest.
    rule: Option<String>,
    /// Labels that an alert must have; a `*` at the end of a value stands for any rest.
    #[serde(default)]
    labels: Labels,
    #[schemars(range(min = 1, max = SILENCE_SECONDS_MAX))]
    for_seconds: u64,
    /// Why, for people.
    #[serde(default)]
    why: String,
}

pub(super) async fn silence(
    Node(running): Node,
    Order(order): Order<SilenceOrder>,
) -> Result<Json<Silence>, Problem> {
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
    Ok(Json(silence))
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
) -> Result<Json<Silence>, Problem> {
    let Path(id) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    match running.alerts.unsilence(id).await? {
        Some(silence) => Ok(Json(silence)),
        None => Err(Problem::not_found(format!(
            "there is no silence {id}: see GET /api/v1/alerts/silences"
        ))),
    }
}

pub(super) async fn test(Node(running): Node) -> Result<Json<TestResult>, Problem> {
    let receivers = running.alerts.test().await;
    if receivers.is_empty() {
        return Err(Problem::conflict(
            "nobody is told: add `[[alerts.webhooks]]` or `[[alerts.emails]]` to the configuration",
        ));
    }
    Ok(Json(TestResult { receivers }))
}
