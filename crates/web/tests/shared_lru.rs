//! The cache against a plain list in the order of use, and by many threads at the same time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use web::shared::Lru;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8, usize),
    Get(u8),
    Remove(u8),
    Contains(u8),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..12_u8;
    prop_oneof![
        6 => (key(), 0..12_usize).prop_map(|(key, bytes)| Step::Insert(key, bytes)),
        6 => key().prop_map(Step::Get),
        2 => key().prop_map(Step::Remove),
        2 => key().prop_map(Step::Contains),
        1 => Just(Step::Clear),
    ]
}

/// Keys with the bytes that are their values; the last was used last.
struct Model {
    entries: Vec<(u8, usize)>,
    entries_max: usize,
    bytes_max: usize,
    /// The control: one that forgets what came first, used or not.
    is_moved_by_use: bool,
    hits: u64,
    misses: u64,
}

impl Model {
    fn new(entries_max: usize, bytes_max: usize, is_moved_by_use: bool) -> Self {
        Self {
            entries: Vec::new(),
            entries_max,
            bytes_max,
            is_moved_by_use,
            hits: 0,
            misses: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|(_, bytes)| bytes).sum()
    }

    fn remove(&mut self, key: u8) -> Option<usize> {
        let place = self.entries.iter().position(|(found, _)| *found == key)?;
        Some(self.entries.remove(place).1)
    }

    fn get(&mut self, key: u8) -> Option<usize> {
        let place = self.entries.iter().position(|(found, _)| *found == key);
        match place {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        let found = self.entries[place?];
        if self.is_moved_by_use {
            self.remove(key);
            self.entries.push(found);
        }
        Some(found.1)
    }

    fn insert(&mut self, key: u8, bytes: usize) -> Option<usize> {
        let old = self.remove(key);
        if bytes <= self.bytes_max && self.entries_max > 0 {
            self.entries.push((key, bytes));
        }
        while self.entries.len() > self.entries_max || self.bytes() > self.bytes_max {
            self.entries.remove(0);
        }
        old
    }

    fn take(&mut self, step: &Step) -> Option<usize> {
        match *step {
            Step::Insert(key, bytes) => self.insert(key, bytes),
            Step::Get(key) => self.get(key),
            Step::Remove(key) => self.remove(key),
            Step::Contains(key) => {
                let mut keys = self.entries.iter().map(|(found, _)| *found);
                Some(usize::from(keys.any(|found| found == key)))
            }
            Step::Clear => {
                self.entries.clear();
                None
            }
        }
    }
}

type Cache = Lru<u8, usize>;

fn exclusively(cache: &mut Cache, step: &Step) -> Option<usize> {
    match *step {
        Step::Insert(key, bytes) => cache.insert(key, bytes),
        Step::Get(key) => cache.get(&key),
        Step::Remove(key) => cache.remove(&key),
        Step::Contains(key) => Some(usize::from(cache.contains(&key))),
        Step::Clear => {
            cache.clear();
            None
        }
    }
}

fn together(cache: &mut Cache, step: &Step) -> Option<usize> {
    match *step {
        Step::Insert(key, bytes) => cache.concurrently().insert(key, bytes),
        Step::Remove(key) => cache.concurrently().remove(&key),
        // A copy has all in the same order.
        _ => {
            *cache = cache.clone();
            exclusively(cache, step)
        }
    }
}

fn check(
    steps: &[Step],
    mut model: Model,
    take: fn(&mut Cache, &Step) -> Option<usize>,
) -> Result<(), String> {
    let mut cache = Lru::with_bytes_max(model.entries_max, model.bytes_max, |_, bytes| *bytes);
    for step in steps {
        let (expected, found) = (model.take(step), take(&mut cache, step));
        if expected != found {
            return Err(format!("{step:?} gave {found:?} instead of {expected:?}"));
        }
        let numbers = cache.numbers();
        let found = (numbers.entries, numbers.bytes, numbers.hits, numbers.misses);
        let expected = (model.entries.len(), model.bytes(), model.hits, model.misses);
        if found != expected {
            return Err(format!("{found:?} instead of {expected:?} after {step:?}"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_forgets_what_was_not_used_for_longest(
        steps in prop::collection::vec(step(), 0..200),
        entries_max in 0..8_usize,
        bytes_max in 0..40_usize,
    ) {
        for take in [exclusively, together] {
            let model = Model::new(entries_max, bytes_max, true);
            prop_assert_eq!(check(&steps, model, take), Ok(()));
        }
    }
}

#[test]
fn the_check_against_the_model_tells_use_from_age() {
    let steps = [
        Step::Insert(1, 0),
        Step::Insert(2, 0),
        Step::Get(1),
        Step::Insert(3, 0),
        Step::Contains(1),
    ];
    assert!(check(&steps, Model::new(2, 9, true), exclusively).is_ok());
    assert!(check(&steps, Model::new(2, 9, false), exclusively).is_err());
}

type Values = Lru<u32, (u32, usize)>;

/// Many threads put in values that say their key; what is wrong, as one sees who looks all the time.
fn check_by_many(
    cache: &Values,
    (entries_max, bytes_max): (usize, usize),
    steps: fn(&Values, u64) -> Result<(), String>,
) -> Result<(), String> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            loop {
                // Asked before, so that it is looked once more after the end.
                let is_last = is_over.load(Ordering::Acquire);
                let numbers = cache.numbers();
                if numbers.entries > entries_max || numbers.bytes > bytes_max {
                    return Err(format!("beyond the bounds: {numbers:?}"));
                }
                if is_last {
                    return Ok(());
                }
            }
        });
        let workers: Vec<_> = (0..3)
            .map(|seed| scope.spawn(move || steps(cache, seed)))
            .collect();
        let mut worked = workers.into_iter().map(|worker| worker.join());
        let worked = worked.try_for_each(|worked| worked.expect("no panic"));
        is_over.store(true, Ordering::Release);
        let watched = watcher.join().expect("no panic");
        watched.and(worked)
    })
}

