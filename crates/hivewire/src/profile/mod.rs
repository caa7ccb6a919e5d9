//! Where a node spends its time: stacks, taken many times a second while it works.

mod flame;

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use pprof::{Frames, ProfilerGuardBuilder};
use serde::{Deserialize, Serialize};

pub(crate) use self::flame::svg;

/// The longest profile.
pub(crate) const SECONDS_MAX: u32 = 60;
/// Not a divisor of anything that happens regularly.
const FREQUENCY_HZ: u32 = 99;
/// A stack cannot be walked while one of these is at work on the same structures.
const LEFT_OUT: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];
/// The rarest stacks are left out beyond this.
const FOLDED_BYTES_MAX: usize = 8 << 20;

/// The system has one timer for it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub seconds: u32,
    pub frequency_hz: u32,
    /// How many stacks were seen. Nobody is seen who waits.
    pub samples: u64,
    /// How many of them are left out, because there would be too many to tell.
    pub left_out: u64,
    /// One line for each kind of stack, the outermost function first: `thread;outer;inner 12`.
    pub folded: String,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("a profile of this node is being taken already: try again when it is done")]
    Busy,
    #[error("a profile lasts between 1 and {SECONDS_MAX} seconds")]
    Seconds,
    #[error("the profile cannot be taken: {0}")]
    Failed(String),
}

/// Looks for so long. Blocks.
pub(crate) fn take(seconds: u32) -> Result<Profile, ProfileError> {
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(ProfileError::Seconds);
    }
    let _only = ONE_AT_A_TIME.try_lock().ok_or(ProfileError::Busy)?;
    let failed = |error: pprof::Error| ProfileError::Failed(error.to_string());
    let looking = ProfilerGuardBuilder::default()
        .frequency(FREQUENCY_HZ as i32)
        .blocklist(&LEFT_OUT)
        .build()
        .map_err(failed)?;
    std::thread::sleep(Duration::from_secs(seconds.into()));
    let report = looking.report().build().map_err(failed)?;
    drop(looking);
    let mut stacks: HashMap<String, u64> = HashMap::new();
    for (frames, count) in &report.data {
        *stacks.entry(stack(frames)).or_default() += u64::try_from(*count).unwrap_or_default();
    }
    let samples = stacks.values().sum();
    let (folded, left_out) = folded(stacks);
    Ok(Profile {
        seconds,
        frequency_hz: FREQUENCY_HZ,
        samples,
        left_out,
        folded,
    })
}

fn stack(frames: &Frames) -> String {
    let mut text = plain(&frames.thread_name);
    for symbol in frames
        .frames
        .iter()
        .rev()
        .flat_map(|frame| frame.iter().rev())
    {
        text.push(';');
        text.push_str(&plain(&symbol.name()));
    }
    text
}

/// What separates frames and lines must not stand in a name.
fn plain(name: &str) -> String {
    let is_apart = |character: char| character == ';' || character.is_control();
    name.replace(is_apart, "_")
}

/// The stacks in order, and how many samples there was no room for.
fn folded(stacks: HashMap<String, u64>) -> (String, u64) {
    let mut often_first: Vec<(String, u64)> = stacks.into_iter().collect();
    often_first.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut bytes = 0;
    let mut left_out = 0;
    often_first.retain(|(stack, count)| {
        bytes += stack.len() + 12;
        let has_room = bytes <= FOLDED_BYTES_MAX;
        left_out += if has_room { 0 } else { *count };
        has_room
    });
    often_first.sort();
    let lines = often_first.iter();
    let lines: Vec<String> = lines
        .map(|(stack, count)| format!("{stack} {count}\n"))
        .collect();
    (lines.concat(), left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_are_told_in_order_and_have_a_bound() {
        let stacks = HashMap::from([("b;x".to_owned(), 2), ("a;y".to_owned(), 1)]);
        assert_eq!(folded(stacks), ("a;y 1\nb;x 2\n".to_owned(), 0));
        let huge = "x".repeat(FOLDED_BYTES_MAX);
        let stacks = HashMap::from([(huge, 1), ("a".to_owned(), 3)]);
        assert_eq!(folded(stacks), ("a 3\n".to_owned(), 1));
        assert_eq!(plain("a;b\nc"), "a_b_c");
    }

    #[test]
    fn a_profile_has_its_length() {
        assert!(matches!(take(0), Err(ProfileError::Seconds)));
        assert!(matches!(take(SECONDS_MAX + 1), Err(ProfileError::Seconds)));
    }
}
