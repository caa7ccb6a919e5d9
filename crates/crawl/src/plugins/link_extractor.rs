//! `link-extractor`: where pages lead.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use flows::handles_each;
use flows::plugins::author::{HandlesEach, OUT, Plugin};
use flows::plugins::{Environment, Outputs, ParameterError};
use flows::{Data, Event};
use kernel::worker::{Failure, Incoming, Turn};
use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use super::page::{Page, base_of, host_of, is_gzip, resolve};
use crate::links::{Found, Kinds, LinkKind, RobotsRules, Rules, extract};
use crate::sitemap::{Limits, Listed, read_text, read_xml};
use crate::sniff::Kind;

/// Parameters of `link-extractor`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    /// Which links of HTML are followed. Without it, those that lead to pages, feeds and sitemaps.
    kinds: Option<Vec<LinkKind>>,
    /// Whether links with `rel=nofollow`, `ugc` or `sponsored` are passed over.
    #[serde(default = "obey")]
    obey_nofollow: bool,
    /// Whether the links of a page are passed over that says nofollow to robots, in `<meta name=robots>` or in its headers.
    #[serde(default = "obey")]
    obey_robots_meta: bool,
    /// Under which name pages may speak to this crawler alone.
    #[serde(default = "robot")]
    robot: String,
    /// How many links of a page are followed; sitemaps and feeds have their own bound.
    #[serde(default = "links_max")]
    links_max: usize,
    /// How many addresses of a sitemap or feed are followed.
    #[serde(default = "entries_max")]
    entries_max: usize,
    /// How long an address may be.
    #[serde(default = "address_bytes_max")]
    address_bytes_max: usize,
}

fn obey() -> bool {
    true
}

fn robot() -> String {
    Rules::default().robot
}

fn links_max() -> usize {
    Rules::default().links_max
}

fn entries_max() -> usize {
    Limits::default().entries_max
}

fn address_bytes_max() -> usize {
    Rules::default().address_bytes_max
}

pub(super) struct LinkExtractor {
    parameters: Parameters,
    rules: Rules,
    limits: Limits,
    found: Found,
}

const LINKS: &str = "links";
/// How many addresses one event holds at most.
const URLS_MAX: usize = 1_000;

impl Plugin for LinkExtractor {
    const ID: &'static str = "link-extractor";
    const DESCRIPTION: &'static str = "Finds where pages lead, and what they say about being followed and indexed.\n\n\
        Links of HTML and XHTML are found by `kinds`; of sitemaps, feeds and other XML all addresses are taken, also of sitemaps in plain \
        text (`sitemap*.txt`, `urllist.txt`) and of compressed ones (`.xml.gz`). Addresses come out absolute, without the part behind `#`, each once for \
        a page. Put a charset decoder before it.";
    const OUTPUTS: Outputs = Outputs::Named(&[
        (
            LINKS,
            "URLs, those of one host together: `host`, `urls`, `depth` (one more than that of the page) and `from`.",
        ),
        (
            OUT,
            "The pages, with the number of their `links`, and `canonical`, `base`, `noindex` and `nofollow` where they say so.",
        ),
    ]);
    const EXAMPLES: &'static [(&'static str, &'static str)] = &[
        ("As usual", "{}"),
        (
            "Images too, for an archive",
            r#"{"kinds": ["anchor", "area", "frame", "image", "media", "script", "stylesheet", "icon"]}"#,
        ),
    ];
    type Parameters = Parameters;

    fn new(parameters: Parameters, _: &Environment) -> Result<Self, ParameterError> {
        let rules = Rules {
            kinds: parameters
                .kinds
                .as_deref()
                .map_or_else(Kinds::default, Kinds::of),
            links_max: parameters.links_max,
            address_bytes_max: parameters.address_bytes_max,
            robot: parameters.robot.clone(),
            is_xhtml: false,
        };
        let limits = Limits {
            entries_max: parameters.entries_max,
            address_bytes_max: parameters.address_bytes_max,
            ..Limits::default()
        };
        Ok(Self {
            parameters,
            rules,
            limits,
            found: Found::default(),
        })
    }
}

/// What a page gave.
#[derive(Default)]
struct Gathered {
    by_host: BTreeMap<String, Vec<Data>>,
    known: HashSet<String>,
}

