//! Looking after what processes left that are gone.

use std::sync::Arc;
use std::time::Duration;

use super::{Shared, outgoing};

const LOOK_TIMEOUT: Duration = Duration::from_secs(10);
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(60);
/// After so many looks the store is tidied up.
const TIDY_EVERY: u32 = 60;

/// Publishes abandoned outboxes, for as long as the bus is there.
pub(super) async fn run(shared: Arc<Shared>, abandoned_after: Duration) {
    let pause = abandoned_after / 3;
    for round in 1_u32.. {
        // All processes look, but not all at once.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        let found = shared.store.abandoned(abandoned_after, LOOK_TIMEOUT).await;
        for bucket in found.unwrap_or_default() {
            let publishing = outgoing::take_over(&shared, &bucket, LOOK_TIMEOUT);
            match tokio::time::timeout(PUBLISH_TIMEOUT, publishing).await {
                Ok(Ok(())) => {}
                // It is found again.
                Ok(Err(error)) => {
                    tracing::warn!(%bucket, %error, "an abandoned outbox is not published yet");
                }
                Err(_) => tracing::warn!(%bucket, "an abandoned outbox is not published yet"),
            }
        }
        if round.is_multiple_of(TIDY_EVERY)
            && let Err(error) = shared.store.tidy(LOOK_TIMEOUT).await
        {
            tracing::debug!(%error, "the shared store is not tidied up");
        }
    }
}
