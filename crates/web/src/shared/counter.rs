//! A number that many count at once.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;

use super::Concurrent;

const STRIPES_MAX: usize = 64;

/// A number that many threads count at once without waiting for each other.
///
/// It is kept in stripes; a thread adds to its own, and reading adds them up. While others count, reading gives a number between
/// what it was at the beginning and what it is at the end, as far as all count in one direction. It goes around beyond 64 bits.
///
/// ```
/// let visitors = web::shared::Counter::new();
/// visitors.add(2);
/// visitors.subtract(1);
/// assert_eq!(visitors.value(), 1);
/// ```
pub struct Counter {
    stripes: Box<[Stripe]>,
}

/// Two stripes never lie on one cache line (or on two that are fetched together): otherwise the cores would wait for each other.
#[repr(align(128))]
#[derive(Default)]
struct Stripe(AtomicI64);

thread_local! {
    /// The number of this thread, given at its first count.
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    THREAD.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

impl Counter {
    /// Counts from zero.
    pub fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let count = cores.next_power_of_two().min(STRIPES_MAX);
        let stripes = (0..count).map(|_| Stripe::default()).collect();
        Self { stripes }
    }

    /// Counts up.
    pub fn add(&self, amount: i64) {
        let stripe = &self.stripes[thread_number() & (self.stripes.len() - 1)];
        stripe.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Counts down.
    pub fn subtract(&self, amount: i64) {
        self.add(amount.wrapping_neg());
    }

    /// What was counted. All that happened before is in it.
    pub fn value(&self) -> i64 {
        let values = self.stripes.iter();
        let values = values.map(|stripe| stripe.0.load(Ordering::Relaxed));
        values.fold(0, i64::wrapping_add)
    }

    /// Sets the number.
    pub fn set(&mut self, value: i64) {
        for stripe in &mut self.stripes {
            *stripe.0.get_mut() = 0;
        }
        *self.stripes[0].0.get_mut() = value;
    }
}

impl Concurrent for Counter {}

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl From<i64> for Counter {
    fn from(value: i64) -> Self {
        let mut counter = Self::new();
        counter.set(value);
        counter
    }
}

impl Clone for Counter {
    fn clone(&self) -> Self {
        self.value().into()
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Counter")
            .field(&self.value())
            .finish()
    }
}
