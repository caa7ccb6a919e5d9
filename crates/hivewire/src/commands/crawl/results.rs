//! What crawls have stored.

use std::io::{IsTerminal, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::counted::{bytes, number};
use crate::client::{Client, encode};
use crate::commands::Global;
use crate::commands::output::{json_line, line, printable, table};
use crate::commands::time::{duration, utc};
use crate::crawls::{ExportFormat, ExportWhat, PageOrder};
use crate::exit::Exit;

const URL_CHARACTERS_MAX: usize = 100;
const TITLE_CHARACTERS_MAX: usize = 60;
const TEXT_CHARACTERS_MAX: usize = 2_000;
/// A node gives no more at once.
const PAGE_MAX: usize = 1_000;

#[derive(Debug, Args)]
struct Name {
    /// The crawl: the name of its flow, with or without `crawl-`; not needed if there is only one
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Name {
    /// The flow that is meant.
    fn flow(&self, client: &Client) -> anyhow::Result<String> {
        let all = all(client)?;
        match (&self.name, all.as_slice()) {
            (Some(name), _) => named(name, &all),
            (None, [one]) => Ok(one.clone()),
            (None, []) => anyhow::bail!("there is no crawl: `hivewire crawl URL` starts one"),
            (None, several) => anyhow::bail!(
                "there are several crawls, so name one with --name: {}",
                several.join(", ")
            ),
        }
    }
}

/// The names of all crawls.
fn all(client: &Client) -> anyhow::Result<Vec<String>> {
    let answer = client.get_all("/api/v1/crawls", "crawls")?;
    let crawls = answer["crawls"].as_array().into_iter().flatten();
    Ok(crawls.map(|crawl| text_of(crawl, "flow")).collect())
}

fn named(name: &str, all: &[String]) -> anyhow::Result<String> {
    let whole = format!("crawl-{name}");
    let found = [name, whole.as_str()]
        .into_iter()
        .find(|name| all.iter().any(|flow| flow == name));
    match (found, all) {
        (Some(found), _) => Ok(found.to_owned()),
        (None, []) => anyhow::bail!("there is no crawl: `hivewire crawl URL` starts one"),
        (None, all) => anyhow::bail!("there is no crawl {name}: there are {}", all.join(", ")),
    }
}

fn text_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// What a choice is called, on the command line and over REST.
fn name_of(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

fn path(flow: &str, rest: &str) -> String {
    format!("/api/v1/crawls/{}{rest}", encode(flow))
}

/// Nodes that did not answer are told, on standard error.
fn tell_missing(answer: &Value) {
    let missing = answer["missing"].as_object().into_iter().flatten();
    for (node, why) in missing {
        let why = printable(why.as_str().unwrap_or_default(), TEXT_CHARACTERS_MAX);
        eprintln!("hivewire: what {node} has is missing: {why}");
    }
}

#[derive(Debug, Args)]
pub(super) struct Why {
    /// The URL
    #[arg(value_name = "URL")]
    url: String,
    /// The crawl: the name of its flow, with or without `crawl-`; without it, all are asked
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

impl Why {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let all = all(&client)?;
        let flows = match &self.name {
            Some(name) => vec![named(name, &all)?],
            None if all.is_empty() => {
                anyhow::bail!("there is no crawl: `hivewire crawl URL` starts one")
            }
            None => all,
        };
        for flow in flows {
            let answer = client.get(&path(&flow, &format!("/why?url={}", encode(&self.url))))?;
            tell_missing(&answer);
            if global.json {
                json_line(&answer)?;
                continue;
            }
            let sentence = printable(&text_of(&answer, "sentence"), TEXT_CHARACTERS_MAX);
            line(&format!("{flow}: {sentence}"))?;
            for detail in details(&answer) {
                line(&format!("  {detail}"))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// What else is known of a URL.
fn details(answer: &Value) -> Vec<String> {
    let mut details = Vec::new();
    let row = match answer["page"].is_object() {
        true => &answer["page"],
        false => &answer["refusal"],
    };
    let at = row["fetched_at"].as_u64().or_else(|| row["at"].as_u64());
    details.extend(at.map(|at| format!("when: {}", utc(at))));
    if let Some(from) = row["from"].as_str() {
        details.push(format!(
            "linked from: {}",
            printable(from, TEXT_CHARACTERS_MAX)
        ));
    }
    if let Some(depth) = row["depth"].as_u64() {
        details.push(format!("links from a seed: {depth}"));
    }
    details
}

#[derive(Debug, Args)]
pub(super) struct Pages {
    #[command(flatten)]
    name: Name,
    /// Only those of this host
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only those with this status: 404, or 4xx
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only those of this kind: text/html, or image/ for all that begin so
    #[arg(long, value_name = "TYPE")]
    mime: Option<String>,
    /// Only those with this in their URL or title
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only those of the last so much time: 90s, 30m, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<Duration>,
    /// In which order
    #[arg(long, value_enum, default_value_t)]
    order: PageOrder,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

impl Pages {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let flow = self.name.flow(&client)?;
        let mut rows = Vec::new();
        let (mut left, mut after) = (self.limit, None);
        loop {
            let query = self.query(left.min(PAGE_MAX), after.as_deref());
            let answer = client.get(&path(&flow, &format!("/pages?{query}")))?;
            tell_missing(&answer);
            for page in answer["pages"].as_array().into_iter().flatten() {
                left = left.saturating_sub(1);
                match global.json {
                    true => json_line(page)?,
                    false => rows.push(row(page)),
                }
            }
            after = answer["next"].as_str().map(str::to_owned);
            if after.is_none() || left == 0 {
                break;
            }
        }
        if !global.json {
            let titles = ["status", "size", "fetched", "url", "title"];
            let text = table(&titles, &[0, 1], &rows);
            std::io::stdout().write_all(text.as_bytes())?;
            if after.is_some() {
                line("there are more: --limit shows them")?;
            }
        }
        Ok(Exit::Done)
    }

    fn query(&self, limit: usize, after: Option<&str>) -> String {
        let since = self.since.map(|since| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let since = now.unwrap_or_default().saturating_sub(since);
            since.as_millis().to_string()
        });
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("limit", &limit.to_string());
        query.append_pair("order", &name_of(self.order));
        for (name, value) in [
            ("host", self.host.as_deref()),
            ("status", self.status.as_deref()),
            ("mime", self.mime.as_deref()),
            ("q", self.text.as_deref()),
            ("since_ms", since.as_deref()),
            ("after", after),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }
}

fn row(page: &Value) -> Vec<String> {
    let count = |name: &str| page[name].as_u64().unwrap_or_default();
    vec![
        count("status").to_string(),
        bytes(count("size")),
        utc(count("fetched_at")),
        printable(&text_of(page, "url"), URL_CHARACTERS_MAX),
        printable(&text_of(page, "title"), TITLE_CHARACTERS_MAX),
    ]
}

#[derive(Debug, Args)]
pub(super) struct Search {
    /// Words; "words in quotes" stand together, `or` gives a choice, and behind `--` a `-word` must not be there
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    name: Name,
    /// At most so many pages
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

impl Search {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let flow = self.name.flow(&client)?;
        let words = encode(&self.words.join(" "));
        let query = format!("/search?query={words}&limit={}", self.limit);
        let answer = client.get(&path(&flow, &query))?;
        tell_missing(&answer);
        let is_bold = std::io::stdout().is_terminal();
        for hit in answer["hits"].as_array().into_iter().flatten() {
            if global.json {
                json_line(hit)?;
                continue;
            }
            let page = &hit["page"];
            let title = printable(&text_of(page, "title"), TITLE_CHARACTERS_MAX);
            let url = printable(&text_of(page, "url"), URL_CHARACTERS_MAX);
            line(format!("{url}  {title}").trim_end())?;
            line(&format!("  {}", snippet(&hit["snippet"], is_bold)))?;
        }
        Ok(Exit::Done)
    }
}

/// The words that were looked for, and what stands around them.
fn snippet(pieces: &Value, is_bold: bool) -> String {
    let pieces = pieces.as_array().into_iter().flatten();
    let shown = |piece: &Value| {
        let text = text_of(piece, "text").replace(['\n', '\r', '\t'], " ");
        let text = printable(&text, TEXT_CHARACTERS_MAX);
        match is_bold && piece["is_match"] == true {
            true => format!("\u{1b}[1m{text}\u{1b}[0m"),
            false => text,
        }
    };
    pieces.map(shown).collect()
}

#[derive(Debug, Args)]
pub(super) struct Export {
    #[command(flatten)]
    name: Name,
    /// In which form
    #[arg(long, value_enum, default_value_t)]
    format: ExportFormat,
    /// What is printed
    #[arg(long, value_enum, default_value_t)]
    what: ExportWhat,
}

impl Export {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let flow = self.name.flow(&client)?;
        let (format, what) = (name_of(self.format), name_of(self.what));
        let query = format!("/export?format={format}&what={what}");
        let mut stdout = std::io::stdout().lock();
        client.copy(&path(&flow, &query), &mut stdout)?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(super) struct List {}

impl List {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let answer = global.client()?.get_all("/api/v1/crawls", "crawls")?;
        if global.json {
            json_line(&answer)?;
            return Ok(Exit::Done);
        }
        let crawls = answer["crawls"].as_array().into_iter().flatten();
        let row = |crawl: &Value| {
            let state = if crawl["runs"] == true {
                "running"
            } else {
                "stopped"
            };
            vec![
                text_of(crawl, "flow"),
                state.to_owned(),
                printable(&text_of(crawl, "store"), URL_CHARACTERS_MAX),
                printable(&text_of(crawl, "description"), URL_CHARACTERS_MAX),
            ]
        };
        let rows: Vec<Vec<String>> = crawls.map(row).collect();
        let text = table(&["crawl", "state", "store", "what"], &[], &rows);
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(Exit::Done)
    }
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// The crawl: the name of its flow, with or without `crawl-`; not needed if there is only one
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl Show {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let client = global.client()?;
        let name = Name {
            name: self.name.clone(),
        };
        let flow = name.flow(&client)?;
        let crawl = client.get(&path(&flow, "?results=true"))?;
        tell_missing(&crawl);
        if global.json {
            json_line(&crawl)?;
            return Ok(Exit::Done);
        }
        for text in shown(&flow, &crawl) {
            line(&text)?;
        }
        let rows: Vec<Vec<String>> = crawl["hosts"]
            .as_array()
            .into_iter()
            .flatten()
            .map(host_row)
            .collect();
        if !rows.is_empty() {
            let text = table(
                &["host", "fetched", "waiting", "under way"],
                &[1, 2, 3],
                &rows,
            );
            std::io::stdout().write_all(text.as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

fn shown(flow: &str, crawl: &Value) -> Vec<String> {
    let count = |value: &Value| number(value.as_u64().unwrap_or_default());
    let state = if crawl["over"] == true {
        "is over"
    } else {
        "goes on"
    };
    let mut lines = vec![format!(
        "{flow} {state}: {} fetched, {} waiting, {} of them under way, {} failed",
        count(&crawl["fetched"]),
        count(&crawl["waiting"]),
        count(&crawl["under_way"]),
        count(&crawl["failed"]),
    )];
    if let Some(stored) = crawl["results"].as_object() {
        lines.push(format!(
            "stored: {} pages, {}, in {}",
            count(&stored["pages"]),
            bytes(stored["bytes"].as_u64().unwrap_or_default()),
            text_of(crawl, "store"),
        ));
    }
    lines
}

fn host_row(host: &Value) -> Vec<String> {
    let count = |name: &str| number(host[name].as_u64().unwrap_or_default());
    vec![
        printable(&text_of(host, "host"), URL_CHARACTERS_MAX),
        count("fetched"),
        count("waiting"),
        count("under_way"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crawl_is_found_with_or_without_what_its_name_begins_with() {
        let all = ["crawl-example-com".to_owned(), "mine".to_owned()];
        assert_eq!(named("example-com", &all).unwrap(), "crawl-example-com");
        assert_eq!(named("mine", &all).unwrap(), "mine");
        let error = named("other", &all).unwrap_err().to_string();
        assert!(error.contains("crawl-example-com, mine"), "{error}");
    }

    #[test]
    fn what_was_looked_for_stands_out_and_nothing_reaches_the_terminal() {
        let pieces = json!([
            { "text": "a\n", "is_match": false },
            { "text": "bee\u{1b}", "is_match": true },
        ]);
        assert_eq!(snippet(&pieces, false), "a bee\\u{1b}");
        assert_eq!(snippet(&pieces, true), "a \u{1b}[1mbee\\u{1b}\u{1b}[0m");
    }

    #[test]
    fn details_say_when_and_from_where() {
        let answer = json!({ "page": null, "refusal": { "at": 0, "from": "https://a.example/", "depth": 2 } });
        assert_eq!(
            details(&answer),
            [
                "when: 1970-01-01T00:00:00.000Z",
                "linked from: https://a.example/",
                "links from a seed: 2"
            ]
        );
    }
}
