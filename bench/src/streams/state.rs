//! What queries keep between events: the same for our workers and for those of timely.

/// The time at which nothing comes any more.
pub const END_MS: u64 = u64::MAX;

/// What is kept for some keys, and what it gives. Events come in any order, but never after their time has passed.
pub trait State: Default + Send + 'static {
    /// What comes.
    type Input: ?Sized;
    /// What it leads to.
    type Output;

    /// Takes in what came.
    fn take(&mut self, input: &Self::Input, give: impl FnMut(Self::Output));

    /// Nothing from before this time comes any more.
    fn pass(&mut self, time_ms: u64, give: impl FnMut(Self::Output));
}
