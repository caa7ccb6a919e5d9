//! How many rounds of a Fibonacci number make a heavy request.

use std::time::Duration;

use super::fibonacci::fibonacci_in_rounds;
use super::load::thread_time;

/// The number that a heavy request asks for. A single round takes one or two milliseconds.
pub const HEAVY_NUMBER: u32 = 30;
/// What a heavy request is to use of a processor.
pub const HEAVY: Duration = Duration::from_millis(100);

const TRIES: u32 = 5;
const TRIED_ROUNDS: u32 = 10;

/// The rounds that use as much of a processor as a heavy request should, in Rust: by the shortest of some tries, which others
/// have disturbed least.
pub fn rounds() -> u32 {
    let tries = (0..TRIES).map(|_| {
        let before = thread_time();
        fibonacci_in_rounds(HEAVY_NUMBER, TRIED_ROUNDS);
        thread_time() - before
    });
    let shortest = tries.min().expect("there are some") / TRIED_ROUNDS;
    (HEAVY.as_secs_f64() / shortest.as_secs_f64())
        .round()
        .max(1.0) as u32
}
