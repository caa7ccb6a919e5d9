//! `/api/v1/crawls`: how far crawls are, and what they have stored.
//!
//! Every node answers for what it has itself (`crates/hivewire/src/crawls`); here the answers are put together.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_lite::stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::{Node, Running};
use super::etag::Tagged;
use super::paging::{LIMIT_MAX, checked, limit_of, next_of};
use super::problem::Problem;
use super::views::bad_query;
use crate::crawls::{
    Crawl, CrawlHit, CrawlHost, CrawlRefusal, CrawlResults, CrawlStage, CrawledPage, Export,
    ExportFormat, ExportWhat, Filter, Forecast, NodeNumbers, Nodes, PageOrder, Question, WhyFound,
    ask, ask_stores, forecast, merged, sources,
};
use crate::desk::Answered;

pub(super) const JSON_LINES: &str = "application/x-ndjson";
pub(super) const CSV: &str = "text/csv; charset=utf-8";

const HOSTS_DEFAULT: usize = 20;
const HOSTS_MAX: usize = 1_000;
const PAGES_DEFAULT: usize = 100;
const PAGES_MAX: usize = 1_000;
const HITS_DEFAULT: usize = 20;
const HITS_MAX: usize = 1_000;
const WORDS_BYTES_MAX: usize = 1_000;
const URL_BYTES_MAX: usize = 16 << 10;
/// Between two looks at a crawl that seems to be over: what is on its way between two stages is nowhere to be seen for a moment.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

type FlowPath = Result<Path<String>, PathRejection>;

fn flow_of(path: FlowPath) -> Result<String, Problem> {
    let Path(flow) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    Ok(flow)
}

/// Which crawls somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CrawlsQuery {
    /// The `next` of the page before.
    after: Option<String>,
    /// How many at most: 1,000 unless it says otherwise, and never more than 10,000.
    #[schemars(range(max = LIMIT_MAX))]
    limit: Option<usize>,
}

/// Crawls in the order of their names.
#[derive(Serialize, JsonSchema)]
pub(super) struct CrawlPage {
    crawls: Vec<CrawlListed>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

/// A crawl.
#[derive(Serialize, JsonSchema)]
pub(super) struct CrawlListed {
    flow: String,
    description: String,
    /// Where it stores pages, without passwords; null if it does not.
    store: Option<String>,
    /// Whether any of its stages runs.
    runs: bool,
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<CrawlsQuery>, QueryRejection>,
) -> Result<Tagged<CrawlPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = limit_of(query.limit)?;
    let records = running.deployments.flow_documents().await?;
    let crawls = records
        .into_iter()
        .filter_map(|record| Crawl::of(record.document));
    let after = |crawl: &Crawl| {
        query
            .after
            .as_deref()
            .is_none_or(|after| crawl.flow() > after)
    };
    let listed = crawls.filter(after).map(|crawl| CrawlListed {
        flow: crawl.flow().to_owned(),
        description: crawl.document().description.clone(),
        store: shown_place(&running, &crawl),
        runs: crawl
            .addresses()
            .any(|(stage, _)| running.deployments.exists(&stage)),
    });
    let (crawls, next) = next_of(listed.collect(), limit, |crawl| crawl.flow.clone());
    Ok(Tagged(CrawlPage { crawls, next }))
}

fn shown_place(running: &Running, crawl: &Crawl) -> Option<String> {
    let place = crawl.place(&running.deployments).ok()?;
    Some(place.to_string())
}

/// What of a crawl somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CrawlQuery {
    /// How many hosts at most: 20 unless it says otherwise.
    #[schemars(range(max = HOSTS_MAX))]
    hosts: Option<usize>,
    /// Whether what was stored is counted, too, which takes a while if it is much.
    #[serde(default)]
    results: bool,
}

/// How far a crawl is, on all nodes together.
#[derive(Serialize, JsonSchema)]
pub(super) struct CrawlShown {
    flow: String,
    /// Whether nothing is left to do: the seed has given everything, and no URL waits or the budget is used up.
    over: bool,
    /// URLs that wait or are under way.
    waiting: u64,
    /// Of these, how many are under way.
    under_way: u64,
    /// Requests that were answered.
    fetched: u64,
    /// Requests that failed for good.
    failed: u64,
    /// Hosts for which most waits, first.
    hosts: Vec<CrawlHost>,
    /// Its stages, in the order of their names.
    stages: Vec<CrawlStage>,
    /// Where it stores pages, without passwords; null if it does not.
    store: Option<String>,
    /// How much it has stored; null if that was not asked for.
    results: Option<CrawlResults>,
    /// Nodes whose numbers are missing, and why.
    missing: BTreeMap<String, String>,
}

