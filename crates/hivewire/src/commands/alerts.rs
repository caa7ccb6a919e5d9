//! `hivewire alerts`

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Global;
use super::output::{json_line, line, printable, table};
use super::time::{duration, utc};
use crate::client::Client;
use crate::cluster::label_of;
use crate::exit::Exit;

const TEXT_CHARACTERS_MAX: usize = 100;

#[derive(Debug, Args)]
pub(super) struct Alerts {
    /// Those of all nodes, not only of the one that is asked
    #[arg(long)]
    all: bool,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// For a time, tell nobody of the alerts of a rule
    Silence {
        /// The rule; a `*` at its end stands for any rest
        rule: String,
        /// How long, such as 90s, 30m, 2h or 7d
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        lasts: Duration,
        /// Only alerts with this label; can be repeated
        #[arg(long = "label", value_name = "KEY=VALUE")]
        labels: Vec<String>,
        /// Why, for others who wonder
        #[arg(long, value_name = "TEXT", default_value = "")]
        why: String,
    },
    /// End a silence
    Unsilence {
        /// Its number, as `hivewire alerts` shows it
        id: u64,
    },
    /// Send a test to everybody who is told
    Test,
}

impl Alerts {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        match &self.action {
            None => list(global, &client, self.all),
            Some(Action::Silence {
                rule,
                lasts,
                labels,
                why,
            }) => silence(global, &client, &silence_order(rule, *lasts, labels, why)?),
            Some(Action::Unsilence { id }) => unsilence(global, &client, *id),
            Some(Action::Test) => test(global, &client),
        }
    }
}

fn list(global: &Global, client: &Client, all: bool) -> anyhow::Result<Exit> {
    let mut answer = client.get_all(&format!("/api/v1/alerts?all={all}"), "alerts")?;
    let silences = client.get("/api/v1/alerts/silences")?;
    answer["silences"] = silences["silences"].clone();
    if global.json {
        json_line(&answer)?;
        return Ok(Exit::Done);
    }
    print("alerts", &answer, ALERT_TITLES, alert_row)?;
    if answer["alerts"].as_array().is_some_and(Vec::is_empty) {
        line("nothing is wrong")?;
    }
    if let Some(left_out) = answer["left_out"].as_u64().filter(|n| *n > 0) {
        line(&format!("and {left_out} more"))?;
    }
    for (node, why) in answer["missing"].as_object().into_iter().flatten() {
        let why = printable(why.as_str().unwrap_or_default(), TEXT_CHARACTERS_MAX);
        line(&format!("{node} does not say what it sees: {why}"))?;
    }
    print("silences", &answer, SILENCE_TITLES, silence_row)?;
    print("receivers", &answer, RECEIVER_TITLES, receiver_row)?;
    Ok(Exit::Done)
}

/// Prints a list of the answer as a table, if there is anything in it.
fn print(
    key: &str,
    answer: &Value,
    titles: &[&str],
    row: fn(&Value) -> Vec<String>,
) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> = answer[key]
        .as_array()
        .into_iter()
        .flatten()
        .map(row)
        .collect();
    match rows.is_empty() {
        true => Ok(()),
        false => line(&format!("{}\n", table(titles, &[], &rows).trim_end())),
    }
}

const ALERT_TITLES: &[&str] = &["rule", "severity", "state", "since", "seen by", "what"];
const SILENCE_TITLES: &[&str] = &["silence", "rule", "labels", "until", "why"];
const RECEIVER_TITLES: &[&str] = &["node", "receiver", "sent", "failed", "last failure"];

fn text(value: &Value, key: &str) -> String {
    printable(value[key].as_str().unwrap_or("-"), TEXT_CHARACTERS_MAX)
}

fn time(value: &Value, key: &str) -> String {
    value[key].as_u64().map_or_else(|| "-".to_owned(), utc)
}

fn nodes(alert: &Value) -> String {
    let nodes = alert["nodes"].as_array().into_iter().flatten();
    let names: Vec<&str> = nodes.filter_map(Value::as_str).collect();
    printable(&names.join(", "), TEXT_CHARACTERS_MAX)
}

fn alert_row(alert: &Value) -> Vec<String> {
    vec![
        text(alert, "rule"),
        text(alert, "severity"),
        text(alert, "state"),
        time(alert, "since_ms"),
        nodes(alert),
        text(alert, "detail"),
    ]
}

fn silence_row(silence: &Value) -> Vec<String> {
    let labels = silence["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    vec![
        silence["id"].to_string(),
        text(silence, "rule"),
        printable(&labels.join(", "), TEXT_CHARACTERS_MAX),
        time(silence, "until_ms"),
        text(silence, "why"),
    ]
}

fn receiver_row(receiver: &Value) -> Vec<String> {
    vec![
        text(receiver, "node"),
        text(receiver, "receiver"),
        receiver["sent"].to_string(),
        receiver["failed"].to_string(),
        text(receiver, "last_failure"),
    ]
}

fn silence_order(
    rule: &str,
    lasts: Duration,
    labels: &[String],
    why: &str,
) -> anyhow::Result<Value> {
    let mut all = Map::new();
    for label in labels {
        let (key, value) = label_of(label)?;
        all.insert(key, value.into());
    }
    Ok(json!({ "rule": rule, "labels": all, "for_seconds": lasts.as_secs(), "why": why }))
}

fn silence(global: &Global, client: &Client, order: &Value) -> anyhow::Result<Exit> {
    let silence = client.post("/api/v1/alerts/silences", order)?;
    match global.json {
        true => json_line(&silence)?,
        false => line(&format!(
            "silence {}: nobody is told of {} until {}",
            silence["id"],
            text(&silence, "rule"),
            time(&silence, "until_ms")
        ))?,
    }
    Ok(Exit::Done)
}

fn unsilence(global: &Global, client: &Client, id: u64) -> anyhow::Result<Exit> {
    let silence = client.delete(&format!("/api/v1/alerts/silences/{id}"))?;
    match global.json {
        true => json_line(&silence)?,
        false => line(&format!("silence {id} has ended"))?,
    }
    Ok(Exit::Done)
}

fn test(global: &Global, client: &Client) -> anyhow::Result<Exit> {
    let answer = client.post("/api/v1/alerts/test", &json!({}))?;
    let receivers = answer["receivers"].as_array().into_iter().flatten();
    let mut exit = Exit::Done;
    for receiver in receivers {
        let is_sent = receiver["sent"] == true;
        if !is_sent {
            exit = Exit::Failed;
        }
        if !global.json {
            let came_of_it = match is_sent {
                true => "sent".to_owned(),
                false => format!("failed: {}", text(receiver, "failure")),
            };
            line(&format!("{}: {came_of_it}", text(receiver, "receiver")))?;
        }
    }
    if global.json {
        json_line(&answer)?;
    }
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("30m", 1_800), ("2h", 7_200), ("7d", 604_800)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)));
        }
        for text in [
            "",
            "h",
            "2",
            "2 h",
            "-1h",
            "0s",
            "1y",
            "é",
            "99999999999999999999d",
        ] {
            assert!(duration(text).unwrap_err().contains("no time"), "{text}");
        }
    }
}
