//! Rules of one's own: expressions over metrics, in CEL, the Common Expression Language.
//!
//! A metric stands there by its name in `/metrics` and is a number. If it has labels, the expression is
//! looked at once for each set of labels that its metrics have, with the map `labels` at hand; where it
//! is true, there is an alert with these labels.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::sync::Arc;

use cel::{Context, Env, Program, Value};
use control::alerts::{Labels, Match};

use super::samples::Samples;

const EXPRESSION_BYTES_MAX: usize = 1_024;
/// For so many sets of labels an expression is looked at.
const LABEL_SETS_MAX: usize = 1_000;
/// How all metrics begin.
const METRICS: &str = "hivewire_";
const LABELS: &str = "labels";

/// An expression that was understood.
pub(super) struct Expression {
    env: Arc<Env>,
    program: Program,
    /// The metrics in it, by name.
    metrics: Vec<String>,
}

impl Expression {
    /// Understands an expression; if it cannot, gives what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(format!(
                "has an expression of more than {EXPRESSION_BYTES_MAX} bytes"
            ));
        }
        let env = Arc::new(Env::stdlib());
        let program = env
            .compile(text)
            .map_err(|error| format!("has an expression that cannot be understood: {error}"))?;
        let references = program.references();
        let metrics: BTreeSet<&str> = references
            .variables()
            .into_iter()
            .filter(|name| name.starts_with(METRICS))
            .collect();
        if metrics.is_empty() {
            return Err(format!(
                "has an expression without a metric: name one as it stands in /metrics, such as {METRICS}queue_messages"
            ));
        }
        let metrics = metrics.into_iter().map(str::to_owned).collect();
        drop(references);
        Ok(Self {
            env,
            program,
            metrics,
        })
    }

    /// The metrics in it.
    pub fn metrics(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(String::as_str)
    }

    /// Where it is true. If that cannot be told, why.
    pub fn matches(&self, samples: &Samples) -> Result<Vec<Match>, String> {
        if let Some(unknown) = self.metrics().find(|name| !samples.knows(name)) {
            return Err(format!("there is no metric {unknown} on this node"));
        }
        let mut matches = Vec::new();
        for labels in self.label_sets(samples) {
            let Some(values) = self.values(samples, labels) else {
                continue;
            };
            if self.is_true(labels, &values)? {
                matches.push(Match {
                    labels: labels.clone(),
                    value: values.first().map_or(0.0, |(_, value)| *value),
                    detail: detail(&values),
                });
            }
        }
        Ok(matches)
    }

    /// The sets of labels that its metrics have; if none has any, the empty one.
    fn label_sets<'a>(&self, samples: &'a Samples) -> BTreeSet<&'a Labels> {
        let all: BTreeSet<&Labels> = self
            .metrics()
            .flat_map(|name| samples.of(name))
            .map(|sample| &sample.labels)
            .collect();
        let has_labels = all.iter().any(|labels| !labels.is_empty());
        all.into_iter()
            .filter(|labels| !has_labels || !labels.is_empty())
            .take(LABEL_SETS_MAX)
            .collect()
    }

    /// Its metrics with these labels, or without any; nothing if one of them is not there.
    fn values(&self, samples: &Samples, labels: &Labels) -> Option<Vec<(&str, f64)>> {
        let value = |name| {
            let fits = |of: &Labels| of == labels || of.is_empty();
            let found = samples.of(name).iter().find(|one| fits(&one.labels))?;
            Some((name, found.value))
        };
        self.metrics().map(value).collect()
    }

    fn is_true(&self, labels: &Labels, values: &[(&str, f64)]) -> Result<bool, String> {
        let mut context = Context::with_env(self.env.clone());
        for (name, value) in values {
            context.add_variable_from_value(*name, Value::Float(*value));
        }
        let labels: HashMap<String, String> = labels.clone().into_iter().collect();
        context.add_variable_from_value(LABELS, labels);
        match self.program.execute(&context) {
            Ok(Value::Bool(is_true)) => Ok(is_true),
            Ok(_) => Err("the expression is neither true nor false".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn detail(values: &[(&str, f64)]) -> String {
    let mut text = String::new();
    for (name, value) in values {
        let separator = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{separator}{name} = {value}");
    }
    text
}

/// Reads the metrics that these expressions need off the text of all.
pub(super) fn samples<'a>(
    text: &str,
    expressions: impl Iterator<Item = &'a Expression>,
) -> Samples {
    let wanted: HashSet<&str> = expressions.flat_map(Expression::metrics).collect();
    Samples::parse(text, &wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS_TEXT: &str = "# TYPE hivewire_queue_messages gauge\n\
        hivewire_queue_messages{queue=\"orders.a\"} 12\n\
        hivewire_queue_messages{queue=\"orders.b\"} 3\n\
        hivewire_queue_messages{queue=\"other\"} 50\n\
        # TYPE hivewire_queue_consumers gauge\n\
        hivewire_queue_consumers{queue=\"orders.a\"} 0\n\
        hivewire_queue_consumers{queue=\"other\"} 2\n\
        # TYPE hivewire_queues gauge\n\
        hivewire_queues 3\n\
        # TYPE hivewire_journal_syncs counter\n\
        hivewire_journal_syncs_total 9\n\
        # TYPE hivewire_stage_turns counter\n";

    fn matches(text: &str) -> Result<Vec<Match>, String> {
        let expression = Expression::parse(text)?;
        let samples = samples(METRICS_TEXT, [&expression].into_iter());
        expression.matches(&samples)
    }

    fn queues(text: &str) -> Vec<String> {
        let matches = matches(text).unwrap();
        let labels = matches.into_iter().map(|one| one.labels);
        labels
            .map(|labels| labels.get("queue").cloned().unwrap_or_default())
            .collect()
    }

    #[test]
    fn metrics_without_labels_are_numbers() {
        assert_eq!(queues("hivewire_queues > 2"), [""]);
        assert_eq!(
            queues("hivewire_queues >= 3.0 && hivewire_queues < 4"),
            [""]
        );
        assert!(queues("hivewire_queues > 3").is_empty());
        let found = matches("hivewire_journal_syncs_total == 9.0").unwrap();
        assert_eq!(found[0].value, 9.0);
        assert_eq!(found[0].detail, "hivewire_journal_syncs_total = 9");
    }

    #[test]
    fn metrics_with_labels_are_looked_at_one_by_one() {
        assert_eq!(
            queues("hivewire_queue_messages > 10"),
            ["orders.a", "other"]
        );
        let orders = "hivewire_queue_messages > 1 && labels.queue.startsWith('orders.')";
        assert_eq!(queues(orders), ["orders.a", "orders.b"]);
        let forgotten = "hivewire_queue_messages > 0 && hivewire_queue_consumers == 0.0";
        assert_eq!(queues(forgotten), ["orders.a"]);
        let mixed = "hivewire_queue_messages > hivewire_queues * 4.0";
        assert_eq!(queues(mixed), ["other"]);
        assert!(queues("hivewire_stage_turns_total > 0").is_empty());
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("hivewire_queues >", "cannot be understood"),
            ("1 > 2", "without a metric"),
            ("hivewire_nothing > 1", "no metric hivewire_nothing"),
            ("hivewire_queues + 1.0", "neither true nor false"),
            ("hivewire_queues > 1 && labels.queue == 'a'", "queue"),
        ] {
            let error = matches(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(Expression::parse(&" ".repeat(2_000)).is_err());
    }
}
