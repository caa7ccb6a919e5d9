//! The flow document of a crawl.

use anyhow::{Context, bail, ensure};
use crawl::domain::registrable_domain;
use flows::document::{
    Document, Limits, OneOrMany, Place, PluginReference, Promise, RouterChoice, Scale, Stage,
};
use runtime::RouterKind;
use serde_json::{Map, Value, json};
use url::{Position, Url};

use super::rate::Rate;

/// How the names of crawls begin that got no other.
const PREFIX: &str = "crawl-";
const NAME_CHARACTERS_MAX: usize = 60;
/// How many connections a crawl has if nobody says otherwise.
const CONNECTIONS: u32 = 32;
const CONNECTIONS_MAX: u32 = 4_096;
/// So many are there from the begin; more come when they are too few.
const CONNECTIONS_AT_FIRST: u32 = 32;
/// For each connection so many URLs may be under way: on their way there, or their pages on their way to the store.
const UNDER_WAY: u32 = 8;
/// How many workers look at robots.txt, and wait for it.
const ROBOTS_WORKERS: u32 = 16;
/// How many workers a stage has at most that only computes.
const COMPUTING_WORKERS_MAX: u32 = 4;
/// How long a turn may take that waits for a server. What is fetched has shorter limits of its own.
const FETCH_MS_MAX: u64 = 120_000;
/// How long a turn may take that reads what waits for many hosts.
const READ_MS_MAX: u64 = 60_000;
/// How many pages are stored together.
const STORED_TOGETHER: u32 = 256;

/// What somebody wants to crawl, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub urls: Vec<String>,
    pub name: Option<String>,
    pub domains: Vec<String>,
    pub depth: Option<u32>,
    pub pages: Option<u64>,
    pub rate: Option<Rate>,
    pub store: Option<String>,
    pub keeps_bodies: bool,
    pub warc: bool,
    pub search: bool,
    pub allow_private: bool,
    pub connections: Option<u32>,
    pub user_agent: Option<String>,
}

impl Wanted {
    /// The document of such a crawl.
    pub fn document(&self) -> anyhow::Result<Document> {
        let urls = self.urls.iter().map(|url| url_of(url));
        let urls: Vec<Url> = urls.collect::<anyhow::Result<_>>()?;
        let first = urls.first().context("name at least one URL")?;
        let flow = self.name.clone().unwrap_or_else(|| flow_name(first));
        let mut document = Document::new(&flow);
        document.description = description(&urls);
        // Pages are handled in memory on the node that fetched them; the frontier keeps on disk what is under way.
        document.delivery = Promise::AtMostOnce;
        let connections = self.connections.unwrap_or(CONNECTIONS);
        ensure!(
            (1..=CONNECTIONS_MAX).contains(&connections),
            "a crawl has 1 to {CONNECTIONS_MAX} connections"
        );
        self.add_addresses(&mut document, &urls, connections * UNDER_WAY)?;
        self.add_fetching(&mut document, connections)?;
        self.add_content(&mut document)?;
        Ok(document)
    }

    /// Which URLs are fetched, and when.
    fn add_addresses(
        &self,
        document: &mut Document,
        urls: &[Url],
        under_way_max: u32,
    ) -> anyhow::Result<()> {
        let seeds: Vec<&str> = urls.iter().map(Url::as_str).collect();
        let mut seed = durable("seed")?;
        seed.parameters = json!({ "urls": seeds });
        seed.limits.call_ms_max = Some(READ_MS_MAX);
        add(document, "seed", seed, "normalise")?;
        add(document, "normalise", stage("url-normaliser")?, "seen")?;
        let mut seen = durable("seen-urls")?;
        seen.key = Some("json:/host".parse()?);
        add(document, "seen", seen, "frontier")?;
        let mut frontier = durable("frontier")?;
        frontier.key = Some("json:/host".parse()?);
        frontier.parameters = parameters(&[
            ("pace", self.rate.map(Rate::pace)),
            ("pages_max", self.pages.map(Value::from)),
            ("under_way_max", Some(under_way_max.into())),
        ]);
        frontier.limits.call_ms_max = Some(READ_MS_MAX);
        add(document, "frontier", frontier, "domains")?;
        // Behind the frontier, so that a filter that becomes tighter holds for everything that still waits.
        let mut domains = stage("domain-filter")?;
        let names = match self.domains.is_empty() {
            true => domains_of(urls),
            false => self.domains.clone(),
        };
        domains.parameters = parameters(&[
            ("domains", Some(json!(names))),
            ("depth_max", self.depth.map(Value::from)),
        ]);
        add(document, "domains", domains, "robots")?;
        refuses(document, &["normalise", "frontier", "domains"])
    }

