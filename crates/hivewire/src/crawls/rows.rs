//! Rows of a store as people and programs see them.

use std::collections::BTreeMap;

use crawl::store::{Counts, Hit, PageRow, RefusalRow};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A page that was fetched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CrawledPage {
    /// What was asked for.
    pub url: String,
    /// Where redirects ended.
    pub final_url: String,
    /// Its host, with the port if that is not the usual one.
    pub host: String,
    /// How many links lead from a seed to it.
    pub depth: u32,
    /// The page that links to it.
    pub from: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// What kind of content it is.
    pub mime: Option<String>,
    /// How its text is encoded.
    pub charset: Option<String>,
    /// How many bytes its body has.
    pub size: u64,
    /// When it was fetched, in milliseconds since 1970.
    pub fetched_at: i64,
    /// How long that took.
    pub took_ms: u64,
    /// The node that fetched it.
    pub node: String,
    /// Its title.
    pub title: Option<String>,
    /// The language of its text.
    pub language: Option<String>,
    /// What it says about itself.
    pub description: Option<String>,
    /// The hash of its body.
    pub hash: Option<String>,
    /// Fields that were taken from it.
    pub fields: Option<Value>,
    /// How often it was fetched.
    pub fetches: u32,
}

impl From<PageRow> for CrawledPage {
    fn from(page: PageRow) -> Self {
        let fields = page.fields.as_deref();
        Self {
            fields: fields.and_then(|text| serde_json::from_str(text).ok()),
            url: page.url,
            final_url: page.final_url,
            host: page.host,
            depth: page.depth,
            from: page.from,
            status: page.status,
            mime: page.mime,
            charset: page.charset,
            size: page.size,
            fetched_at: page.fetched_at,
            took_ms: page.took_ms,
            node: page.node,
            title: page.title,
            language: page.language,
            description: page.description,
            hash: page.hash,
            fetches: page.fetches,
        }
    }
}

/// A URL that was not fetched, or whose page was not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CrawlRefusal {
    /// The URL.
    pub url: String,
    /// Its host, with the port if that is not the usual one.
    pub host: String,
    /// The stage that refused it.
    pub stage: Option<String>,
    /// The rule that stopped it, such as `robots` or `depth`.
    pub rule: String,
    /// Why, with the line or pattern that decided.
    pub reason: String,
    /// The page that links to it.
    pub from: Option<String>,
    /// How many links lead from a seed to it.
    pub depth: u32,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The node that refused it.
    pub node: String,
}

impl From<RefusalRow> for CrawlRefusal {
    fn from(refusal: RefusalRow) -> Self {
        Self {
            url: refusal.url,
            host: refusal.host,
            stage: refusal.stage,
            rule: refusal.rule,
            reason: refusal.reason,
            from: refusal.from,
            depth: refusal.depth,
            at: refusal.at,
            node: refusal.node,
        }
    }
}

/// A page that was found by its words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CrawlHit {
    /// The page.
    pub page: CrawledPage,
    /// A part of its text with the words, piece by piece.
    pub snippet: Vec<SnippetPiece>,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SnippetPiece {
    /// The text.
    pub text: String,
    /// Whether it was looked for.
    pub is_match: bool,
}

impl From<Hit> for CrawlHit {
    fn from(hit: Hit) -> Self {
        let piece = |part: crawl::store::SnippetPart| SnippetPiece {
            text: part.text,
            is_match: part.is_match,
        };
        Self {
            page: hit.page.into(),
            snippet: hit.snippet.into_iter().map(piece).collect(),
        }
    }
}

/// How much a crawl has stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CrawlResults {
    /// How many pages.
    pub pages: u64,
    /// How many bytes their bodies have.
    pub bytes: u64,
    /// How many pages of each status.
    pub statuses: BTreeMap<u16, u64>,
    /// How many URLs each rule refused.
    pub refused: BTreeMap<String, u64>,
}

impl CrawlResults {
    /// Adds what another node has.
    pub fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.bytes += other.bytes;
        for (status, pages) in &other.statuses {
            *self.statuses.entry(*status).or_default() += pages;
        }
        for (rule, urls) in &other.refused {
            *self.refused.entry(rule.clone()).or_default() += urls;
        }
    }
}

impl From<Counts> for CrawlResults {
    fn from(counts: Counts) -> Self {
        Self {
            pages: counts.pages,
            bytes: counts.bytes,
            statuses: counts.statuses,
            refused: counts.refusals,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_nodes_are_summed() {
        let one = CrawlResults {
            pages: 3,
            bytes: 10,
            statuses: [(200, 2), (404, 1)].into(),
            refused: [("robots".to_owned(), 4)].into(),
        };
        let mut all = one.clone();
        all.add(&one);
        assert_eq!((all.pages, all.bytes), (6, 20));
        assert_eq!((all.statuses[&200], all.refused["robots"]), (4, 8));
    }
}
