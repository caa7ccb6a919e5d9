//! The monitor: it notices loops that run one job for too long, and gives them to other threads.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::crew::Crew;

/// The monitor never looks more often …
const LOOK_MIN: Duration = Duration::from_millis(1);
/// … nor, while a loop has something to do, less often.
const LOOK_MAX: Duration = Duration::from_millis(10);

/// Looks until all is closed. It sleeps while no loop has anything to do.
pub(super) fn watch(crew: &Arc<Crew>) {
    let queues = &crew.queues;
    while !queues.is_closed() {
        if queues.is_idle() {
            let is_needed = || !queues.is_idle() || queues.is_closed();
            queues.watch.sleep_unless(is_needed);
        } else {
            look(crew);
        }
        thread::sleep(next_look(crew));
    }
}

fn look(crew: &Arc<Crew>) {
    let now_ns = crew.clock.now_ns();
    for lane in 0..crew.queues.lanes() {
        if let Some((run, started_ns)) = crew.queues.running(lane)
            && now_ns.saturating_sub(started_ns) >= crew.long_after_ns
        {
            crew.relieve(lane, run);
        }
    }
}

/// In how much time the first job that runs now will be long; what begins after now is long still later.
fn next_look(crew: &Crew) -> Duration {
    let now_ns = crew.clock.now_ns();
    let due_ns = (0..crew.queues.lanes())
        .filter_map(|lane| crew.queues.running(lane))
        .map(|(_, started_ns)| (started_ns + crew.long_after_ns).saturating_sub(now_ns))
        .min()
        .unwrap_or(crew.long_after_ns);
    Duration::from_nanos(due_ns).clamp(LOOK_MIN, LOOK_MAX)
}
