//! Answers of several nodes as one.

use std::cmp;
use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;

use super::judge::Forecast;
use super::question::{Filter, PageOrder, PagePart, WhyFound};
use super::rows::{CrawlHit, CrawledPage};
use crate::desk::Refusal;

/// How far a listing has come at each node; without a text, at its beginning. Nodes that have no more are left out.
#[derive(Debug, Default)]
pub(crate) struct Positions(BTreeMap<String, Option<String>>);

impl Positions {
    /// Where a listing goes on after another, or begins.
    pub fn read(after: Option<&str>, sources: Vec<String>) -> Result<Self, Refusal> {
        let Some(after) = after else {
            let begin = sources.into_iter().map(|source| (source, None));
            return Ok(Self(begin.collect()));
        };
        let positions = serde_json::from_str(after);
        let positions: BTreeMap<String, Option<String>> =
            positions.map_err(|_| Refusal::bad("after is the `next` of the page before"))?;
        // A node that is gone would only be missing.
        let known = positions
            .into_iter()
            .filter(|(node, _)| sources.contains(node));
        Ok(Self(known.collect()))
    }

    fn next(self) -> Option<String> {
        match self.0.is_empty() {
            true => None,
            false => serde_json::to_string(&self.0).ok(),
        }
    }
}

/// Pages of all nodes in one order.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    pub pages: Vec<CrawledPage>,
    pub next: Option<String>,
    /// Nodes whose pages are missing, and why.
    pub missing: BTreeMap<String, String>,
}

/// Asks a node for pages.
#[async_trait]
pub(crate) trait AskPages: Send + Sync {
    /// Those of this node that fit.
    async fn ask(&self, source: &str, filter: Filter) -> Result<PagePart, Refusal>;
}

/// Asks every node for as many pages as are wanted, and takes the first of all. A node of which not all were taken is asked once
/// more, for just those, as it alone can say where the next ones begin.
pub(crate) async fn pages(
    begun: Positions,
    filter: Filter,
    nodes: &dyn AskPages,
) -> Result<Merged, Refusal> {
    let is_alone = begun.0.len() == 1;
    let mut merged = Merged::default();
    let mut parts = Vec::new();
    for (source, after) in begun.0 {
        let wanted = Filter {
            after: after.clone(),
            ..filter.clone()
        };
        match nodes.ask(&source, wanted).await {
            Ok(part) => parts.push(Part {
                source,
                after,
                next: part.next,
                count: part.pages.len(),
                pages: part.pages.into(),
            }),
            Err(refusal) if is_alone => return Err(refusal),
            Err(refusal) => {
                merged.missing.insert(source, refusal.detail);
            }
        }
    }
    while merged.pages.len() < filter.limit {
        let first = parts.iter_mut().filter(|part| !part.pages.is_empty());
        let first = first.min_by(|a, b| compare(filter.order, &a.pages[0], &b.pages[0]));
        let Some(page) = first.and_then(|part| part.pages.pop_front()) else {
            break;
        };
        merged.pages.push(page);
    }
    let mut next = Positions::default();
    for part in parts {
        let taken = part.count - part.pages.len();
        let position = match (part.pages.is_empty(), taken) {
            (true, _) => part.next,
            (false, 0) => {
                next.0.insert(part.source, part.after);
                continue;
            }
            (false, taken) => {
                let again = Filter {
                    after: part.after,
                    limit: taken,
                    ..filter.clone()
                };
                nodes.ask(&part.source, again).await?.next
            }
        };
        if position.is_some() {
            next.0.insert(part.source, position);
        }
    }
    merged.next = next.next();
    Ok(merged)
}

/// What one node gave.
struct Part {
    source: String,
    after: Option<String>,
    next: Option<String>,
    count: usize,
    pages: VecDeque<CrawledPage>,
}

fn compare(order: PageOrder, a: &CrawledPage, b: &CrawledPage) -> cmp::Ordering {
    match order {
        PageOrder::Newest => b.fetched_at.cmp(&a.fetched_at),
        PageOrder::Oldest => a.fetched_at.cmp(&b.fetched_at),
        PageOrder::Url => a.url.cmp(&b.url),
        PageOrder::Largest => b.size.cmp(&a.size),
    }
}

/// The best of each node, then the second of each, and so on: how good they are cannot be compared between nodes.
pub(crate) fn in_turn(parts: Vec<Vec<CrawlHit>>, hits_max: usize) -> Vec<CrawlHit> {
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let mut hits = Vec::new();
    loop {
        let before = hits.len();
        hits.extend(parts.iter_mut().filter_map(Iterator::next));
        if hits.len() == before || hits.len() >= hits_max {
            hits.truncate(hits_max);
            return hits;
        }
    }
}

/// The latest that is known of a URL. What was fetched says more than what was refused.
pub(crate) fn why(found: Vec<WhyFound>) -> WhyFound {
    let rank = |found: &WhyFound| match found {
        WhyFound::Fetched { page, .. } => (2, page.fetched_at),
        WhyFound::Refused(refusal) => (1, refusal.at),
        WhyFound::Unknown => (0, 0),
    };
    let best = found.into_iter().max_by_key(rank);
    best.unwrap_or(WhyFound::Unknown)
}

