//! How long buckets paused while they moved.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of how many moves the pauses are known.
const PAUSES_MAX: usize = 16_384;

/// How long the buckets that moved last paused.
#[derive(Default)]
pub(crate) struct Pauses(Mutex<Known>);

#[derive(Default)]
struct Known {
    moves: u64,
    micros: VecDeque<u32>,
}

/// How long buckets paused while they moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MovePauses {
    /// Moves since the start of the stage; of the last ones the pauses are known.
    pub moves: u64,
    /// Half of them were not longer.
    pub ms_p50: f64,
    /// Ninety-nine of a hundred were not longer.
    pub ms_p99: f64,
    /// None was longer.
    pub ms_max: f64,
}

impl Pauses {
    pub fn add(&self, pause: Duration) {
        let mut known = self.0.lock();
        known.moves += 1;
        if known.micros.len() == PAUSES_MAX {
            known.micros.pop_front();
        }
        let micros = u32::try_from(pause.as_micros()).unwrap_or(u32::MAX);
        known.micros.push_back(micros);
    }

    pub fn view(&self) -> MovePauses {
        let known = self.0.lock();
        let mut sorted: Vec<u32> = known.micros.iter().copied().collect();
        let moves = known.moves;
        drop(known);
        sorted.sort_unstable();
        let ms = |share: f64| percentile(&sorted, share).map_or(0.0, |m| f64::from(m) / 1e3);
        MovePauses {
            moves,
            ms_p50: ms(0.5),
            ms_p99: ms(0.99),
            ms_max: ms(1.0),
        }
    }
}

/// The smallest value that this share of a sorted list does not exceed.
pub(crate) fn percentile<T: Copy>(sorted: &[T], share: f64) -> Option<T> {
    let last = sorted.len().checked_sub(1)?;
    let at = (share * sorted.len() as f64).ceil() as usize;
    Some(sorted[at.saturating_sub(1).min(last)])
}
