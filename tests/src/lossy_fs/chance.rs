//! What becomes of each thing that was not synced.

use fastrand::Rng;

/// Decides for each unsynced thing whether it is lost.
pub(super) enum Chance {
    /// Everything goes: nothing reached the disk before it was asked to.
    LoseAll,
    /// Each thing goes or stays, as likely as not.
    Even(Rng),
}

impl Chance {
    /// As likely as not, always the same for the same seed.
    pub(super) fn even(seed: u64) -> Self {
        Self::Even(Rng::with_seed(seed))
    }

    pub(super) fn loses(&mut self) -> bool {
        match self {
            Self::LoseAll => true,
            Self::Even(rng) => rng.bool(),
        }
    }
}
