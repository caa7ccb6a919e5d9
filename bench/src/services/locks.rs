//! Locks that are free, taken and released within this process.

use std::hint::black_box;
use std::time::Instant;

use web::locks::{LocksBuilder, Mode, Plan, Want};

/// Nobody waits here.
const WAITING_MAX: usize = 16;

/// How many nanoseconds it takes on average to take two free locks for writing at once and to release them.
pub fn take_two(times: u32) -> f64 {
    let mut builder = LocksBuilder::new();
    let wants = ["first", "second"].map(|name| Want {
        lock: builder.add(name),
        mode: Mode::Write,
        key: None,
    });
    let locks = builder.build(WAITING_MAX);
    let plan = Plan::new(wants).expect("the two are different");
    let begin = Instant::now();
    for _ in 0..times {
        let taken = locks.try_take(black_box(&plan));
        drop(black_box(taken.expect("nobody else takes them")));
    }
    begin.elapsed().as_nanos() as f64 / f64::from(times)
}