    /// How they are fetched.
    fn add_fetching(&self, document: &mut Document, connections: u32) -> anyhow::Result<()> {
        let fetch = parameters(&[
            ("allow_private", self.allow_private.then_some(json!(true))),
            ("user_agent", self.user_agent.as_deref().map(Value::from)),
        ]);
        let fetching = parameters(&[("fetch", (!fetch.is_null()).then_some(fetch))]);
        let mut robots = stage("robots")?;
        robots.parameters = fetching.clone();
        robots.workers = Some(ROBOTS_WORKERS);
        robots.router = Some(RouterChoice::Kind(RouterKind::SmallestMailbox));
        robots.limits = one_at_a_time();
        add(document, "robots", robots, "download")?;
        lead(document, "robots", "sitemaps", "normalise")?;
        let mut download = stage("downloader")?;
        download.parameters = fetching;
        download.scale = Some(Scale {
            min: Some(connections.min(CONNECTIONS_AT_FIRST)),
            max: Some(connections),
            ..Scale::default()
        });
        // A worker is a connection.
        download.router = Some(RouterChoice::Kind(RouterKind::SmallestMailbox));
        download.limits = one_at_a_time();
        add(document, "download", download, "content")?;
        lead(document, "download", "redirects", "normalise")?;
        refuses(document, &["robots", "download"])
    }

    /// What is made of pages.
    fn add_content(&self, document: &mut Document) -> anyhow::Result<()> {
        add(document, "content", computing("content-filter")?, "decode")?;
        refuses(document, &["content"])?;
        add(document, "decode", computing("charset-decoder")?, "links")?;
        add(document, "links", computing("link-extractor")?, "text")?;
        lead(document, "links", "links", "normalise")?;
        add(document, "text", computing("text-extractor")?, "store")?;
        let mut store = stage("page-store")?;
        store.limits.batch_messages_max = Some(STORED_TOGETHER);
        store.limits.call_ms_max = Some(READ_MS_MAX);
        let short = document.flow.strip_prefix(PREFIX).unwrap_or(&document.flow);
        let to = self.store.clone();
        let to = to.unwrap_or_else(|| format!("crawls/{short}"));
        store.parameters = parameters(&[
            ("to", Some(Value::from(to))),
            ("keep_body", (!self.keeps_bodies).then_some(json!(false))),
            ("search", self.search.then_some(json!(true))),
        ]);
        document.stages.insert("store".to_owned(), store);
        if self.warc {
            let mut archive = stage("warc-writer")?;
            archive.parameters = json!({ "folder": format!("archives/{short}") });
            document.stages.insert("archive".to_owned(), archive);
            // As it came, before anything changes it.
            lead(document, "download", "out", "archive")?;
        }
        Ok(())
    }
}

/// A URL as people write it: without a scheme, https is meant.
fn url_of(text: &str) -> anyhow::Result<Url> {
    let whole = match text.contains("://") {
        true => text.to_owned(),
        false => format!("https://{text}"),
    };
    let url = Url::parse(&whole).with_context(|| format!("{text} is no URL"))?;
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    match url.scheme() {
        "http" | "https" if url.has_host() && !has_credentials => Ok(url),
        _ => bail!("{text} cannot be crawled: write a URL such as https://example.com/"),
    }
}

/// The name of the flow for a crawl of this URL.
fn flow_name(url: &Url) -> String {
    let host = &url[Position::BeforeHost..Position::AfterPort];
    let letters = host.chars().map(|c| match c.is_ascii_alphanumeric() {
        true => c,
        false => '-',
    });
    let name: String = letters.take(NAME_CHARACTERS_MAX).collect();
    format!("{PREFIX}{}", name.trim_matches('-'))
}

fn description(urls: &[Url]) -> String {
    match urls {
        [one] => format!("Crawls {one}"),
        [first, rest @ ..] => format!("Crawls {first} and {} more", rest.len()),
        [] => String::new(),
    }
}

/// The domains that these URLs belong to. A host with a port of its own, or without a name, is meant alone.
fn domains_of(urls: &[Url]) -> Vec<String> {
    let domain = |url: &Url| {
        let host = &url[Position::BeforeHost..Position::AfterPort];
        match (url.domain(), url.port()) {
            (Some(name), None) => registrable_domain(name).to_owned(),
            _ => host.to_owned(),
        }
    };
    let mut domains: Vec<String> = urls.iter().map(domain).collect();
    domains.sort_unstable();
    domains.dedup();
    domains
}

fn stage(plugin: &str) -> anyhow::Result<Stage> {
    Ok(Stage::new(plugin.parse::<PluginReference>()?))
}

