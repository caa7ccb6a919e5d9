//! What a node is asked about a crawl, and what it answers, as it travels between nodes.

use clap::ValueEnum;
use crawl::store::{ExportForm, ExportOf, Order, PageFilter, StatusRange};
use schemars::JsonSchema;
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
        what: ExportWhat,
        format: ExportFormat,
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
    pub order: PageOrder,
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
            order: self.order.into(),
            rows_max: Some(self.limit),
            after: self.after,
        })
    }
}

/// In which order pages come.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PageOrder {
    /// Those that were fetched last first.
    #[default]
    Newest,
    /// Those that were fetched first first.
    Oldest,
    /// By URL.
    Url,
    /// The longest first.
    Largest,
}

impl From<PageOrder> for Order {
    fn from(order: PageOrder) -> Self {
        match order {
            PageOrder::Newest => Self::Newest,
            PageOrder::Oldest => Self::Oldest,
            PageOrder::Url => Self::Url,
            PageOrder::Largest => Self::Largest,
        }
    }
}

/// In which form something is exported.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExportFormat {
    /// A JSON record a line.
    #[default]
    JsonLines,
    /// Comma-separated values, names first.
    Csv,
}

impl From<ExportFormat> for ExportForm {
    fn from(format: ExportFormat) -> Self {
        match format {
            ExportFormat::JsonLines => Self::JsonLines,
            ExportFormat::Csv => Self::Csv,
        }
    }
}

/// What is exported.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ExportWhat {
    /// Pages without their text.
    #[default]
    Pages,
    /// Pages with their text.
    Text,
    /// URLs that were refused, with the reason.
    Refused,
}

impl From<ExportWhat> for ExportOf {
    fn from(what: ExportWhat) -> Self {
        match what {
            ExportWhat::Pages => Self::Pages,
            ExportWhat::Text => Self::PagesWithText,
            ExportWhat::Refused => Self::Refusals,
        }
    }
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
    fn a_status_that_is_none_is_told() {
        let filter = |status: &str| Filter {
            status: Some(status.to_owned()),
            ..Filter::default()
        };
        assert!(filter("4xx").read().is_ok());
        let refusal = filter("4x").read().unwrap_err();
        assert!(refusal.detail.contains("404, or 4xx"), "{refusal}");
    }

    #[test]
    fn questions_travel_between_nodes() {
        let question = Question::Export {
            flow: "c".to_owned(),
            what: ExportWhat::Refused,
            format: ExportFormat::Csv,
            after: Some(i64::MIN),
        };
        let text = serde_json::to_string(&question).unwrap();
        assert!(text.contains("refused") && text.contains("csv"), "{text}");
        let read: Question = serde_json::from_str(&text).unwrap();
        assert_eq!(read.flow(), "c");
    }
}
