//! Pauses between attempts to connect: longer each time, and never the same for two clients.

use std::time::Duration;

use tokio::time::Instant;

/// A connection that lasted that long was a good one: the next pause is short again.
const GOOD_CONNECTION: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(50);

pub(super) struct Backoff {
    pause: Duration,
    pause_max: Duration,
    began: Instant,
}

impl Backoff {
    pub fn new(pause_max: Duration) -> Self {
        Self {
            pause: PAUSE_MIN.min(pause_max),
            pause_max,
            began: Instant::now(),
        }
    }

    /// An attempt begins.
    pub fn attempt(&mut self) {
        self.began = Instant::now();
    }

    /// The attempt, or the connection that came of it, has ended. Waits before the next.
    pub async fn pause(&mut self) {
        if self.began.elapsed() > GOOD_CONNECTION {
            self.pause = PAUSE_MIN.min(self.pause_max);
        }
        let pause = self.pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        self.pause = (self.pause * 2).min(self.pause_max);
        tokio::time::sleep(pause).await;
    }
}
