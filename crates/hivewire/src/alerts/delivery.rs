//! Receivers, and how letters get to them: each has a queue of its own and is tried several times, and
//! none of them holds up another, or whoever writes the letters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kernel::metrics::{Counter, Gauge, Registry};
use kernel::{Clock, Timestamp};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::letter::Letter;
use super::settings::AlertSettings;

/// What alerts count.
#[derive(Clone, Debug, Default)]
pub(crate) struct AlertCounters {
    sent: Counter,
    failed: Counter,
    firing: Gauge,
}

impl AlertCounters {
    /// Registers them all.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "alert_notices_sent",
            "Notices that a receiver has taken",
            self.sent.clone(),
        );
        registry.register(
            "alert_notices_failed",
            "Notices that a receiver did not take, or that had no room to wait for it",
            self.failed.clone(),
        );
        registry.register(
            "alerts_firing",
            "Alerts that fire and are not silenced",
            self.firing.clone(),
        );
    }

    pub fn set_firing(&self, alerts: usize) {
        self.firing.set(alerts as i64);
    }
}

/// Carries letters to one place.
pub(super) trait Carrier: Send + Sync {
    /// Carries a letter there. Blocks, but not for long.
    fn carry(&self, letter: &Letter) -> Result<(), CarryError>;
}

/// Why a letter did not get there.
#[derive(Clone, Debug)]
pub(super) struct CarryError {
    pub reason: String,
    /// Whether the same would happen again.
    pub is_final: bool,
}

/// Somebody who is told.
pub(super) struct Receiver {
    /// What it is called for people, without what may be secret.
    shown: String,
    carrier: Arc<dyn Carrier>,
    record: Mutex<Record>,
    counters: AlertCounters,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug, Default)]
struct Record {
    sent: u64,
    failed: u64,
    last_failure: Option<(Timestamp, String)>,
}

/// How it went with a receiver so far.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ReceiverShown {
    pub receiver: String,
    pub sent: u64,
    pub failed: u64,
    pub last_failure: Option<String>,
    pub last_failure_at_ms: Option<u64>,
}

/// What came of a test.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Tested {
    pub receiver: String,
    pub sent: bool,
    pub failure: Option<String>,
}

/// How often a letter is tried, and how long is waited in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub tries_max: u32,
    pub wait_min: Duration,
    pub wait_max: Duration,
}

impl Retry {
    pub fn of(settings: &AlertSettings) -> Self {
        Self {
            tries_max: settings.tries_max,
            wait_min: Duration::from_millis(settings.retry_ms_min),
            wait_max: Duration::from_millis(settings.retry_ms_max),
        }
    }

    /// How long to wait after so many tries: somewhere between half and all of what doubles with each.
    /// Receivers that failed together are then not tried together.
    fn wait(&self, tries: u32, chance: f64) -> Duration {
        let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
        let longest = self.wait_min.saturating_mul(doubled).min(self.wait_max);
        longest.mul_f64(0.5 + 0.5 * chance.clamp(0.0, 1.0))
    }
}

impl Receiver {
    pub fn new(
        shown: String,
        carrier: Arc<dyn Carrier>,
        counters: AlertCounters,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            shown,
            carrier,
            record: Mutex::default(),
            counters,
            clock,
        }
    }

    pub fn shown(&self) -> ReceiverShown {
        let record = self.record.lock().clone();
        let (at, reason) = record.last_failure.unzip();
        ReceiverShown {
            receiver: self.shown.clone(),
            sent: record.sent,
            failed: record.failed,
            last_failure: reason,
            last_failure_at_ms: at.map(Timestamp::as_millis),
        }
    }

    /// Tries once, and says what came of it.
    pub async fn test(&self, letter: Arc<Letter>) -> Tested {
        let tried = self.try_once(letter).await;
        let failure = tried.err().map(|error| error.reason);
        match &failure {
            None => self.note_sent(),
            Some(reason) => self.note_failed(reason),
        }
        Tested {
            receiver: self.shown.clone(),
            sent: failure.is_none(),
            failure,
        }
    }

    async fn try_once(&self, letter: Arc<Letter>) -> Result<(), CarryError> {
        let carrier = self.carrier.clone();
        let carried = tokio::task::spawn_blocking(move || carrier.carry(&letter)).await;
        carried.unwrap_or_else(|error| {
            Err(CarryError {
                reason: format!("sending broke off: {error}"),
                is_final: true,
            })
        })
    }

    async fn deliver(&self, letter: Arc<Letter>, retry: Retry) {
        let began = Instant::now();
        let mut tries = 0;
        loop {
            let Err(error) = self.try_once(letter.clone()).await else {
                return self.note_sent();
            };
            tries += 1;
            if error.is_final || tries >= retry.tries_max {
                tracing::error!(
                    receiver = self.shown,
                    reason = error.reason,
                    tries,
                    seconds = began.elapsed().as_secs(),
                    notice = letter.subject,
                    "a notice could not be sent"
                );
                return self.note_failed(&error.reason);
            }
            tracing::warn!(
                receiver = self.shown,
                reason = error.reason,
                tries,
                "a notice could not be sent; trying again"
            );
            tokio::time::sleep(retry.wait(tries, fastrand::f64())).await;
        }
    }

    fn note_sent(&self) {
        self.counters.sent.inc();
        self.record.lock().sent += 1;
    }

    fn note_failed(&self, reason: &str) {
        self.counters.failed.inc();
        let mut record = self.record.lock();
        record.failed += 1;
        record.last_failure = Some((self.clock.now(), reason.to_owned()));
    }
}

