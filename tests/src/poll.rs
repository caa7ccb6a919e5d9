//! Waiting for a condition, always with an end.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Asks `condition` again and again until it holds or the time is up; says whether it holds.
///
/// ```
/// use std::time::Duration;
/// use hivewire_tests::poll::wait_until;
///
/// let mut tries = 0;
/// assert!(wait_until(Duration::from_secs(1), || { tries += 1; tries == 3 }));
/// ```
pub fn wait_until(timeout: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    let mut pause = PAUSE;
    loop {
        if condition() {
            return true;
        }
        if start.elapsed() >= timeout {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
