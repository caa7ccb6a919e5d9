//! Asks nodes about a crawl.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::merged::AskPages;
use super::{Crawl, ExportFormat, ExportWhat, Exported, Filter, PagePart, Question};
use crate::desk::{Answered, Desk, Refusal, Request};

/// Whose stores are asked: those of all nodes, or just one if they share it, which is called "".
pub(crate) fn sources(desk: &Desk, crawl: &Crawl) -> Vec<String> {
    match crawl.is_store_shared() {
        true => vec![String::new()],
        false => desk.nodes(),
    }
}

/// Asks one of them.
async fn ask_one<T: DeserializeOwned>(
    desk: &Desk,
    source: &str,
    question: Question,
) -> Result<T, Refusal> {
    let node = Some(source).filter(|node| !node.is_empty());
    desk.ask(node, Request::Crawl(question)).await
}

/// Asks all that have a store of their own.
pub(crate) async fn ask_stores<T: DeserializeOwned + Send + 'static>(
    desk: &Arc<Desk>,
    crawl: &Crawl,
    question: Question,
) -> Result<Answered<T>, Refusal> {
    crawl.store()?;
    ask(desk, sources(desk, crawl), question).await
}

/// Asks these.
pub(crate) async fn ask<T: DeserializeOwned + Send + 'static>(
    desk: &Arc<Desk>,
    sources: Vec<String>,
    question: Question,
) -> Result<Answered<T>, Refusal> {
    desk.ask_each(sources, &Request::Crawl(question)).await
}

/// Those that have pages of a crawl.
pub(crate) struct Nodes {
    pub desk: Arc<Desk>,
    pub flow: String,
}

#[async_trait]
impl AskPages for Nodes {
    async fn ask(&self, source: &str, filter: Filter) -> Result<PagePart, Refusal> {
        let flow = self.flow.clone();
        ask_one(&self.desk, source, Question::Pages { flow, filter }).await
    }
}

/// An export that is under way: all rows of all nodes, one node after another.
pub(crate) struct Export {
    pub desk: Arc<Desk>,
    /// Those that are left, the next one last.
    pub sources: Vec<String>,
    pub flow: String,
    pub what: ExportWhat,
    pub format: ExportFormat,
    /// How far the one has come whose turn it is.
    pub after: Option<i64>,
    /// Whether anything was exported so far.
    pub has_begun: bool,
}

impl Export {
    /// The next part; none if that was all. The names of columns come once.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        while let Some(source) = self.sources.last() {
            let question = Question::Export {
                flow: self.flow.clone(),
                what: self.what,
                format: self.format,
                after: self.after,
            };
            let part = ask_one::<Exported>(&self.desk, source, question).await?;
            self.has_begun |= !part.text.is_empty();
            self.after = part.next;
            if part.next.is_none() {
                self.sources.pop();
                // All rows of the next one, without the names of columns if they were sent.
                self.after = self.has_begun.then_some(i64::MIN);
            }
            if !part.text.is_empty() {
                return Ok(Some(part.text.into()));
            }
        }
        Ok(None)
    }
}
