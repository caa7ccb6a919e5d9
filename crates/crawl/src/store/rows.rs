//! The rows of a store.

use bytes::Bytes;

/// A page as it was fetched last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageRow {
    /// What was asked for. There is one row for it.
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
    /// How many bytes its body has, decoded.
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
    /// The simhash of its text: pages that are much the same have simhashes that are much the same.
    pub simhash: Option<String>,
    /// The headers of the answer, as a JSON record.
    pub headers: Option<String>,
    /// The fields that were taken from it, as JSON.
    pub fields: Option<String>,
    /// How often it was fetched. Whoever writes leaves that to the store.
    pub fetches: u32,
    /// Its readable text.
    pub text: Option<String>,
    /// Its body, decoded. Readers ask for it by itself.
    pub body: Option<Bytes>,
}

impl PageRow {
    /// Whether the server said that the page is as it was when it was fetched before.
    pub fn is_unchanged(&self) -> bool {
        self.status == 304
    }

    /// Where redirects ended, if that is not where they began.
    pub(super) fn ended_elsewhere(&self) -> Option<&str> {
        let elsewhere = !self.final_url.is_empty() && self.final_url != self.url;
        elsewhere.then_some(self.final_url.as_str())
    }
}

/// A URL that was not fetched, or whose page was not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalRow {
    /// The URL. There is one row for it.
    pub url: String,
    /// Its host, with the port if that is not the usual one.
    pub host: String,
    /// The stage that refused it.
    pub stage: Option<String>,
    /// The rule that stopped it, such as `robots` or `depth`.
    pub rule: String,
    /// Why, for people, with the line or pattern that decided.
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

/// The rule of those that were known already. It says less than any other, so it replaces none.
pub(super) const SEEN: &str = "seen";

/// The last row of each URL: one statement cannot write a row twice, and the last is what stays.
pub(super) fn last_of_each<'a, R>(rows: &'a [R], url: impl Fn(&'a R) -> &'a str) -> Vec<&'a R> {
    let mut met = std::collections::HashSet::with_capacity(rows.len());
    let mut last: Vec<&R> = rows
        .iter()
        .rev()
        .filter(|row| met.insert(url(row)))
        .collect();
    last.reverse();
    last
}