pub(super) async fn show(
    Node(running): Node,
    path: FlowPath,
    query: Result<Query<CrawlQuery>, QueryRejection>,
) -> Result<Json<CrawlShown>, Problem> {
    let flow = flow_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let hosts_max = checked(query.hosts, HOSTS_DEFAULT, HOSTS_MAX)?;
    let crawl = Crawl::find(&running.deployments, &flow).await?;
    let look = || async {
        let question = Question::Numbers {
            flow: flow.clone(),
            hosts_max,
        };
        let Answered { answers, missing } =
            ask(&running.desk, running.desk.nodes(), question).await?;
        let parts = answers.into_iter().map(|(_, numbers)| numbers).collect();
        Ok::<_, Problem>((NodeNumbers::sum(parts, hosts_max), missing))
    };
    let (mut numbers, mut missing) = look().await?;
    let rests = |numbers: &NodeNumbers| numbers.is_at_rest(crawl.pages_max());
    let mut over = false;
    if rests(&numbers) && missing.is_empty() {
        tokio::time::sleep(LOOK_AGAIN).await;
        let turns = numbers.turns();
        (numbers, missing) = look().await?;
        over = rests(&numbers) && missing.is_empty() && numbers.turns() == turns;
    }
    let results = match query.results && crawl.store().is_ok() {
        true => Some(results_of(&running, &crawl, &mut missing).await?),
        false => None,
    };
    Ok(Json(CrawlShown {
        flow,
        over,
        waiting: numbers.waiting,
        under_way: numbers.under_way,
        fetched: numbers.fetched,
        failed: numbers.failed,
        hosts: numbers.hosts,
        stages: numbers.stages,
        store: shown_place(&running, &crawl),
        results,
        missing,
    }))
}

async fn results_of(
    running: &Running,
    crawl: &Crawl,
    missing: &mut BTreeMap<String, String>,
) -> Result<CrawlResults, Problem> {
    let flow = crawl.flow().to_owned();
    let answered = ask_stores(&running.desk, crawl, Question::Results { flow }).await?;
    missing.extend(answered.missing);
    let mut all = CrawlResults::default();
    for (_, part) in &answered.answers {
        all.add(part);
    }
    Ok(all)
}

/// Which pages somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PagesQuery {
    /// Those of this host.
    host: Option<String>,
    /// Those with this status: `404`, or `4xx` for all from 400 to 499.
    status: Option<String>,
    /// Those of this kind, such as `text/html`, or `image/` for all that begin so.
    mime: Option<String>,
    /// Those that were fetched then or later, in milliseconds since 1970.
    since_ms: Option<i64>,
    /// Those that have this in their URL or title.
    q: Option<String>,
    /// In which order; `newest` unless it says otherwise.
    #[serde(default)]
    order: PageOrder,
    /// The `next` of the page before.
    after: Option<String>,
    /// How many at most: 100 unless it says otherwise, and never more than 1,000.
    #[schemars(range(max = PAGES_MAX))]
    limit: Option<usize>,
}

/// Pages of a crawl.
#[derive(Serialize, JsonSchema)]
pub(super) struct CrawledPages {
    pages: Vec<CrawledPage>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
    /// Nodes whose pages are missing, and why.
    missing: BTreeMap<String, String>,
}

pub(super) async fn pages(
    Node(running): Node,
    path: FlowPath,
    query: Result<Query<PagesQuery>, QueryRejection>,
) -> Result<Json<CrawledPages>, Problem> {
    let flow = flow_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, PAGES_DEFAULT, PAGES_MAX)?;
    let crawl = Crawl::find(&running.deployments, &flow).await?;
    let filter = Filter {
        host: query.host,
        status: query.status,
        mime: query.mime,
        since_ms: query.since_ms,
        text: query.q,
        order: query.order,
        limit,
        after: None,
    };
    let begun = merged::Positions::read(query.after.as_deref(), sources(&running.desk, &crawl))?;
    let nodes = Nodes {
        desk: running.desk.clone(),
        flow,
    };
    let merged::Merged {
        pages,
        next,
        missing,
    } = merged::pages(begun, filter, &nodes).await?;
    Ok(Json(CrawledPages {
        pages,
        next,
        missing,
    }))
}

/// What is looked for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchQuery {
    /// Words. `"words in quotes"` stand together, `-word` must not be there, `or` gives a choice.
    query: String,
    /// How many pages at most: 20 unless it says otherwise, and never more than 1,000.
    #[schemars(range(max = HITS_MAX))]
    limit: Option<usize>,
}

/// Pages that were found, the best first.
#[derive(Serialize, JsonSchema)]
pub(super) struct CrawlHits {
    hits: Vec<CrawlHit>,
    /// Nodes whose pages are missing, and why.
    missing: BTreeMap<String, String>,
}