fn all_kinds_of_steps(cache: &Values, seed: u64) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20_000 {
        let key = random.u32(..200);
        let found = match random.u8(..4) {
            0 => cache.concurrently().insert(key, (key, random.usize(..10))),
            1 => cache.concurrently().remove(&key),
            _ => cache.get(&key),
        };
        if let Some((other, _)) = found
            && other != key
        {
            return Err(format!("the value of {other} was found under {key}"));
        }
    }
    Ok(())
}

/// Afterwards the cache is as full as it may be, so that a wrong bound is seen in any case.
fn insertions(cache: &Values, _seed: u64) -> Result<(), String> {
    (0..200).for_each(|key| {
        cache.concurrently().insert(key, (key, 1));
    });
    Ok(())
}

#[test]
fn its_bounds_hold_at_all_times() {
    for steps in [all_kinds_of_steps, insertions] {
        let cache = Lru::with_bytes_max(50, 150, |_, (_, bytes)| *bytes);
        assert_eq!(check_by_many(&cache, (50, 150), steps), Ok(()));
        assert!(cache.numbers().forgotten > 0);
    }
}

#[test]
fn one_who_looks_finds_bounds_that_do_not_hold() {
    let cache = Lru::with_bytes_max(50, 150, |_, (_, bytes)| *bytes);
    assert!(check_by_many(&cache, (49, 150), insertions).is_err());
    let cache = Lru::with_bytes_max(50, 150, |_, (_, bytes)| *bytes);
    assert!(check_by_many(&cache, (50, 49), insertions).is_err());
}

#[test]
fn one_who_looks_finds_values_under_other_keys() {
    let cache = Lru::new(500);
    (0..200).for_each(|key| {
        cache.concurrently().insert(key, (key + 1, 0));
    });
    let bounds = (500, usize::MAX);
    assert!(check_by_many(&cache, bounds, all_kinds_of_steps).is_err());
}