/// A stage that grows when it is too slow.
fn computing(plugin: &str) -> anyhow::Result<Stage> {
    let scale = Scale {
        min: Some(1),
        max: Some(COMPUTING_WORKERS_MAX),
        ..Scale::default()
    };
    Ok(Stage {
        scale: Some(scale),
        ..stage(plugin)?
    })
}

/// A worker that is busy with one event gets no other: those who have nothing to do get it, and what waits for them can still be filtered.
fn one_at_a_time() -> Limits {
    Limits {
        batch_messages_max: Some(1),
        mailbox_messages_max: Some(1),
        spill_messages_max: Some(1),
        call_ms_max: Some(FETCH_MS_MAX),
        ..Limits::default()
    }
}

fn durable(plugin: &str) -> anyhow::Result<Stage> {
    Ok(Stage {
        delivery: Some(Promise::StateOnce),
        ..stage(plugin)?
    })
}

/// Those that are said; nothing if none is.
fn parameters(all: &[(&str, Option<Value>)]) -> Value {
    let said = all.iter().filter_map(|(name, value)| {
        let value = value.clone()?;
        Some(((*name).to_owned(), value))
    });
    let said: Map<String, Value> = said.collect();
    match said.is_empty() {
        true => Value::Null,
        false => Value::Object(said),
    }
}

fn add(document: &mut Document, name: &str, stage: Stage, to: &str) -> anyhow::Result<()> {
    document.stages.insert(name.to_owned(), stage);
    lead(document, name, "out", to)
}

/// What these refuse is stored.
fn refuses(document: &mut Document, stages: &[&str]) -> anyhow::Result<()> {
    let mut stages = stages.iter();
    stages.try_for_each(|stage| lead(document, stage, "refused", "store"))
}

fn lead(document: &mut Document, from: &str, output: &str, to: &str) -> anyhow::Result<()> {
    let place: Place = to.parse()?;
    let stage = document.stages.get_mut(from);
    let stage = stage.with_context(|| format!("there is no stage {from}"))?;
    let places: &mut OneOrMany<Place> = stage.outputs.entry(output.to_owned()).or_default();
    places.0.push(place);
    Ok(())
}

#[cfg(test)]
mod tests {
    use flows::document::{BuiltIns, check};

    use super::*;

    fn wanted(urls: &[&str]) -> Wanted {
        Wanted {
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            keeps_bodies: true,
            ..Wanted::default()
        }
    }

    #[test]
    fn the_document_is_sound_and_the_same_when_it_was_written_and_read() {
        flows::plugins::add(crawl::PLUGINS);
        let all = Wanted {
            depth: Some(3),
            pages: Some(100),
            rate: Some(Rate::Every(6_000)),
            keeps_bodies: false,
            warc: true,
            search: true,
            allow_private: true,
            connections: Some(1),
            user_agent: Some("ExampleBot/1.0".to_owned()),
            ..wanted(&["https://example.com/"])
        };
        for wanted in [wanted(&["https://example.com/"]), all] {
            let document = wanted.document().unwrap();
            let problems = check(&document, &BuiltIns);
            assert!(problems.is_empty(), "{problems}");
            let read = Document::parse(&document.to_toml()).unwrap().document;
            assert_eq!(read, document);
        }
    }

    #[test]
    fn names_and_domains_follow_from_the_urls() {
        let document = wanted(&["www.example.co.uk/a", "http://shop.example.org"]).document();
        let document = document.unwrap();
        assert_eq!(document.flow, "crawl-www-example-co-uk");
        let domains = &document.stages["domains"].parameters["domains"];
        assert_eq!(*domains, json!(["example.co.uk", "example.org"]));
        assert_eq!(
            document.stages["seed"].parameters["urls"],
            json!(["https://www.example.co.uk/a", "http://shop.example.org/"])
        );
        let to = &document.stages["store"].parameters["to"];
        assert_eq!(*to, json!("crawls/www-example-co-uk"));
        let local = wanted(&["http://127.0.0.1:8080/"]).document().unwrap();
        assert_eq!(local.flow, "crawl-127-0-0-1-8080");
        let domains = &local.stages["domains"].parameters["domains"];
        assert_eq!(*domains, json!(["127.0.0.1:8080"]));
    }

    #[test]
    fn what_cannot_be_crawled_is_told() {
        for wrong in ["ftp://example.com/", "mailto:a@b", "https://", ""] {
            assert!(wanted(&[wrong]).document().is_err(), "{wrong}");
        }
        let none = Wanted {
            connections: Some(0),
            ..wanted(&["example.com"])
        };
        assert!(none.document().is_err());
    }
}