impl WhyFound {
    /// All of it in one sentence.
    pub fn sentence(&self, url: &str, forecast: &Forecast) -> String {
        let by = |stage: &Option<String>| match stage {
            Some(stage) => format!(" by the stage {stage}"),
            None => String::new(),
        };
        match self {
            Self::Fetched {
                page,
                refused_since,
            } => {
                let way = match page.url == url {
                    true => String::new(),
                    false => format!(" through {}, which redirects to it,", page.url),
                };
                let since = refused_since.as_ref().map_or(String::new(), |refusal| {
                    format!(
                        "; since then the rule {} refuses it: {}",
                        refusal.rule, refusal.reason
                    )
                });
                format!(
                    "it was fetched{way} with the status {}{}{since}",
                    page.status,
                    on(&page.node)
                )
            }
            Self::Refused(refusal) => format!(
                "it was refused{}{} by the rule {}: {}",
                by(&refusal.stage),
                on(&refusal.node),
                refusal.rule,
                refusal.reason
            ),
            Self::Unknown => match &forecast.rule {
                Some(rule) => format!(
                    "nothing is stored about it, and it would be refused{} by the rule {rule}: {}",
                    by(&forecast.stage),
                    forecast.reason
                ),
                None => format!(
                    "nothing is stored about it: it waits to be fetched, or no page that was fetched links to it; {}",
                    forecast.reason
                ),
            },
        }
    }
}

/// A node that stands alone has no name.
fn on(node: &str) -> String {
    match node.is_empty() {
        true => String::new(),
        false => format!(" on the node {node}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::rows::CrawlRefusal;
    use super::*;

    fn page(url: &str, fetched_at: i64) -> CrawledPage {
        CrawledPage {
            url: url.to_owned(),
            fetched_at,
            ..CrawledPage::default()
        }
    }

    /// Nodes whose pages are the numbers that they are called after, and whose cursors are counts. One is silent.
    #[derive(Default)]
    struct Nodes(AtomicUsize);

    #[async_trait]
    impl AskPages for Nodes {
        async fn ask(&self, source: &str, filter: Filter) -> Result<PagePart, Refusal> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if source == "silent" {
                return Err(Refusal::late("too slow"));
            }
            let all: Vec<i64> = source
                .split(' ')
                .map(|number| number.parse().unwrap())
                .collect();
            let from = filter.after.map_or(0, |after| after.parse().unwrap());
            let to = all.len().min(from + filter.limit);
            let pages = all[from..to].iter();
            Ok(PagePart {
                pages: pages.map(|at| page(&at.to_string(), *at)).collect(),
                next: (to < all.len()).then(|| to.to_string()),
            })
        }
    }

    async fn all_of(sources: &[&str], limit: usize, nodes: &Nodes) -> Vec<i64> {
        let sources: Vec<String> = sources.iter().map(|source| (*source).to_owned()).collect();
        let filter = Filter {
            limit,
            ..Filter::default()
        };
        let (mut after, mut all) = (None, Vec::new());
        loop {
            let begun = Positions::read(after.as_deref(), sources.clone()).unwrap();
            let merged = pages(begun, filter.clone(), nodes).await.unwrap();
            assert!(merged.pages.len() <= limit);
            all.extend(merged.pages.iter().map(|page| page.fetched_at));
            match merged.next {
                Some(next) => after = Some(next),
                None => return all,
            }
        }
    }

    #[tokio::test]
    async fn pages_of_all_nodes_come_in_one_order_and_each_once() {
        let sources = ["9 8 4 1", "7 6 5", "3 2"];
        for limit in [1, 2, 3, 4, 100] {
            let all = all_of(&sources, limit, &Nodes::default()).await;
            assert_eq!(all, [9, 8, 7, 6, 5, 4, 3, 2, 1]);
        }
        let nodes = Nodes::default();
        assert_eq!(all_of(&sources[..1], 2, &nodes).await, [9, 8, 4, 1]);
        let asked = nodes.0.load(Ordering::Relaxed);
        assert_eq!(asked, 2, "one node is asked once for each page");
    }

    #[tokio::test]
    async fn a_node_that_does_not_answer_is_named() {
        let filter = Filter {
            limit: 5,
            ..Filter::default()
        };
        let sources = vec!["1".to_owned(), "silent".to_owned()];
        let begun = Positions::read(None, sources).unwrap();
        let nodes = Nodes::default();
        let merged = pages(begun, filter, &nodes).await.unwrap();
        let missing = merged.missing["silent"].as_str();
        assert_eq!((merged.pages.len(), missing), (1, "too slow"));
        assert!(Positions::read(Some("x"), Vec::new()).is_err());
    }

    #[test]
    fn what_was_fetched_says_more_than_what_was_refused() {
        let refused = |at| {
            WhyFound::Refused(CrawlRefusal {
                rule: "robots".to_owned(),
                reason: "line 3".to_owned(),
                at,
                ..CrawlRefusal::default()
            })
        };
        let fetched = WhyFound::Fetched {
            page: Box::new(page("u", 5)),
            refused_since: None,
        };
        let forecast = Forecast {
            stage: None,
            rule: None,
            reason: "passes".to_owned(),
        };
        let best = why(vec![refused(9), fetched, WhyFound::Unknown]);
        assert!(
            best.sentence("u", &forecast)
                .starts_with("it was fetched with")
        );
        assert!(best.sentence("v", &forecast).contains("through u"));
        let best = why(vec![refused(9), refused(7), WhyFound::Unknown]);
        assert!(matches!(&best, WhyFound::Refused(refusal) if refusal.at == 9));
        assert!(best.sentence("u", &forecast).contains("robots: line 3"));
        assert!(why(Vec::new()).sentence("u", &forecast).contains("passes"));
    }
}