/// A receiver with its queue.
pub(super) struct Mailbox {
    pub receiver: Arc<Receiver>,
    letters: mpsc::Sender<Arc<Letter>>,
}

impl Mailbox {
    /// Letters that are put into it are delivered by the task.
    pub fn open(receiver: Receiver, retry: Retry, letters_max: usize) -> (Self, JoinHandle<()>) {
        let receiver = Arc::new(receiver);
        let (letters, mut waiting) = mpsc::channel::<Arc<Letter>>(letters_max);
        let delivering = {
            let receiver = receiver.clone();
            tokio::spawn(async move {
                while let Some(letter) = waiting.recv().await {
                    receiver.deliver(letter, retry).await;
                }
            })
        };
        (Self { receiver, letters }, delivering)
    }

    /// Puts a letter in; never waits. What has no room counts as failed.
    pub fn put(&self, letter: &Arc<Letter>) {
        if self.letters.try_send(letter.clone()).is_err() {
            let receiver = &self.receiver;
            tracing::error!(
                receiver = receiver.shown,
                notice = letter.subject,
                "too many notices wait for this receiver, so this one is not sent"
            );
            receiver.note_failed("too many notices waited for it");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kernel::ManualClock;
    use tokio::sync::Notify;
    use tokio::time::timeout;

    use super::*;

    /// Fails so often, then takes everything.
    struct Moody {
        failures: usize,
        is_final: bool,
        tries: AtomicUsize,
        taken: Notify,
    }

    impl Carrier for Moody {
        fn carry(&self, _: &Letter) -> Result<(), CarryError> {
            let tries = self.tries.fetch_add(1, Ordering::SeqCst);
            if tries < self.failures {
                return Err(CarryError {
                    reason: format!("no {tries}"),
                    is_final: self.is_final,
                });
            }
            self.taken.notify_one();
            Ok(())
        }
    }

    fn moody(failures: usize, is_final: bool) -> Arc<Moody> {
        Arc::new(Moody {
            failures,
            is_final,
            tries: AtomicUsize::new(0),
            taken: Notify::new(),
        })
    }

    fn receiver(carrier: Arc<dyn Carrier>) -> Receiver {
        let clock = Arc::new(ManualClock::default());
        Receiver::new("r".to_owned(), carrier, AlertCounters::default(), clock)
    }

    fn letter() -> Arc<Letter> {
        Arc::new(Letter::test("n", "k".to_owned(), 0))
    }

    const RETRY: Retry = Retry {
        tries_max: 3,
        wait_min: Duration::from_millis(1),
        wait_max: Duration::from_millis(2),
    };

    #[tokio::test]
    async fn a_letter_is_tried_again_and_in_the_end_given_up() {
        for (failures, is_final, expected) in [
            (0, false, (1, 1, 0)),
            (2, false, (3, 1, 0)),
            (3, false, (3, 0, 1)),
            (1, true, (1, 0, 1)),
        ] {
            let carrier = moody(failures, is_final);
            let receiver = receiver(carrier.clone());
            receiver.deliver(letter(), RETRY).await;
            let shown = receiver.shown();
            let tries = carrier.tries.load(Ordering::SeqCst);
            assert_eq!((tries, shown.sent, shown.failed), expected);
            assert_eq!(shown.last_failure.is_some(), shown.failed == 1);
        }
    }

    #[tokio::test]
    async fn what_has_no_room_is_counted_and_nobody_waits() {
        let carrier = moody(usize::MAX, false);
        let slow = Retry {
            wait_min: Duration::from_secs(3_600),
            wait_max: Duration::from_secs(3_600),
            tries_max: 9,
        };
        let (mailbox, delivering) = Mailbox::open(receiver(carrier), slow, 2);
        for _ in 0..10 {
            mailbox.put(&letter());
        }
        // At most one is under way and two wait.
        assert!(mailbox.receiver.shown().failed >= 7);
        delivering.abort();
    }

    #[tokio::test]
    async fn letters_of_a_mailbox_get_there() {
        let carrier = moody(1, false);
        let (mailbox, delivering) = Mailbox::open(receiver(carrier.clone()), RETRY, 2);
        mailbox.put(&letter());
        let limit = Duration::from_secs(10);
        timeout(limit, carrier.taken.notified()).await.unwrap();
        delivering.abort();
    }

    #[test]
    fn waits_double_up_to_a_limit_and_are_spread() {
        let retry = Retry {
            tries_max: 9,
            wait_min: Duration::from_secs(1),
            wait_max: Duration::from_secs(60),
        };
        let seconds = |tries, chance| retry.wait(tries, chance).as_secs_f64();
        assert_eq!((seconds(1, 1.0), seconds(1, 0.0)), (1.0, 0.5));
        assert_eq!((seconds(3, 1.0), seconds(3, 0.0)), (4.0, 2.0));
        assert_eq!((seconds(99, 1.0), seconds(99, 0.0)), (60.0, 30.0));
    }
}
