//! `hivewire services`

use std::io::Write;

use clap::Args;
use serde_json::Value;

use super::Global;
use super::output::{json_line, table};
use crate::exit::Exit;

const TITLES: [&str; 9] = [
    "METHOD", "PATH", "STAGE", "ANSWER", "REQUESTS", "FAILED", "P50 MS", "P99 MS", "STATE",
];

#[derive(Debug, Args)]
pub(super) struct Services {}

impl Services {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let answer = global.client()?.get("/api/v1/services")?;
        match global.json {
            true => json_line(&answer)?,
            false => std::io::stdout()
                .lock()
                .write_all(text(&answer).as_bytes())?,
        }
        Ok(Exit::Done)
    }
}

fn text(answer: &Value) -> String {
    let list = |name: &str| answer[name].as_array().map_or(&[][..], Vec::as_slice);
    let (routes, services) = (list("routes"), list("services"));
    if routes.is_empty() && services.is_empty() {
        return "nothing is answered over HTTP: add [[http]] with route and stage to a flow\n"
            .to_owned();
    }
    let mut text = match (answer["address"].as_str(), answer["problem"].as_str()) {
        (Some(address), _) => format!("services listen at http://{address}\n\n"),
        (None, Some(problem)) => format!("{problem}\n\n"),
        (None, None) => String::new(),
    };
    if !routes.is_empty() {
        let rows: Vec<Vec<String>> = routes.iter().map(row).collect();
        text += &table(&TITLES, &[4, 5, 6, 7], &rows);
    }
    for service in services {
        text += &format!("\n{}\n", service["prefix"].as_str().unwrap_or_default());
        for route in service["routes"].as_array().into_iter().flatten() {
            let word = |name: &str| route[name].as_str().unwrap_or_default();
            text += &format!(
                "  {} {} ({})\n",
                word("method"),
                word("path"),
                word("class")
            );
        }
    }
    text
}

fn row(route: &Value) -> Vec<String> {
    let word = |name: &str| route[name].as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.to_string();
    let answer = match route["timeout_ms"].as_u64() {
        Some(ms) => format!("reply within {ms} ms"),
        None => "202".to_owned(),
    };
    let state = match (route["problem"].as_str(), route["running"].as_bool()) {
        (Some(problem), _) => problem.to_owned(),
        (None, Some(false)) => "the stage does not run".to_owned(),
        _ => "answers".to_owned(),
    };
    vec![
        word("method"),
        word("path"),
        format!("{}/{}", word("flow"), word("stage")),
        answer,
        number(&route["requests"]),
        number(&route["failed"]),
        number(&route["latency"]["p50_ms"]),
        number(&route["latency"]["p99_ms"]),
        state,
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn routes_are_told_with_where_they_listen() {
        let nothing = json!({ "address": null, "problem": null, "routes": [], "services": [] });
        assert!(text(&nothing).contains("add [[http]]"));
        let latency = json!({ "mean_ms": 1.0, "p50_ms": 0.5, "p99_ms": 2.25, "max_ms": 3.0 });
        let route = |problem: Value, timeout: Value| {
            json!({
                "method": "POST", "path": "/orders", "flow": "shop", "stage": "orders", "timeout_ms": timeout,
                "running": true, "problem": problem, "requests": 7, "failed": 1, "latency": latency,
            })
        };
        let answer = json!({
            "address": "127.0.0.1:8080", "problem": null, "services": [],
            "routes": [route(Value::Null, 5000.into()), route("taken".into(), Value::Null)],
        });
        let text = text(&answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "services listen at http://127.0.0.1:8080");
        assert!(
            lines[3].contains("shop/orders")
                && lines[3].contains("reply within 5000 ms")
                && lines[3].ends_with("answers"),
            "{text}"
        );
        assert!(
            lines[4].contains("202") && lines[4].ends_with("taken"),
            "{text}"
        );
    }
}