impl Gathered {
    fn add(&mut self, url: Url) {
        let host = host_of(&url);
        let text = String::from(url);
        if self.known.insert(text.clone()) {
            self.by_host.entry(host).or_default().push(text.into());
        }
    }
}

impl HandlesEach for LinkExtractor {
    fn each(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        let event = Event::of(message)?;
        let page = Page::of(&event)?;
        let body = page.body();
        let mut about = Vec::new();
        let gathered = match page.kind(&body) {
            kind @ (Kind::Html | Kind::Xhtml) => {
                self.rules.is_xhtml = kind == Kind::Xhtml;
                extract(&body, &self.rules, &mut self.found);
                self.of_html(&page, &mut about)
            }
            Kind::Xml if is_gzip(&body) => self.of_list(&page, &unpack(&body, &self.limits)),
            Kind::Xml => self.of_list(&page, &body),
            Kind::Text if is_text_sitemap(page.final_url()) => {
                let text = String::from_utf8_lossy(&body);
                listed(&page, &read_text(&text, &self.limits))
            }
            Kind::Text | Kind::Other => Gathered::default(),
        };
        about.push(("links", Data::from(gathered.known.len() as u64)));
        emit_links(&event, &page, gathered, turn)?;
        turn.emit_value(OUT, Arc::new(page.with(about)))
    }
}

handles_each!(LinkExtractor);

impl LinkExtractor {
    fn of_html(&self, page: &Page<'_>, about: &mut Vec<(&'static str, Data)>) -> Gathered {
        let found = &self.found;
        let mut gathered = Gathered::default();
        let Some(base) = base_of(page.final_url(), found.base()) else {
            return gathered;
        };
        let canonical = found
            .canonical()
            .and_then(|address| resolve(&base, address));
        about.extend(canonical.map(|url| ("canonical", String::from(url).into())));
        if found.base().is_some() {
            about.push(("base", base.as_str().to_owned().into()));
        }
        let robots = self.robots(page);
        about.extend(robots.is_noindex.then(|| ("noindex", true.into())));
        about.extend(robots.is_nofollow.then(|| ("nofollow", true.into())));
        if robots.is_nofollow && self.parameters.obey_robots_meta {
            return gathered;
        }
        let is_followed = |is_nofollow: bool| !(is_nofollow && self.parameters.obey_nofollow);
        for link in found.links().filter(|link| is_followed(link.is_nofollow)) {
            if let Some(url) = resolve(&base, link.address) {
                gathered.add(url);
            }
        }
        gathered
    }

    fn robots(&self, page: &Page<'_>) -> RobotsRules {
        let mut robots = self.found.robots;
        if let Some(header) = page.header("x-robots-tag") {
            robots.add_header(header, &self.parameters.robot);
        }
        robots
    }

    fn of_list(&self, page: &Page<'_>, body: &[u8]) -> Gathered {
        let text = String::from_utf8_lossy(body);
        listed(page, &read_xml(&text, &self.limits))
    }
}

fn listed(page: &Page<'_>, listed: &Listed) -> Gathered {
    let mut gathered = Gathered::default();
    if let Some(base) = base_of(page.final_url(), None) {
        let entries = listed.entries.iter();
        entries
            .filter_map(|entry| resolve(&base, &entry.address))
            .for_each(|url| gathered.add(url));
    }
    gathered
}

/// What is compressed, up to the length that may be read; nothing of what is broken from where it is.
fn unpack(body: &[u8], limits: &Limits) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let most = limits.document_bytes_max as u64;
    // An error ends it, and what came before is what there is.
    let _ = MultiGzDecoder::new(body)
        .take(most)
        .read_to_end(&mut unpacked);
    unpacked
}

fn is_text_sitemap(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let name = path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    name.ends_with(".txt") && (name.starts_with("sitemap") || name == "urllist.txt")
}

fn emit_links(
    event: &Event,
    page: &Page<'_>,
    gathered: Gathered,
    turn: &mut Turn,
) -> Result<(), Failure> {
    let depth = page.number("depth").unwrap_or(0).saturating_add(1);
    for (host, urls) in gathered.by_host {
        for urls in urls.chunks(URLS_MAX) {
            let data = Data::record([
                ("depth", Data::from(depth)),
                ("from", page.final_url().to_owned().into()),
                ("host", host.clone().into()),
                ("urls", urls.to_vec().into()),
            ]);
            turn.emit_value(LINKS, Arc::new(Event::new(data).held_like(event)))?;
        }
    }
    Ok(())
}
