//! What can be asked of a store.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::{PageRow, StoreError};

/// Which pages are wanted.
#[derive(Clone, Debug, Default)]
pub struct PageFilter {
    /// Those of this host.
    pub host: Option<String>,
    /// Those with such a status.
    pub status: Option<StatusRange>,
    /// Those of this kind, such as `text/html`, or `image/` for all that begin so.
    pub mime: Option<String>,
    /// Those that were fetched then or later, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Those that have this in their URL or title; capitals and small letters are the same.
    pub text: Option<String>,
    /// In which order.
    pub order: Order,
    /// At most so many; none means 100.
    pub rows_max: Option<usize>,
    /// What follows [`Listing::next`] of the listing before.
    pub after: Option<String>,
}

/// Statuses from one to another: `404`, or `4xx` for all from 400 to 499.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusRange(pub RangeInclusive<u16>);

/// A text that says no range of statuses.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no status: write 404, or 4xx for all from 400 to 499")]
pub struct StatusRangeError(String);

impl FromStr for StatusRange {
    type Err = StatusRangeError;

    fn from_str(text: &str) -> Result<Self, StatusRangeError> {
        let wrong = || StatusRangeError(text.to_owned());
        let (digits, width) = match text.strip_suffix("xx") {
            Some(digits) => (digits, 100),
            None => (text, 1),
        };
        let wanted = if width == 1 { 3 } else { 1 };
        if digits.len() != wanted || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let first = digits.parse::<u16>().map_err(|_| wrong())? * width;
        Ok(Self(first..=first + width - 1))
    }
}

/// In which order pages are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Those that were fetched last first.
    #[default]
    Newest,
    /// Those that were fetched first first.
    Oldest,
    /// By URL.
    Url,
    /// The longest bodies first.
    Largest,
}

impl Order {
    fn column(self) -> &'static str {
        match self {
            Self::Newest | Self::Oldest => "fetched_at",
            Self::Url => "url",
            Self::Largest => "size",
        }
    }

    fn is_falling(self) -> bool {
        matches!(self, Self::Newest | Self::Largest)
    }
}

/// Some pages, and where the next ones begin.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The pages.
    pub pages: Vec<PageRow>,
    /// For [`PageFilter::after`], if there are more.
    pub next: Option<String>,
}

/// How much a store has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many pages.
    pub pages: u64,
    /// How many bytes their bodies have, kept or not.
    pub bytes: u64,
    /// How much of each host, the one with the most pages first; at most [`Counts::HOSTS_MAX`].
    pub hosts: Vec<HostCounts>,
    /// How many hosts.
    pub hosts_count: u64,
    /// How many pages of each status.
    pub statuses: BTreeMap<u16, u64>,
    /// How many URLs each rule refused.
    pub refusals: BTreeMap<String, u64>,
}

impl Counts {
    /// How many hosts are counted one by one.
    pub const HOSTS_MAX: usize = 1_000;
}

/// How much a store has of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostCounts {
    /// The host.
    pub host: String,
    /// How many pages.
    pub pages: u64,
    /// How many bytes their bodies have.
    pub bytes: u64,
}

/// A page that was found.
#[derive(Clone, Debug)]
pub struct Hit {
    /// The page, without text and body.
    pub page: PageRow,
    /// Where in its text the words are.
    pub snippet: Vec<SnippetPart>,
}

/// A part of a snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnippetPart {
    /// The text.
    pub text: String,
    /// Whether it was asked for.
    pub is_match: bool,
}

/// The signs around what was asked for. No text has them, or hardly any.
pub(super) const MATCH_BEGIN: char = '\u{2}';
pub(super) const MATCH_END: char = '\u{3}';

/// The parts of a text in which matches stand between the signs.
pub(super) fn snippet(marked: &str) -> Vec<SnippetPart> {
    let mut parts = Vec::new();
    let mut is_match = false;
    for text in marked.split([MATCH_BEGIN, MATCH_END]) {
        if !text.is_empty() {
            let text = text.to_owned();
            parts.push(SnippetPart { text, is_match });
        }
        is_match = !is_match;
    }
    parts
}

/// The value of a place in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Text(String),
    Int(i64),
}

/// The columns of a page without text and body, as [`PageRow`] has them, with the number of the row in front.
pub(super) const PAGE_COLUMNS: &str = "id, url, final_url, host, depth, from_url, status, mime, charset, size, fetched_at, took_ms, \
     node, title, language, description, hash, simhash, headers, fields, fetches";

/// How many of [`PAGE_COLUMNS`] there are.
pub(super) const PAGE_COLUMNS_COUNT: usize = 21;

/// The columns of a refusal, as [`super::RefusalRow`] has them, with the number of the row in front.
pub(super) const REFUSAL_COLUMNS: &str =
    "id, url, host, stage, rule, reason, from_url, depth, at, node";

const ROWS_USUAL: usize = 100;
const ROWS_MAX: usize = 10_000;

impl PageFilter {
    pub(super) fn rows_max(&self) -> usize {
        self.rows_max.unwrap_or(ROWS_USUAL).min(ROWS_MAX)
    }

