//! What a crawl came to.

use serde_json::{Map, Value, json};

use super::counted::{bytes, number, rate, time};
use super::progress::{Seen, path_of};
use crate::client::Client;
use crate::commands::output::{json_line, line, printable};
use crate::exit::Exit;

/// Rules that say that something went wrong, rather than that somebody wanted it so.
#[rustfmt::skip]
const ERRORS: &[&str] = &[
    "status", "name", "connect", "proxy", "tls", "timeout", "too-large", "bomb", "broken-body", "closed", "protocol",
    "redirect-loop", "too-many-redirects", "redirect-wrong", "redirects", "sitemap",
];
const RULE_CHARACTERS_MAX: usize = 40;

/// Shows it. A crawl that has not fetched a single page has failed.
pub(super) fn show(
    client: &Client,
    flow: &str,
    seen: &Seen,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let crawl = client.get(&path_of(flow, true))?;
    let results = &crawl["results"];
    let stored = results["pages"].as_u64().unwrap_or_default();
    if as_json {
        json_line(&json!({ "summary": {
            "flow": flow,
            "elapsed_ms": seen.elapsed().as_millis() as u64,
            "fetched": seen.fetched_since(),
            "failed": seen.failed,
            "per_second": seen.mean(),
            "store": crawl["store"],
            "results": results,
        }}))?;
    } else {
        for text in lines(flow, seen, &crawl) {
            line(&text)?;
        }
    }
    Ok(match seen.fetched.max(stored) {
        0 => Exit::Failed,
        _ => Exit::Done,
    })
}

fn lines(flow: &str, seen: &Seen, crawl: &Value) -> Vec<String> {
    let results = &crawl["results"];
    let count = |name: &str| results[name].as_u64().unwrap_or_default();
    let mut lines = vec![format!(
        "{flow} is over: {} pages in {}, {}",
        number(seen.fetched_since()),
        time(seen.elapsed()),
        rate(seen.mean()),
    )];
    lines.push(format!(
        "stored: {} pages, {}",
        number(count("pages")),
        bytes(count("bytes"))
    ));
    let empty = Map::new();
    let all = |name: &str| results[name].as_object().unwrap_or(&empty).clone();
    let (errors, refused): (Map<_, _>, Map<_, _>) = all("refused")
        .into_iter()
        .partition(|(rule, _)| ERRORS.contains(&rule.as_str()));
    for (title, counts) in [
        ("by status", &all("statuses")),
        ("refused by rule", &refused),
        ("errors", &errors),
    ] {
        if !counts.is_empty() {
            lines.push(format!("{title}: {}", listed(counts)));
        }
    }
    if let Some(place) = crawl["store"].as_str() {
        lines.push(format!("results: {place}"));
    }
    lines
}

/// Counts, the largest first.
fn listed(counts: &Map<String, Value>) -> String {
    let mut counts: Vec<(&String, u64)> = counts
        .iter()
        .map(|(name, count)| (name, count.as_u64().unwrap_or_default()))
        .collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), (*name).clone()));
    let one = |(name, count): &(&String, u64)| {
        format!(
            "{} {}",
            printable(name, RULE_CHARACTERS_MAX),
            number(*count)
        )
    };
    counts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What to try next.
pub(super) mod hints {
    /// While it runs.
    pub fn while_it_runs(flow: &str) -> String {
        format!(
            "look at it: hivewire crawl show {flow}   watch it again: the same command   stop it: hivewire stop {flow}"
        )
    }

    /// When it is over.
    pub fn when_it_is_over(flow: &str, is_removed: bool, has_index: bool) -> String {
        let mut text = format!(
            "\ntry\n  hivewire crawl pages --name {flow}\n  hivewire crawl why URL --name {flow}\n  \
             hivewire crawl export --name {flow} --format csv > pages.csv\n"
        );
        if has_index {
            text.push_str(&format!("  hivewire crawl search WORDS --name {flow}\n"));
        }
        text.push_str(&match is_removed {
            true => format!(
                "The flow {flow} is stopped; the same command starts it again, and fetches no URL again that it knows."
            ),
            false => format!(
                "The flow {flow} stays: `hivewire export {flow}` prints its document, `hivewire stop {flow}` stops it. \
                 The same command goes on from here: URLs that it knows are not fetched again."
            ),
        });
        text
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn errors_are_told_apart_from_what_was_refused() {
        let crawl = json!({
            "store": "/data/files/crawls/c",
            "results": {
                "pages": 1_200, "bytes": 5_000_000,
                "statuses": { "200": 1_100, "404": 100 },
                "refused": { "robots": 7, "domain": 90, "timeout": 2 },
            },
        });
        let lines = lines("c", &Seen::new(Instant::now()), &crawl);
        assert!(
            lines.contains(&"stored: 1,200 pages, 5.0 MB".to_owned()),
            "{lines:?}"
        );
        assert!(
            lines.contains(&"by status: 200 1,100, 404 100".to_owned()),
            "{lines:?}"
        );
        assert!(
            lines.contains(&"refused by rule: domain 90, robots 7".to_owned()),
            "{lines:?}"
        );
        assert!(lines.contains(&"errors: timeout 2".to_owned()), "{lines:?}");
        assert!(
            lines.contains(&"results: /data/files/crawls/c".to_owned()),
            "{lines:?}"
        );
    }
}
