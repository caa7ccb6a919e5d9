//! Crawls as people see them: flows with a frontier, how far they are, and what they have stored.
//!
//! A crawl is what its document says. Each node answers for what it has itself: the URLs of its buckets, and its own store if that is a
//! folder. Whoever is asked by people asks all nodes and puts the answers together; that is `rest/crawls.rs`.

mod asking;
mod document;
mod judge;
pub(crate) mod merged;
mod numbers;
mod question;
mod results;
mod rows;

pub(crate) use self::asking::{Export, Nodes, ask, ask_stores, sources};
pub(crate) use self::document::Crawl;
pub(crate) use self::judge::{Forecast, forecast};
pub(crate) use self::numbers::{CrawlHost, CrawlStage, NodeNumbers};
pub(crate) use self::question::{
    ExportFormat, ExportWhat, Exported, Filter, PageOrder, PagePart, Question, WhyFound,
};
pub(crate) use self::rows::{CrawlHit, CrawlRefusal, CrawlResults, CrawledPage};

use serde::Serialize;
use serde_json::Value;

use crate::deploy::Deployments;
use crate::desk::Refusal;

/// Answers for this node.
pub(crate) async fn answer(
    deployments: &Deployments,
    question: Question,
) -> Result<Value, Refusal> {
    let crawl = Crawl::find(deployments, question.flow()).await?;
    match question {
        Question::Numbers { hosts_max, .. } => {
            value(numbers::of_node(deployments, &crawl, hosts_max))
        }
        Question::Results { .. } => value(results::counts(deployments, &crawl).await?),
        Question::Pages { filter, .. } => value(results::pages(deployments, &crawl, filter).await?),
        Question::Search { words, hits, .. } => {
            value(results::search(deployments, &crawl, &words, hits).await?)
        }
        Question::Why { url, .. } => value(results::why(deployments, &crawl, &url).await?),
        Question::Export {
            what,
            format,
            after,
            ..
        } => value(results::export(deployments, &crawl, what, format, after).await?),
    }
}

fn value(answer: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(answer)
        .map_err(|error| Refusal::failed(format!("it cannot be told: {error}")))
}
