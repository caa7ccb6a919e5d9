//! The state that requests share, and the work that they do with it.

use std::collections::HashMap;

use parking_lot::RwLock;
use serde::Deserialize;

use crate::fibonacci::fibonacci_in_rounds;
use crate::kernels::{Kernel, digits};

/// The largest number that is computed: it takes seconds.
const NUMBER_MAX: u32 = 45;
/// More entries than any measurement stores; then the cache begins anew.
const ENTRIES_MAX: usize = 1_000_000;

/// What stands behind the question mark.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Wanted {
    /// How often a Fibonacci number is computed.
    #[serde(default)]
    pub rounds: u32,
    /// Which input a kernel has; for a Fibonacci number it only tells cached values apart.
    #[serde(default)]
    pub seed: u32,
}

/// Results by what was asked for.
#[derive(Debug, Default)]
pub struct Cache {
    numbers: HashMap<(u32, u32), u64>,
    results: HashMap<(Kernel, u32), f64>,
    stored: u64,
}

impl Cache {
    fn store_number(&mut self, key: (u32, u32), number: u64) {
        if self.numbers.len() >= ENTRIES_MAX {
            self.numbers.clear();
        }
        self.numbers.insert(key, number);
        self.stored += 1;
    }

    fn store_result(&mut self, key: (Kernel, u32), result: f64) {
        if self.results.len() >= ENTRIES_MAX {
            self.results.clear();
        }
        self.results.insert(key, result);
        self.stored += 1;
    }
}

/// What a request asks for, once it is read.
#[derive(Debug, Clone, Copy)]
pub enum Work {
    /// Compute a Fibonacci number.
    Fibonacci(u32),
    /// Look it up, else compute and store it.
    CachedFibonacci(u32),
    /// Run a kernel.
    Free(Kernel),
    /// Run a kernel while reading.
    Shared(Kernel),
    /// Run a kernel while writing, and store its result.
    Exclusive(Kernel),
    /// Run a kernel, then store its result.
    ThenStore(Kernel),
    /// Say how often something was stored.
    Stored,
}

/// Does the work of one request, which may take long and may block.
pub fn work(cache: &RwLock<Cache>, work: Work, wanted: Wanted) -> String {
    match work {
        Work::Fibonacci(n) => fibonacci_in_rounds(n.min(NUMBER_MAX), wanted.rounds).to_string(),
        Work::CachedFibonacci(n) => cached(cache, n.min(NUMBER_MAX), wanted).to_string(),
        Work::Free(kernel) => digits(kernel.run(wanted.seed)),
        Work::Shared(kernel) => {
            let cache = cache.read();
            std::hint::black_box(cache.results.get(&(kernel, wanted.seed)));
            digits(kernel.run(wanted.seed))
        }
        Work::Exclusive(kernel) => {
            let mut cache = cache.write();
            let result = kernel.run(wanted.seed);
            cache.store_result((kernel, wanted.seed), result);
            digits(result)
        }
        Work::ThenStore(kernel) => {
            let result = kernel.run(wanted.seed);
            cache.write().store_result((kernel, wanted.seed), result);
            digits(result)
        }
        Work::Stored => cache.read().stored.to_string(),
    }
}

fn cached(cache: &RwLock<Cache>, n: u32, wanted: Wanted) -> u64 {
    let key = (n, wanted.seed);
    if let Some(number) = cache.read().numbers.get(&key) {
        return *number;
    }
    let number = fibonacci_in_rounds(n, wanted.rounds);
    cache.write().store_number(key, number);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_counted_and_found_again() {
        let cache = RwLock::new(Cache::default());
        let wanted = Wanted { rounds: 1, seed: 7 };
        let ask = |asked| work(&cache, asked, wanted);
        let result = digits(Kernel::Sor.run(7));
        assert_eq!(ask(Work::Free(Kernel::Sor)), result);
        assert_eq!(ask(Work::Shared(Kernel::Sor)), result);
        assert_eq!(ask(Work::Stored), "0");
        assert_eq!(ask(Work::Exclusive(Kernel::Sor)), result);
        assert_eq!(ask(Work::ThenStore(Kernel::Sor)), result);
        assert_eq!(ask(Work::CachedFibonacci(20)), "6765");
        assert_eq!(ask(Work::CachedFibonacci(20)), "6765");
        assert_eq!(ask(Work::Fibonacci(20)), "6765");
        assert_eq!(ask(Work::Stored), "3");
    }
}
