//! The time limits of one fetch, with one timer for all of them.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use url::Url;

use super::error::{FetchError, Phase};
use super::settings::FetchSettings;

/// The time limits of one fetch. What is ready at once never touches the timer: most parts of most answers are.
pub(super) struct Deadline<'a> {
    sleep: Pin<&'a mut Sleep>,
    settings: &'a FetchSettings,
    whole_end: Instant,
}

impl<'a> Deadline<'a> {
    /// The timer for a fetch that begins now; it is pinned by whoever fetches.
    pub fn timer(settings: &FetchSettings) -> Sleep {
        tokio::time::sleep(Duration::from_millis(settings.whole_timeout_ms))
    }

    /// Limits that use this timer.
    pub fn new(sleep: Pin<&'a mut Sleep>, settings: &'a FetchSettings) -> Self {
        Self {
            whole_end: sleep.deadline(),
            sleep,
            settings,
        }
    }

    /// Does this within the time that this phase may take, and all of it together.
    pub async fn within<F: Future>(
        &mut self,
        phase: Phase,
        url: &Url,
        work: F,
    ) -> Result<F::Output, FetchError> {
        let mut work = pin!(work);
        let mut is_armed = false;
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            if !is_armed {
                is_armed = true;
                let end = self.whole_end.min(Instant::now() + self.limit(phase));
                self.sleep.as_mut().reset(end);
            }
            match self.sleep.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(Err(self.over(phase, url))),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    fn limit(&self, phase: Phase) -> Duration {
        Duration::from_millis(self.limit_ms(phase))
    }

    fn limit_ms(&self, phase: Phase) -> u64 {
        match phase {
            Phase::Connect => self.settings.connect_timeout_ms,
            Phase::FirstByte => self.settings.first_byte_timeout_ms,
            Phase::BetweenBytes => self.settings.between_bytes_timeout_ms,
            Phase::FreeConnection | Phase::Whole => self.settings.whole_timeout_ms,
        }
    }

    fn over(&self, phase: Phase, url: &Url) -> FetchError {
        let is_whole = self.sleep.deadline() >= self.whole_end;
        let phase = match phase {
            // Nothing else has a limit there: it is clearer to say what it waited for.
            Phase::FreeConnection => phase,
            _ if is_whole => Phase::Whole,
            _ => phase,
        };
        FetchError::Timeout {
            url: url.to_string(),
            phase,
            limit_ms: self.limit_ms(phase),
        }
    }
}
