//! The time that events tell, and a guard against those that claim to be from the future.

use kernel::worker::Turn;

use super::Period;

/// How far ahead of the clock events may be unless something else was chosen: clocks differ by less, and what was
/// written in the wrong unit or zone is further off.
pub(super) fn ahead_max() -> Period {
    Period::from_millis(3_600_000)
}

/// Why an event of this time is refused, if it lies too far ahead of the clock. One such event would move the time of
/// its bucket there, and everything after it would be late.
pub(super) fn too_far_ahead(time: i64, ahead_max: Period, turn: &Turn) -> Option<String> {
    let now = turn.now().as_millis() as i64;
    let ahead = time.saturating_sub(now);
    (ahead > ahead_max.as_millis()).then(|| {
        let ahead = Period::from_millis(ahead.unsigned_abs());
        format!(
            "the time {time} of the event is {ahead} ahead of the clock; correct it (it is in milliseconds since 1970), or raise ahead_max, which is {ahead_max}"
        )
    })
}
