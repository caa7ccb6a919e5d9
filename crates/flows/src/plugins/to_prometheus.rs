//! `to-prometheus`: events become metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use kernel::StageAddress;
use kernel::worker::{Failure, Incoming, Turn, Worker};
use schemars::JsonSchema;
use serde::Deserialize;

use super::built_in::Plugin;
use super::environment::{Metric, MetricKind, MetricSpec, Metrics};
use super::worker::variables;
use super::{Environment, Formula, Outputs, ParameterError};
use crate::event::Event;

/// Parameters of `to-prometheus`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// The name of the metric, such as `shop_orders`. That of a counter is shown with `_total` behind it.
    metric: String,
    /// What it is, for people.
    help: String,
    /// A counter adds the value, a gauge shows the last one, a histogram counts values by size.
    kind: Kind,
    /// The value, a number; without it, 1.
    value: Option<Formula>,
    /// Labels with their values.
    #[serde(default)]
    labels: BTreeMap<String, Formula>,
    /// The bounds of a histogram, rising.
    #[serde(default = "bounds")]
    bounds: Vec<f64>,
    /// How many sets of labels there may be. What has another set is counted with `other` as the value of all labels.
    #[serde(default = "series_max")]
    series_max: usize,
}

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A sum that only grows.
    Counter,
    /// The last value.
    Gauge,
    /// How many values there were below each bound.
    Histogram,
}

fn bounds() -> Vec<f64> {
    vec![0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0]
}

fn series_max() -> usize {
    1_000
}

pub(super) struct ToPrometheus {
    kind: Kind,
    value: Option<Formula>,
    labels: Vec<Formula>,
    spec: MetricSpec,
    stage: StageAddress,
    metrics: Arc<dyn Metrics>,
    metric: Arc<dyn Metric>,
}

const LABELS_MAX: usize = 20;
const BOUNDS_MAX: usize = 50;
const SERIES_MAX: usize = 10_000;
const LABEL_CHARS_MAX: usize = 200;

impl Plugin for ToPrometheus {
    const ID: &'static str = "to-prometheus";
    const DESCRIPTION: &'static str = "Makes a metric of events, which Prometheus finds beside those of the node.\n\n\
        Stages that record the same metric share it; they have to agree on its kind, its help, its labels and its bounds. \
        An event whose turn is undone is counted again. Metrics begin anew when the node does, and go with the last \
        stage that records them.";
    const OUTPUTS: Outputs = Outputs::None;
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        (
            "Sales by shop",
            r#"{"metric": "shop_sales", "help": "What was sold, in euros.", "kind": "counter", "value": "event.price", "labels": {"shop": "event.shop"}}"#,
        ),
        (
            "Prices by size",
            r#"{"metric": "shop_prices", "help": "Prices in euros.", "kind": "histogram", "value": "event.price", "bounds": [1, 10, 100]}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, environment: &Environment) -> Result<Self, ParameterError> {
        check(&parameters)?;
        let (Some(metrics), Some(stage)) = (environment.metrics.clone(), environment.stage.clone())
        else {
            return Err(ParameterError::general(
                "this node offers no metrics to plug-ins",
            ));
        };
        let kind = parameters.kind;
        let spec = MetricSpec {
            name: parameters.metric,
            help: parameters.help,
            kind: match kind {
                Kind::Counter => MetricKind::Counter,
                Kind::Gauge => MetricKind::Gauge,
                Kind::Histogram => MetricKind::Histogram(parameters.bounds),
            },
            labels: parameters.labels.keys().cloned().collect(),
            series_max: parameters.series_max,
        };
        let metric = metrics.declare(&stage, &spec);
        let metric = metric.map_err(|reason| ParameterError::new("metric", reason))?;
        Ok(Self {
            kind,
            value: parameters.value,
            labels: parameters.labels.into_values().collect(),
            spec,
            stage,
            metrics,
            metric,
        })
    }

    fn check(parameters: Parameters) -> Result<(), ParameterError> {
        check(&parameters)
    }
}

fn check(parameters: &Parameters) -> Result<(), ParameterError> {
    check_name("metric", &parameters.metric)?;
    parameters
        .labels
        .keys()
        .try_for_each(|name| check_name("labels", name))?;
    if parameters.kind == Kind::Histogram && parameters.labels.contains_key("le") {
        let reason = "a histogram has a label le of its own: give this one another name";
        return Err(ParameterError::new("labels", reason));
    }
    let bounds = &parameters.bounds;
    let rise = bounds.windows(2).all(|pair| pair[0] < pair[1])
        && bounds.iter().all(|bound| bound.is_finite());
    if !rise || bounds.is_empty() || bounds.len() > BOUNDS_MAX {
        return Err(ParameterError::new(
            "bounds",
            format!("write 1 to {BOUNDS_MAX} numbers that rise"),
        ));
    }
    if parameters.labels.len() > LABELS_MAX {
        return Err(ParameterError::new(
            "labels",
            format!("name at most {LABELS_MAX}"),
        ));
    }
    match (1..=SERIES_MAX).contains(&parameters.series_max) {
        true => Ok(()),
        false => Err(ParameterError::new(
            "series_max",
            format!("write 1 to {SERIES_MAX}"),
        )),
    }
}

fn check_name(field: &str, name: &str) -> Result<(), ParameterError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_plain = name.bytes().all(fits)
        && name
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic());
    match is_plain && name != "hivewire" && !name.starts_with("hivewire_") {
        true => Ok(()),
        false => {
            let wanted = format!(
                "{name:?} is no name: write letters, digits and _, a letter first, and not hivewire_"
            );
            Err(ParameterError::new(field, wanted))
        }
    }
}

#[async_trait]
impl Worker for ToPrometheus {
    async fn receive(&mut self, message: &Incoming, _: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let variables = variables(&event, message);
        let value = match &self.value {
            Some(value) => value.number(&variables)?,
            None => 1.0,
        };
        if !value.is_finite() {
            return Err(Failure::new(format!(
                "the value is {value}, which no metric can show"
            )));
        }
        if self.kind == Kind::Counter && value < 0.0 {
            return Err(Failure::new(format!(
                "a counter only grows, but the value is {value}; use a gauge"
            )));
        }
        let mut labels = Vec::with_capacity(self.labels.len());
        for label in &self.labels {
            let text = label.evaluate(&variables)?;
            labels.push(text.key_text().chars().take(LABEL_CHARS_MAX).collect());
        }
        self.shown()?.record(&labels, value);
        Ok(())
    }
}

impl ToPrometheus {
    /// The metric, declared again if it is no longer shown.
    fn shown(&mut self) -> Result<&dyn Metric, Failure> {
        if !self.metric.is_shown() {
            let metric = self.metrics.declare(&self.stage, &self.spec);
            let refused = |reason| Failure::new(format!("the metric {}: {reason}", self.spec.name));
            self.metric = metric.map_err(refused)?;
        }
        Ok(&*self.metric)
    }
}