pub(super) async fn search(
    Node(running): Node,
    path: FlowPath,
    query: Result<Query<SearchQuery>, QueryRejection>,
) -> Result<Json<CrawlHits>, Problem> {
    let flow = flow_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, HITS_DEFAULT, HITS_MAX)?;
    if query.query.trim().is_empty() || query.query.len() > WORDS_BYTES_MAX {
        return Err(Problem::bad_request(format!(
            "query says what to look for, in 1 to {WORDS_BYTES_MAX} bytes"
        )));
    }
    let crawl = Crawl::find(&running.deployments, &flow).await?;
    let question = Question::Search {
        flow,
        words: query.query,
        hits: limit,
    };
    let Answered { answers, missing } = ask_stores(&running.desk, &crawl, question).await?;
    let parts = answers.into_iter().map(|(_, hits)| hits).collect();
    let hits = merged::in_turn(parts, limit);
    Ok(Json(CrawlHits { hits, missing }))
}

/// Which URL is meant.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhyQuery {
    /// The URL.
    url: String,
}

/// What became of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fate {
    /// It was fetched.
    Fetched,
    /// A rule stopped it.
    Refused,
    /// Nothing is stored about it: it waits, or no page that was fetched links to it.
    Unknown,
}

/// Why a URL was fetched or not.
#[derive(Serialize, JsonSchema)]
pub(super) struct WhyShown {
    /// The URL as the crawl writes it.
    url: String,
    fate: Fate,
    /// All of it in one sentence.
    sentence: String,
    /// The page, if it was fetched.
    page: Option<CrawledPage>,
    /// What stopped it, or what stopped it when it was to be fetched again.
    refusal: Option<CrawlRefusal>,
    /// What would become of it if a page linked to it, if nothing is stored about it.
    forecast: Option<Forecast>,
    /// Nodes that did not answer, and why.
    missing: BTreeMap<String, String>,
}

pub(super) async fn why(
    Node(running): Node,
    path: FlowPath,
    query: Result<Query<WhyQuery>, QueryRejection>,
) -> Result<Json<WhyShown>, Problem> {
    let flow = flow_of(path)?;
    let Query(WhyQuery { url }) = query.map_err(bad_query)?;
    if url.is_empty() || url.len() > URL_BYTES_MAX {
        return Err(Problem::bad_request(format!(
            "url has 1 to {URL_BYTES_MAX} bytes"
        )));
    }
    let crawl = Crawl::find(&running.deployments, &flow).await?;
    let (normalised, forecast) = forecast(&crawl, &url);
    let url = normalised.unwrap_or(url);
    let question = Question::Why {
        flow,
        url: url.clone(),
    };
    let Answered { answers, missing } = ask_stores(&running.desk, &crawl, question).await?;
    let found = merged::why(answers.into_iter().map(|(_, found)| found).collect());
    let sentence = found.sentence(&url, &forecast);
    let (fate, page, refusal, forecast) = match found {
        WhyFound::Fetched {
            page,
            refused_since,
        } => (Fate::Fetched, Some(*page), refused_since, None),
        WhyFound::Refused(refusal) => (Fate::Refused, None, Some(refusal), None),
        WhyFound::Unknown => (Fate::Unknown, None, None, Some(forecast)),
    };
    Ok(Json(WhyShown {
        url,
        fate,
        sentence,
        page,
        refusal,
        forecast,
        missing,
    }))
}

/// What is exported, and how.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportQuery {
    /// In which form; `json-lines` unless it says otherwise.
    #[serde(default)]
    format: ExportFormat,
    /// What; `pages` unless it says otherwise.
    #[serde(default)]
    what: ExportWhat,
}

/// All rows of all nodes, one node after another. If a part cannot be had, the answer breaks off, so that nobody takes it for whole.
pub(super) async fn export(
    Node(running): Node,
    path: FlowPath,
    query: Result<Query<ExportQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let flow = flow_of(path)?;
    let Query(query) = query.map_err(bad_query)?;
    let kind = match query.format {
        ExportFormat::JsonLines => JSON_LINES,
        ExportFormat::Csv => CSV,
    };
    let crawl = Crawl::find(&running.deployments, &flow).await?;
    crawl.store()?;
    let export = Export {
        desk: running.desk.clone(),
        sources: sources(&running.desk, &crawl),
        flow,
        what: query.what,
        format: query.format,
        after: None,
        has_begun: false,
    };
    let parts = stream::unfold(Some(export), async |export| {
        let mut export = export?;
        match export.next().await {
            Ok(Some(part)) => Some((Ok(part), Some(export))),
            Ok(None) => None,
            Err(refusal) => Some((Err(std::io::Error::other(refusal.detail)), None)),
        }
    });
    Ok(([(header::CONTENT_TYPE, kind)], Body::from_stream(parts)).into_response())
}
