//! What a seed decides: how long things take, what fails, and when the stage ends.

/// The chances of a run.
pub struct Chance {
    pub random: fastrand::Rng,
    /// Nothing new begins and nothing fails any more.
    pub is_calm: bool,
    /// One of so many turns fails.
    fails_each: u32,
    /// One of so many things takes so long that others give up waiting for it.
    stalls_each: u32,
    /// One of so many that are asked for a bucket forgets it.
    forgets_each: u32,
    /// One of so many moves that could be wanted is.
    wants_each: u32,
}

/// How a stage ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Never,
    /// It ends then, and another one takes over what is left.
    BuiltAnew(u64),
    /// It ends then, and what is left is given back.
    ForGood(u64),
}

impl Ending {
    pub fn is_due(self, now_ms: u64) -> bool {
        match self {
            Self::Never => false,
            Self::BuiltAnew(at_ms) | Self::ForGood(at_ms) => at_ms <= now_ms,
        }
    }

    pub fn is_for_good(self) -> bool {
        matches!(self, Self::ForGood(_))
    }
}

impl Chance {
    pub fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self {
            fails_each: random.u32(4..40),
            stalls_each: random.u32(20..500),
            forgets_each: random.u32(5..150),
            wants_each: random.u32(1..20),
            random,
            is_calm: false,
        }
    }

    pub fn ending(&mut self) -> Ending {
        let at_ms = self.random.u64(0..800_000);
        match self.random.u32(0..3) {
            0 => Ending::BuiltAnew(at_ms),
            1 => Ending::ForGood(at_ms),
            _ => Ending::Never,
        }
    }

    /// How much time passes until the next step: mostly little.
    pub fn passes_ms(&mut self) -> u64 {
        match self.random.u32(0..20) {
            0 => self.random.u64(0..10_000),
            _ => self.random.u64(0..3),
        }
    }

    /// How long something takes.
    pub fn takes_ms(&mut self) -> u64 {
        match !self.is_calm && self.random.u32(0..self.stalls_each) == 0 {
            true => self.random.u64(30_000..150_000),
            false => self.random.u64(0..5),
        }
    }

    pub fn fails(&mut self) -> bool {
        !self.is_calm && self.random.u32(0..self.fails_each) == 0
    }

    pub fn wants(&mut self) -> bool {
        !self.is_calm && self.random.u32(0..self.wants_each) == 0
    }

    /// Whether those who wait for a bucket look at the clock before a stage that stops has ended.
    pub fn is_looking(&mut self) -> bool {
        self.random.u32(0..20) == 0
    }

    /// Whether somebody who waits for a worker learns now that it has forgotten.
    pub fn is_learned(&mut self) -> bool {
        self.is_calm || self.random.u32(0..30) == 0
    }

    /// Whether a worker forgets what it was asked for.
    pub fn forgets(&mut self) -> bool {
        !self.is_calm && self.random.u32(0..self.forgets_each) == 0
    }
}
