//! A notice as it goes out: as JSON for programs, as text for people.

use std::fmt::Write;

use control::alerts::{Alert, Notice};
use serde_json::json;

/// What goes out to every receiver.
#[derive(Clone, Debug)]
pub(super) struct Letter {
    /// The same for every try and every receiver, and for no other notice.
    pub key: String,
    pub subject: String,
    pub text: String,
    /// JSON.
    pub body: String,
}

impl Letter {
    /// A notice of this node.
    pub fn of(notice: &Notice, node: &str, key: String) -> Self {
        let subject = subject(notice, node);
        let body = json!({
            "id": key,
            "kind": "alert",
            "summary": subject,
            "node": node,
            "at_ms": notice.at.as_millis(),
            "rule": notice.rule,
            "severity": notice.severity,
            "repeat": notice.is_repeat,
            "firing": notice.firing,
            "recovered": notice.recovered,
            "left_out": notice.left_out,
        });
        Self {
            key,
            text: text(notice, node),
            subject,
            body: body.to_string(),
        }
    }

    /// A letter that only says that it came.
    pub fn test(node: &str, key: String, at_ms: u64) -> Self {
        let subject = format!("[hivewire] test from {node}");
        let body = json!({
            "id": key,
            "kind": "test",
            "summary": subject,
            "node": node,
            "at_ms": at_ms,
        });
        Self {
            key,
            text: format!("{node} was asked to send this. Nothing is wrong.\n"),
            subject,
            body: body.to_string(),
        }
    }
}

fn subject(notice: &Notice, node: &str) -> String {
    let (rule, firing) = (&notice.rule, notice.firing.len());
    if firing == 0 {
        let recovered = notice.recovered.len();
        return format!("[hivewire] recovered: {rule} on {node} ({recovered})");
    }
    let severity = notice.severity.as_str();
    let still = if notice.is_repeat { "still " } else { "" };
    format!("[hivewire] {still}{severity}: {rule} on {node} ({firing})")
}

fn text(notice: &Notice, node: &str) -> String {
    let mut text = String::new();
    let mut list = |title: &str, alerts: &[Alert]| {
        if !alerts.is_empty() {
            let _ = writeln!(text, "{title}:");
        }
        for alert in alerts {
            let _ = writeln!(text, "- {}{}", alert.detail, labels(alert));
        }
    };
    list("Wrong", &notice.firing);
    list("Recovered", &notice.recovered);
    if notice.left_out > 0 {
        let _ = writeln!(text, "and {} more", notice.left_out);
    }
    let severity = notice.severity.as_str();
    let _ = writeln!(text, "\nRule {} ({severity}), told by {node}.", notice.rule);
    let _ = writeln!(
        text,
        "To keep it quiet for a while: hivewire alerts silence {} --for 2h",
        notice.rule
    );
    text
}

fn labels(alert: &Alert) -> String {
    let labels = alert.labels.iter();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    match labels.is_empty() {
        true => String::new(),
        false => format!(" ({})", labels.join(", ")),
    }
}
