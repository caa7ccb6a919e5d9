//! Crawls as people start them, with `hivewire crawl`, and what became of them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::hive::Hive;
use crate::poll::wait_until;
use crate::site::{Log, Visit};

/// What every crawl of a site on this machine needs.
pub const LOCAL: [&str; 3] = ["--allow-private", "--rate", "unlimited"];

/// Runs `hivewire` to its end; gives what it printed, whatever its exit code.
pub fn run(hive: &Hive, arguments: &[&str]) -> Result<Output> {
    let output = hive.command(arguments).output();
    output.with_context(|| format!("cannot run hivewire {arguments:?}"))
}

/// The same, if it must work; gives its lines of JSON.
pub fn run_json(hive: &Hive, arguments: &[&str]) -> Result<Vec<Value>> {
    let output = run(hive, &[arguments, &["--json"]].concat())?;
    let (text, problem) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    ensure!(
        output.status.success(),
        "hivewire {arguments:?} ended with {}: {problem}{text}",
        output.status
    );
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let values = lines.map(serde_json::from_str).collect::<Result<_, _>>();
    values.with_context(|| format!("hivewire {arguments:?} printed {text}"))
}

/// The flow document that `hivewire crawl` would run.
pub fn document(hive: &Hive, arguments: &[&str]) -> Result<Value> {
    let printed = run_json(hive, &[&["crawl", "--print"], arguments].concat())?;
    printed.into_iter().next().context("a document")
}

/// Makes a flow what a document says.
pub fn apply(hive: &Hive, document: &Value) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("flow.json");
    fs::write(&file, document.to_string())?;
    let file = file.to_str().context("a path in UTF-8")?;
    run_json(hive, &["apply", "--yes", file]).map(drop)
}

/// How far a crawl is.
pub fn progress(hive: &Hive, flow: &str) -> Result<Value> {
    let answer = hive.rest("GET", &format!("/api/v1/crawls/{flow}?results=true"), b"")?;
    ensure!(answer.status == 200, "{}", answer.text());
    Ok(answer.json()?)
}

/// Waits until a crawl is over.
pub fn wait_until_over(hive: &Hive, flow: &str, timeout: Duration) -> Result<Value> {
    let mut last = String::from("nothing");
    let mut over = Value::Null;
    let is_over = wait_until(timeout, || match progress(hive, flow) {
        Ok(now) => {
            last = now.to_string();
            let is_over = now["over"] == true;
            over = now;
            is_over
        }
        Err(error) => {
            last = error.to_string();
            false
        }
    });
    ensure!(is_over, "{flow} is not over: {last}; {}", hive.log());
    Ok(over)
}

/// What a crawl has to say about a URL.
pub fn why(hive: &Hive, flow: &str, url: &str) -> Result<Value> {
    let said = run_json(hive, &["crawl", "why", url, "--name", flow])?;
    said.into_iter().next().context("an answer")
}

/// The rule that stopped a URL, and its reason.
pub fn refusal(hive: &Hive, flow: &str, url: &str) -> Result<(String, String)> {
    let why = why(hive, flow, url)?;
    ensure!(why["fate"] == "refused", "{url}: {why}");
    let text = |name: &str| why["refusal"][name].as_str().unwrap_or_default().to_owned();
    Ok((text("rule"), text("reason")))
}

/// All pages that a crawl has stored, by URL.
pub fn pages(hive: &Hive, flow: &str) -> Result<BTreeMap<String, Value>> {
    let output = run(hive, &["crawl", "export", "--name", flow])?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout)?;
    text.lines()
        .map(|line| {
            let page: Value = serde_json::from_str(line)?;
            let url = page["url"].as_str().context("a page has a URL")?.to_owned();
            Ok((url, page))
        })
        .collect()
}

/// Pages that were asked for again although the first answer had long been there: those whose second request does not
/// follow from a kill while the first was under way, or that had ended at most so long before.
pub fn repeated_without_need(
    log: &Log,
    kills: &[Duration],
    settles_within: Duration,
) -> Vec<(Visit, Visit)> {
    let mut last: BTreeMap<String, Visit> = BTreeMap::new();
    let mut wrong = Vec::new();
    for visit in log.visits().into_iter().filter(Visit::is_page) {
        let page = format!("{}{}", visit.host, visit.path);
        if let Some(before) = last.insert(page, visit.clone()) {
            let is_lost = |kill: &Duration| {
                let ended = before.ended.unwrap_or(*kill);
                before.started <= *kill && *kill <= visit.started && *kill <= ended + settles_within
            };
            if !kills.iter().any(is_lost) {
                wrong.push((before, visit));
            }
        }
    }
    wrong
}
