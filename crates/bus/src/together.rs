//! Waiting for many things at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::error::BusError;

/// How many are under way at the same time.
const TOGETHER_MAX: usize = 256;

/// The outcomes of futures, in their order; or the first error among them. They go on side by side.
pub(crate) async fn join_all<F, T>(mut futures: Vec<F>) -> Result<Vec<T>, BusError>
where
    F: Future<Output = Result<T, BusError>> + Unpin,
{
    let mut outcomes = Vec::with_capacity(futures.len());
    while !futures.is_empty() {
        let later = futures.split_off(futures.len().min(TOGETHER_MAX));
        outcomes.append(&mut join_round(futures).await?);
        futures = later;
    }
    Ok(outcomes)
}

async fn join_round<F, T>(futures: Vec<F>) -> Result<Vec<T>, BusError>
where
    F: Future<Output = Result<T, BusError>> + Unpin,
{
    let mut outcomes: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut futures: Vec<(usize, F)> = futures.into_iter().enumerate().collect();
    poll_fn(|context| {
        let mut failed = None;
        // Those that are done leave, so that nobody looks at them again.
        futures.retain_mut(|(place, future)| match Pin::new(future).poll(context) {
            Poll::Pending => true,
            Poll::Ready(Ok(outcome)) => {
                outcomes[*place] = Some(outcome);
                false
            }
            Poll::Ready(Err(error)) => {
                failed.get_or_insert(error);
                false
            }
        });
        match (failed, futures.is_empty()) {
            (Some(error), _) => Poll::Ready(Err(error)),
            (None, true) => Poll::Ready(Ok(())),
            (None, false) => Poll::Pending,
        }
    })
    .await?;
    Ok(outcomes.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Barrier;

    use super::*;

    #[tokio::test]
    async fn all_are_under_way_before_the_first_is_awaited() {
        const COUNT: usize = 100;
        // Nobody passes before all have come.
        let barrier = Arc::new(Barrier::new(COUNT));
        let wait = |number: usize| {
            let barrier = barrier.clone();
            Box::pin(async move {
                barrier.wait().await;
                Ok(number)
            })
        };
        let joined = join_all((0..COUNT).map(wait).collect());
        let joined = tokio::time::timeout(Duration::from_secs(20), joined).await;
        let expected: Vec<usize> = (0..COUNT).collect();
        assert_eq!(joined.unwrap().unwrap(), expected);
    }

    #[tokio::test]
    async fn more_than_go_together_keep_their_order_and_one_error_ends_them() {
        let number = |number: usize| {
            Box::pin(async move {
                match number {
                    usize::MAX => Err(BusError::Refused {
                        reason: "too large".into(),
                    }),
                    number => Ok(number),
                }
            })
        };
        let all = join_all((0..1_000).map(number).collect()).await.unwrap();
        assert_eq!(all, (0..1_000).collect::<Vec<_>>());
        let failed = join_all([1, usize::MAX, 2].map(number).into()).await;
        assert!(failed.unwrap_err().to_string().contains("too large"));
    }
}
