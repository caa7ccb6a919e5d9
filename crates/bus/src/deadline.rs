//! One timeout for a call of many steps.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::BusError;

/// When a call must end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    timeout: Duration,
}

/// The time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elapsed;

impl Deadline {
    pub fn after(timeout: Duration) -> Self {
        Self {
            at: Instant::now() + timeout,
            timeout,
        }
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// How much time is left.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Waits for `future` as long as there is time.
    pub async fn limit<T>(&self, future: impl Future<Output = T>) -> Result<T, Elapsed> {
        let limited = tokio::time::timeout_at(self.at, future).await;
        limited.map_err(|_| Elapsed)
    }

    /// The error of a call that did nothing in time.
    pub fn timeout(&self, what: impl Into<String>, reason: impl Into<String>) -> BusError {
        BusError::Timeout {
            what: what.into(),
            waited: self.timeout,
            reason: reason.into(),
        }
    }

    /// The error of a call that did something and learned no more of it.
    pub fn in_doubt(&self, what: impl Into<String>, reason: impl Into<String>) -> BusError {
        BusError::InDoubt {
            what: what.into(),
            waited: self.timeout,
            reason: reason.into(),
        }
    }
}
