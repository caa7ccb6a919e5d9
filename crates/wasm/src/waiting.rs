//! Waiting on the calling thread for a future, never beyond a deadline.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use wasmtime_wasi_io::poll::Pollable;

/// The output of the future, or nothing if it has none in time. No runtime is needed, and it may
/// be called from within one.
pub(crate) fn wait<F: Future>(future: F, time: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    // Most answers are there already; then there is nothing to wake.
    let mut context = Context::from_waker(Waker::noop());
    ALARM.set(None);
    if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
        return Some(output);
    }
    let deadline = Instant::now() + time;
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        ALARM.set(None);
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let now = Instant::now();
        if now >= deadline {
            return None;
        }
        let until = ALARM.get().map_or(deadline, |alarm| alarm.min(deadline));
        std::thread::park_timeout(until.saturating_duration_since(now));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// When [`wait`] must look again on this thread, because an [`Alarm`] goes off then.
    static ALARM: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A point in time that a guest waits for. It is ready from then on, and costs no timer before.
pub(crate) struct Alarm {
    /// When; never if there is none.
    pub(crate) at: Option<Instant>,
}

#[async_trait::async_trait]
impl Pollable for Alarm {
    async fn ready(&mut self) {
        let Some(at) = self.at else {
            return std::future::pending().await;
        };
        std::future::poll_fn(|_| {
            if Instant::now() >= at {
                return Poll::Ready(());
            }
            let earliest = ALARM.get().map_or(at, |alarm| alarm.min(at));
            ALARM.set(Some(earliest));
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_what_comes_and_not_beyond_the_deadline() {
        assert_eq!(wait(async { 7 }, Duration::ZERO), Some(7));
        let start = Instant::now();
        let never = wait(std::future::pending::<()>(), Duration::from_millis(20));
        assert_eq!(never, None);
        assert!(start.elapsed() >= Duration::from_millis(20));
        assert!(start.elapsed() < Duration::from_millis(500));
    }

    #[test]
    fn wakes_when_another_thread_answers() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(move || sender.send(5));
        let got = wait(receiver, Duration::from_secs(20));
        assert_eq!(got, Some(Ok(5)));
        thread.join().unwrap().unwrap();
    }

    #[test]
    fn an_alarm_goes_off_in_time() {
        let start = Instant::now();
        let mut alarm = Alarm {
            at: Some(start + Duration::from_millis(10)),
        };
        assert_eq!(wait(alarm.ready(), Duration::from_secs(20)), Some(()));
        assert!(start.elapsed() >= Duration::from_millis(10));
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
