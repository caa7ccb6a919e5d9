//! Why a URL was fetched or not.

use super::rows::SEEN;
use super::{PageRow, Reader, RefusalRow, StoreError};

/// What became of a URL.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// It was fetched.
    Fetched {
        /// The page, without its body. If its URL is another one, redirects led from there to the one that was asked about.
        page: Box<PageRow>,
        /// What stopped it when it was to be fetched again.
        refused_since: Option<RefusalRow>,
    },
    /// A rule stopped it.
    Refused(RefusalRow),
    /// The store knows nothing of it: no page that was fetched links to it, or it is still to be fetched.
    Unknown,
}

impl Reader {
    /// What became of this URL. It has to be normalised as those in the store.
    pub async fn why(&mut self, url: &str) -> Result<Why, StoreError> {
        let page = self.page(url).await?;
        let refusal = self.refusal(url).await?;
        if page.is_some() || refusal.is_some() {
            return Ok(decide(page, refusal));
        }
        let page = self.page_ending_at(url).await?;
        Ok(decide(page, None))
    }
}

fn decide(page: Option<PageRow>, refusal: Option<RefusalRow>) -> Why {
    match (page, refusal) {
        (Some(page), refusal) => {
            let is_later =
                |refusal: &RefusalRow| refusal.at > page.fetched_at && refusal.rule != SEEN;
            let refused_since = refusal.filter(is_later);
            Why::Fetched {
                page: Box::new(page),
                refused_since,
            }
        }
        (None, Some(refusal)) => Why::Refused(refusal),
        (None, None) => Why::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rule: &str, at: i64) -> Option<RefusalRow> {
        Some(RefusalRow {
            rule: rule.to_owned(),
            at,
            ..RefusalRow::default()
        })
    }

    #[test]
    fn a_page_that_is_there_comes_before_an_earlier_refusal() {
        let page = PageRow {
            fetched_at: 100,
            ..PageRow::default()
        };
        let since = |refusal| match decide(Some(page.clone()), refusal) {
            Why::Fetched { refused_since, .. } => refused_since.map(|refusal| refusal.rule),
            other => panic!("{other:?}"),
        };
        assert_eq!(since(None), None);
        assert_eq!(since(refused("network", 90)), None);
        assert_eq!(since(refused("robots", 110)), Some("robots".to_owned()));
        // That it is known says nothing about why it was not fetched again.
        assert_eq!(since(refused("seen", 110)), None);
        assert!(matches!(
            decide(None, refused("seen", 110)),
            Why::Refused(_)
        ));
        assert_eq!(decide(None, None), Why::Unknown);
    }
}
