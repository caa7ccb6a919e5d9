//! What a crawl has stored on this node. Stores are opened for reading, beside whoever writes.

use crawl::store::{Reader, RefusalRow, StoreError, Why};

use super::Crawl;
use super::question::{ExportFormat, ExportWhat, Exported, Filter, PagePart, WhyFound};
use super::rows::{CrawlHit, CrawlRefusal, CrawlResults};
use crate::deploy::Deployments;
use crate::desk::Refusal;

/// How long the text of one part of an export may become.
const PART_BYTES: usize = 1 << 20;

/// The store; none if nothing was stored here so far.
async fn reader(deployments: &Deployments, crawl: &Crawl) -> Result<Option<Reader>, Refusal> {
    match Reader::open(&crawl.place(deployments)?).await {
        Ok(reader) => Ok(Some(reader)),
        Err(StoreError::Missing(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// How much there is.
pub(super) async fn counts(
    deployments: &Deployments,
    crawl: &Crawl,
) -> Result<CrawlResults, Refusal> {
    match reader(deployments, crawl).await? {
        Some(mut reader) => Ok(reader.counts().await?.into()),
        None => Ok(CrawlResults::default()),
    }
}

/// Pages that fit.
pub(super) async fn pages(
    deployments: &Deployments,
    crawl: &Crawl,
    filter: Filter,
) -> Result<PagePart, Refusal> {
    let filter = filter.read()?;
    let Some(mut reader) = reader(deployments, crawl).await? else {
        return Ok(PagePart::default());
    };
    let listing = reader.pages(&filter).await?;
    Ok(PagePart {
        pages: listing.pages.into_iter().map(Into::into).collect(),
        next: listing.next,
    })
}

/// Pages with these words, the best first.
pub(super) async fn search(
    deployments: &Deployments,
    crawl: &Crawl,
    words: &str,
    hits_max: usize,
) -> Result<Vec<CrawlHit>, Refusal> {
    let Some(mut reader) = reader(deployments, crawl).await? else {
        return Ok(Vec::new());
    };
    let hits = reader.search(words, hits_max).await?;
    Ok(hits.into_iter().map(CrawlHit::from).collect())
}

/// What became of a URL, which is normalised.
pub(super) async fn why(
    deployments: &Deployments,
    crawl: &Crawl,
    url: &str,
) -> Result<WhyFound, Refusal> {
    let Some(mut reader) = reader(deployments, crawl).await? else {
        return Ok(WhyFound::Unknown);
    };
    Ok(match reader.why(url).await? {
        Why::Fetched {
            page,
            refused_since,
        } => WhyFound::Fetched {
            page: Box::new((*page).into()),
            refused_since: refused_since.map(|refusal| with_stage(crawl, refusal)),
        },
        Why::Refused(refusal) => WhyFound::Refused(with_stage(crawl, refusal)),
        Why::Unknown => WhyFound::Unknown,
    })
}

/// A refusal with the stage that it comes from.
fn with_stage(crawl: &Crawl, refusal: RefusalRow) -> CrawlRefusal {
    let mut refusal = CrawlRefusal::from(refusal);
    if refusal.stage.is_none() {
        refusal.stage = crawl.stage_of_rule(&refusal.rule).cloned();
    }
    refusal
}

/// The part of an export after this row.
pub(super) async fn export(
    deployments: &Deployments,
    crawl: &Crawl,
    what: ExportWhat,
    format: ExportFormat,
    after: Option<i64>,
) -> Result<Exported, Refusal> {
    let Some(mut reader) = reader(deployments, crawl).await? else {
        return Ok(Exported::default());
    };
    let mut text = Vec::new();
    let next = reader
        .export_part(what.into(), format.into(), after, PART_BYTES, &mut text)
        .await?;
    let text = String::from_utf8(text)
        .map_err(|_| Refusal::failed("what the store exports is no text, which is a bug"))?;
    Ok(Exported { text, next })
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::NoIndex(_) | StoreError::NoPlace(..) | StoreError::Foreign(_) => {
                Self::conflict(text)
            }
            StoreError::Missing(_) => Self::unknown(text),
            StoreError::Cursor(_) => Self::bad(text),
            StoreError::Slow { .. } => Self::late(text),
            _ => Self::failed(text),
        }
    }
}