    /// The statement for pages that fit, which gives one more than wanted so that it is known whether there are more. Places
    /// are `$1`, `$2`, and so on, in the order of the values: SQLite and PostgreSQL understand that.
    pub(super) fn statement(&self, table: &str) -> Result<(String, Vec<Given>), StoreError> {
        let mut given = Vec::new();
        let conditions = self.conditions(&mut given)?;
        let mut sql = format!("SELECT {PAGE_COLUMNS} FROM {table}");
        if !conditions.is_empty() {
            sql = format!("{sql} WHERE {}", conditions.join(" AND "));
        }
        let direction = if self.order.is_falling() {
            "DESC"
        } else {
            "ASC"
        };
        let column = self.order.column();
        let rows = self.rows_max() + 1;
        sql = format!("{sql} ORDER BY {column} {direction}, id {direction} LIMIT {rows}");
        Ok((sql, given))
    }

    fn conditions(&self, given: &mut Vec<Given>) -> Result<Vec<String>, StoreError> {
        let mut conditions = Vec::new();
        let mut add = |value: Given, condition: &dyn Fn(usize) -> String| {
            given.push(value);
            conditions.push(condition(given.len()));
        };
        if let Some(host) = &self.host {
            add(Given::Text(host.clone()), &|at| format!("host = ${at}"));
        }
        if let Some(StatusRange(range)) = &self.status {
            add(Given::Int((*range.start()).into()), &|at| {
                format!("status >= ${at}")
            });
            add(Given::Int((*range.end()).into()), &|at| {
                format!("status <= ${at}")
            });
        }
        match &self.mime {
            Some(mime) if mime.ends_with('/') => {
                let begins = format!("{}%", escaped(mime));
                add(Given::Text(begins), &|at| {
                    format!("mime LIKE ${at} ESCAPE '\\'")
                });
            }
            Some(mime) => add(Given::Text(mime.clone()), &|at| format!("mime = ${at}")),
            None => {}
        }
        if let Some(since) = self.since {
            add(Given::Int(since), &|at| format!("fetched_at >= ${at}"));
        }
        if let Some(text) = &self.text {
            let like = Given::Text(format!("%{}%", escaped(&text.to_lowercase())));
            add(like, &|at| {
                format!(
                    "(lower(url) LIKE ${at} ESCAPE '\\' OR lower(title) LIKE ${at} ESCAPE '\\')"
                )
            });
        }
        if let Some(after) = &self.after {
            let (id, value) = self.read_cursor(after)?;
            let sign = if self.order.is_falling() { "<" } else { ">" };
            let column = self.order.column();
            // The value and then the number, so that rows with the same value are told apart.
            add(value, &|at| {
                format!("({column}, id) {sign} (${at}, ${})", at + 1)
            });
            given.push(Given::Int(id));
        }
        Ok(conditions)
    }

    fn read_cursor(&self, text: &str) -> Result<(i64, Given), StoreError> {
        let wrong = || StoreError::Cursor(text.to_owned());
        let (id, value) = text.split_once(':').ok_or_else(wrong)?;
        let id = id.parse().map_err(|_| wrong())?;
        let value = match self.order {
            Order::Url => Given::Text(value.to_owned()),
            _ => Given::Int(value.parse().map_err(|_| wrong())?),
        };
        Ok((id, value))
    }

    /// The listing of what the statement gave.
    pub(super) fn listing(&self, mut rows: Vec<(i64, PageRow)>) -> Listing {
        let are_more = rows.len() > self.rows_max();
        rows.truncate(self.rows_max());
        let next = rows
            .last()
            .filter(|_| are_more)
            .map(|(id, page)| match self.order {
                Order::Url => format!("{id}:{}", page.url),
                Order::Largest => format!("{id}:{}", page.size),
                Order::Newest | Order::Oldest => format!("{id}:{}", page.fetched_at),
            });
        let pages = rows.into_iter().map(|(_, page)| page).collect();
        Listing { pages, next }
    }
}

/// A text whose signs mean themselves behind LIKE.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for sign in text.chars() {
        if matches!(sign, '%' | '_' | '\\') {
            escaped.push('\\');
        }
        escaped.push(sign);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_one_or_a_hundred() {
        assert_eq!("404".parse(), Ok(StatusRange(404..=404)));
        assert_eq!("4xx".parse(), Ok(StatusRange(400..=499)));
        for wrong in ["", "xx", "4x", "44xx", "40", "+40", "4000", "٤٠٤"] {
            assert!(wrong.parse::<StatusRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn snippets_are_told_apart() {
        let part = |text: &str, is_match| SnippetPart {
            text: text.to_owned(),
            is_match,
        };
        assert_eq!(
            snippet("a \u{2}bee\u{3} flies"),
            [part("a ", false), part("bee", true), part(" flies", false)]
        );
        assert_eq!(snippet("\u{2}bee"), [part("bee", true)]);
        assert!(snippet("").is_empty());
    }

    #[test]
    fn a_cursor_that_is_not_ours_is_told() {
        for wrong in ["", "7", "x:7", "7:x"] {
            let filter = PageFilter {
                after: Some(wrong.to_owned()),
                ..PageFilter::default()
            };
            let told = filter.statement("pages").unwrap_err();
            assert!(matches!(told, StoreError::Cursor(text) if text == wrong));
        }
    }
}
