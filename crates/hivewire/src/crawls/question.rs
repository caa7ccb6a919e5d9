//! What a node is asked about a crawl, and what it answers, as it travels between nodes.

use crawl::store::{ExportForm, ExportOf, Order, PageFilter, StatusRange};
use serde::{Deserialize, Serialize};

use super::rows::{CrawlRefusal, CrawledPage};
use crate::desk::Refusal;

/// A question about a crawl. Each node answers for itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Question {
    /// How far it is.
    Numbers { flow: String, hosts_max: usize },
    /// How much it has stored.
    Results { flow: String },
    /// Pages that it has stored.
    Pages { flow: String, filter: Filter },
    /// Pages with these words.
    Search {
        flow: String,
        words: String,
        hits: usize,
    },
    /// What became of a URL.
    Why { flow: String, url: String },
    /// A part of all that it has stored.
    Export {
        flow: String,
        what: String,
        form: String,
        after: Option<i64>,
    },
}

impl Question {
    /// The flow that it is about.
    pub fn flow(&self) -> &str {
        match self {
            Self::Numbers { flow, .. }
            | Self::Results { flow }
            | Self::Pages { flow, .. }
            | Self::Search { flow, .. }
            | Self::Why { flow, .. }
            | Self::Export { flow, .. } => flow,
        }
    }
}

/// Which pages are wanted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Filter {
    pub host: Option<String>,
    pub status: Option<String>,
    pub mime: Option<String>,
    pub since_ms: Option<i64>,
    pub text: Option<String>,
    pub order: Option<String>,
    pub limit: usize,
    pub after: Option<String>,
}

impl Filter {
    /// As the store understands it.
    pub fn read(self) -> Result<PageFilter, Refusal> {
        let status = self.status.as_deref().map(str::parse::<StatusRange>);
        let status = status.transpose();
        Ok(PageFilter {
            host: self.host,
            status: status.map_err(|error| Refusal::bad(format!("status: {error}")))?,
            mime: self.mime,
            since: self.since_ms,
            text: self.text,
            order: order_of(self.order.as_deref())?,
            rows_max: Some(self.limit),
            after: self.after,
        })
    }
}

/// Orders of pages by their names.
const ORDERS: &[(&str, Order)] = &[
    ("newest", Order::Newest),
    ("oldest", Order::Oldest),
    ("url", Order::Url),
    ("largest", Order::Largest),
];

/// The order of this name.
pub(crate) fn order_of(name: Option<&str>) -> Result<Order, Refusal> {
    let Some(name) = name else {
        return Ok(Order::default());
    };
    named("order", ORDERS, name)
}

/// The form of an export of this name.
pub(crate) fn export_form(name: &str) -> Result<ExportForm, Refusal> {
    const FORMS: &[(&str, ExportForm)] = &[
        ("json-lines", ExportForm::JsonLines),
        ("csv", ExportForm::Csv),
    ];
    named("format", FORMS, name)
}

/// What an export of this name holds.
pub(crate) fn export_of(name: &str) -> Result<ExportOf, Refusal> {
    const KINDS: &[(&str, ExportOf)] = &[
        ("pages", ExportOf::Pages),
        ("text", ExportOf::PagesWithText),
        ("refused", ExportOf::Refusals),
    ];
    named("what", KINDS, name)
}

fn named<T: Copy>(what: &str, known: &[(&str, T)], name: &str) -> Result<T, Refusal> {
    let found = known.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Refusal::bad(format!("{what} is one of {}, not {name:?}", names.join(", ")))
    })
}

/// Pages of one node, and where the next ones begin.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PagePart {
    pub pages: Vec<CrawledPage>,
    pub next: Option<String>,
}

/// What became of a URL, as far as a node knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WhyFound {
    Fetched {
        page: Box<CrawledPage>,
        refused_since: Option<CrawlRefusal>,
    },
    Refused(CrawlRefusal),
    Unknown,
}

/// A part of an export.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Exported {
    pub text: String,
    /// Where the next part begins, if there is one.
    pub next: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_told_with_what_is() {
        assert_eq!(order_of(Some("url")).unwrap(), Order::Url);
        assert_eq!(order_of(None).unwrap(), Order::Newest);
        let refusal = export_form("xml").unwrap_err();
        assert!(refusal.detail.contains("json-lines, csv"), "{refusal}");
        assert!(export_of("pages").is_ok() && export_of("bodies").is_err());
        let filter = Filter {
            status: Some("4x".to_owned()),
            ..Filter::default()
        };
        assert!(filter.read().is_err());
    }
}
