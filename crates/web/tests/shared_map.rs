//! The map against a model, and by many threads at the same time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use web::shared::{Concurrent, Concurrently, Keyed, Map};

type Key = u8;

#[derive(Clone, Debug)]
enum Step {
    Insert(Key, u64),
    InsertNew(Key, u64),
    Remove(Key),
    Get(Key),
    Update(Key, u64),
    UpdateOrInsert(Key, u64),
    Retain(u64),
    Clear,
    Len,
}

/// What a step answers: a value, or whether something was so.
type Answer = Option<u64>;

/// Something that claims to be a map.
trait Claimed {
    fn take(&mut self, step: &Step) -> Answer;
    fn all(&mut self) -> BTreeMap<Key, u64>;
}

impl Claimed for HashMap<Key, u64> {
    fn take(&mut self, step: &Step) -> Answer {
        match *step {
            Step::Insert(key, value) => self.insert(key, value),
            Step::InsertNew(key, value) => {
                let is_new = !self.contains_key(&key);
                self.entry(key).or_insert(value);
                Some(u64::from(is_new))
            }
            Step::Remove(key) => self.remove(&key),
            Step::Get(key) => self.get(&key).copied(),
            Step::Update(key, by) => self.get_mut(&key).map(|value| {
                *value += by;
                *value
            }),
            Step::UpdateOrInsert(key, by) => {
                let value = self.entry(key).or_insert(7);
                *value += by;
                Some(*value)
            }
            Step::Retain(divisor) => {
                self.retain(|key, value| {
                    *value += 1;
                    u64::from(*key) % divisor != 0
                });
                None
            }
            Step::Clear => {
                self.clear();
                None
            }
            Step::Len => Some(self.len() as u64),
        }
    }

    fn all(&mut self) -> BTreeMap<Key, u64> {
        self.iter().map(|(key, value)| (*key, *value)).collect()
    }
}

fn add(by: u64) -> impl Fn(&mut u64) -> u64 {
    move |value| {
        *value += by;
        *value
    }
}

fn all_of(map: &Map<Key, u64>) -> BTreeMap<Key, u64> {
    let mut all = BTreeMap::new();
    map.for_each(|key, value| assert!(all.insert(*key, *value).is_none()));
    all
}

/// As an ordinary state that one handler has for itself.
struct Exclusive(Map<Key, u64>);

impl Claimed for Exclusive {
    fn take(&mut self, step: &Step) -> Answer {
        let map = &mut self.0;
        match *step {
            Step::Insert(key, value) => map.insert(key, value),
            Step::InsertNew(key, value) => {
                let is_new = !map.contains(&key);
                if is_new {
                    map.extend([(key, value)]);
                }
                Some(u64::from(is_new))
            }
            Step::Remove(key) => map.remove(&key),
            Step::Get(key) => map.get(&key),
            Step::Update(key, by) => map.get_mut(&key).map(add(by)),
            Step::UpdateOrInsert(key, by) => {
                if !map.contains(&key) {
                    map.insert(key, 7);
                }
                map.get_mut(&key).map(add(by))
            }
            Step::Retain(divisor) => {
                map.retain(|key, value| {
                    *value += 1;
                    u64::from(*key) % divisor != 0
                });
                None
            }
            Step::Clear => {
                map.clear();
                None
            }
            Step::Len => Some(map.len() as u64),
        }
    }

    fn all(&mut self) -> BTreeMap<Key, u64> {
        all_of(&self.0.clone())
    }
}

/// As many use it at the same time.
struct Together(Map<Key, u64>);

impl Claimed for Together {
    fn take(&mut self, step: &Step) -> Answer {
        let map = self.0.concurrently();
        match *step {
            Step::Insert(key, value) => map.insert(key, value),
            Step::InsertNew(key, value) => Some(u64::from(map.insert_new(key, value).is_ok())),
            Step::Remove(key) => map.remove(&key),
            Step::Get(key) => map.with(&key, |value| *value),
            Step::Update(key, by) => map.update(&key, add(by)),
            Step::UpdateOrInsert(key, by) => Some(map.update_or_insert_with(key, || 7, add(by))),
            Step::Retain(_) | Step::Clear => Exclusive::on(&mut self.0, step),
            Step::Len => Some(map.len() as u64),
        }
    }

    fn all(&mut self) -> BTreeMap<Key, u64> {
        all_of(&self.0)
    }
}

impl Exclusive {
    fn on(map: &mut Map<Key, u64>, step: &Step) -> Answer {
        let mut exclusive = Self(std::mem::take(map));
        let answer = exclusive.take(step);
        *map = exclusive.0;
        answer
    }
}

/// One locked key at a time.
struct ByKey(Map<Key, u64>);

impl Claimed for ByKey {
    fn take(&mut self, step: &Step) -> Answer {
        match step {
            Step::Insert(key, value) => self.0.entry(key).insert(*value),
            Step::InsertNew(key, value) => {
                let mut entry = self.0.entry(key);
                let is_new = !entry.exists();
                if is_new {
                    assert_eq!(entry.insert(value + 1), None);
                    assert_eq!(entry.insert(*value), Some(value + 1));
                }
                Some(u64::from(is_new))
            }
            Step::Remove(key) => {
                let mut entry = self.0.entry(key);
                let removed = entry.remove();
                assert!(!entry.exists());
                removed
            }
            Step::Get(key) => self.0.entry(key).get().as_deref().copied(),
            Step::Update(key, by) => self.0.entry(key).update(add(*by)),
            Step::UpdateOrInsert(key, by) => {
                let mut entry = self.0.entry(key);
                if !entry.exists() {
                    entry.insert(7);
                }
                if let Some(mut value) = entry.get_mut() {
                    *value += by;
                }
                entry.get().as_deref().copied()
            }
            Step::Retain(_) | Step::Clear => Exclusive::on(&mut self.0, step),
            Step::Len => Some(self.0.len() as u64),
        }
    }

    fn all(&mut self) -> BTreeMap<Key, u64> {
        all_of(&self.0)
    }
}

/// What is wrong with it, if something is.
fn check(claimed: &mut dyn Claimed, steps: &[Step]) -> Result<(), String> {
    let mut model = HashMap::new();
    for step in steps {
        let (expected, found) = (model.take(step), claimed.take(step));
        if found != expected {
            return Err(format!("{step:?} gave {found:?} instead of {expected:?}"));
        }
    }
    match (claimed.all(), model.all()) {
        (found, expected) if found == expected => Ok(()),
        (found, expected) => Err(format!("{found:?} is left instead of {expected:?}")),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..24_u8;
    let value = || 0..1_000_u64;
    prop_oneof![
        6 => (key(), value()).prop_map(|(key, value)| Step::Insert(key, value)),
        3 => (key(), value()).prop_map(|(key, value)| Step::InsertNew(key, value)),
        4 => key().prop_map(Step::Remove),
        6 => key().prop_map(Step::Get),
        4 => (key(), value()).prop_map(|(key, by)| Step::Update(key, by)),
        4 => (key(), value()).prop_map(|(key, by)| Step::UpdateOrInsert(key, by)),
        1 => (2..5_u64).prop_map(Step::Retain),
        1 => Just(Step::Clear),
        1 => Just(Step::Len),
    ]
}

proptest! {
    #[test]
    fn it_does_what_a_hash_map_does(steps in prop::collection::vec(step(), 0..200)) {
        prop_assert_eq!(check(&mut Exclusive(Map::new()), &steps), Ok(()));
        prop_assert_eq!(check(&mut Together(Map::new()), &steps), Ok(()));
        prop_assert_eq!(check(&mut ByKey(Map::new()), &steps), Ok(()));
    }
}

/// The control: a map that is wrong in one thing.
struct Wrong(HashMap<Key, u64>, fn(&Step) -> bool);

impl Claimed for Wrong {
    fn take(&mut self, step: &Step) -> Answer {
        let mut copy = self.0.clone();
        let answer = copy.take(step);
        // A step of this kind answers right, but does nothing.
        if !(self.1)(step) {
            self.0 = copy;
        }
        answer
    }

    fn all(&mut self) -> BTreeMap<Key, u64> {
        self.0.all()
    }
}

#[test]
fn the_check_against_the_model_finds_what_is_wrong() {
    let wrongs: [fn(&Step) -> bool; 6] = [
        |step| matches!(step, Step::Insert(..)),
        |step| matches!(step, Step::InsertNew(..)),
        |step| matches!(step, Step::Remove(_)),
        |step| matches!(step, Step::Update(..)),
        |step| matches!(step, Step::Retain(_)),
        |step| matches!(step, Step::Clear),
    ];
    for (number, wrong) in wrongs.into_iter().enumerate() {
        let config = ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let found = runner.run(&prop::collection::vec(step(), 0..200), |steps| {
            let checked = check(&mut Wrong(HashMap::new(), wrong), &steps);
            checked.map_err(TestCaseError::fail)
        });
        assert!(found.is_err(), "wrong map {number} was not found");
    }
}

const THREADS: u64 = 4;

/// What many threads do to the keys of a map.
struct Load {
    rounds: u64,
    keys: u8,
    /// How many of a hundred steps put something in; the others take out.
    inserts_percent: u8,
}

/// Puts in and takes out by many threads; what is wrong: each value that was put in comes out once, or is still there.
fn check_nothing_is_lost_or_doubled(
    load: &Load,
    insert: impl Fn(u8, u64) -> Option<u64> + Sync,
    remove: impl Fn(u8) -> Option<u64> + Sync,
) -> Result<(), String> {
    let (next, out) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (next, out, insert, remove) = (&next, &out, &insert, &remove);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..load.rounds {
                    let key = random.u8(..load.keys);
                    let came_out = match random.u8(..100) < load.inserts_percent {
                        true => insert(key, next.fetch_add(1, Ordering::Relaxed)),
                        false => remove(key),
                    };
                    out.lock().expect("no panic").extend(came_out);
                }
            });
        }
    });
    let mut out = out.into_inner().expect("no panic");
    out.extend((0..load.keys).filter_map(remove));
    let distinct: BTreeSet<_> = out.iter().copied().collect();
    let inserted = next.into_inner();
    match (out.len() as u64, distinct.len() as u64) {
        (count, distinct) if count == inserted && distinct == inserted => Ok(()),
        (count, distinct) => Err(format!(
            "{inserted} went in, {count} came out, {distinct} of them distinct"
        )),
    }
}

#[test]
fn each_value_comes_out_once() {
    let map = Map::new();
    let map = map.concurrently();
    let load = Load {
        rounds: 20_000,
        keys: 4,
        inserts_percent: 50,
    };
    let insert = |key, value| map.insert(key, value);
    let checked = check_nothing_is_lost_or_doubled(&load, insert, |key| map.remove(&key));
    assert_eq!(checked, Ok(()));
}

#[test]
fn the_check_finds_a_map_that_replaces_in_two_steps() {
    let map = Map::new();
    let map = map.concurrently();
    let all_looked = Barrier::new(THREADS as usize);
    let insert = |key: u8, value| {
        let old = map.get(&key);
        all_looked.wait();
        map.insert(key, value);
        old
    };
    let load = Load {
        rounds: 1,
        keys: 1,
        inserts_percent: 100,
    };
    let checked = check_nothing_is_lost_or_doubled(&load, insert, |key| map.remove(&key));
    assert!(checked.is_err());
}

/// One thread looks for a key while another puts in new values under it; how often it was not there.
fn gaps_seen(rounds: u64, look: impl Fn() -> bool + Sync, replace: impl Fn() + Sync) -> u64 {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut gaps = 0;
            while !is_over.load(Ordering::Acquire) {
                gaps += u64::from(!look());
            }
            gaps
        });
        (0..rounds).for_each(|_| replace());
        is_over.store(true, Ordering::Release);
        looks.join().expect("no panic")
    })
}

#[test]
fn a_key_whose_value_is_replaced_is_always_there() {
    let map: Map<u8, u64> = [(0, 0)].into_iter().collect();
    let map = map.concurrently();
    let replace = || {
        map.insert(0, 1);
    };
    let updates = || map.update(&0, |value| *value += 1).is_some();
    assert_eq!(gaps_seen(50_000, updates, replace), 0);
    assert_eq!(gaps_seen(50_000, || map.get(&0).is_some(), replace), 0);
    let with = || map.with(&0, |_| thread::yield_now()).is_some();
    assert_eq!(gaps_seen(50_000, with, replace), 0);
}

#[test]
fn a_value_that_is_replaced_in_two_steps_is_missed() {
    let map: Map<u8, u64> = [(0, 0)].into_iter().collect();
    let map = map.concurrently();
    let is_missed = AtomicBool::new(false);
    let look = || {
        let is_there = map.get(&0).is_some();
        is_missed.fetch_or(!is_there, Ordering::Release);
        is_there
    };
    let replace = || {
        map.remove(&0);
        while !is_missed.load(Ordering::Acquire) {
            thread::yield_now();
        }
        map.insert(0, 1);
    };
    assert_ne!(gaps_seen(1, look, replace), 0);
}

#[test]
fn no_update_is_lost_also_where_others_take_the_value_out() {
    let map: Map<u8, u64> = Map::new();
    let map = map.concurrently();
    let (rounds, taken) = (20_000, AtomicU64::new(0));
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let taken = &taken;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..rounds {
                    let key = random.u8(..2);
                    if map.update(&key, |count| *count += 1).is_none() {
                        map.update_or_insert_with(key, || 0, |count| *count += 1);
                    }
                    let out = match random.u8(..4) {
                        0 => map.remove(&key),
                        1 => map.insert(key, 0),
                        _ => None,
                    };
                    taken.fetch_add(out.unwrap_or(0), Ordering::Relaxed);
                }
            });
        }
    });
    let mut count = taken.into_inner();
    map.for_each(|_, left| count += left);
    assert_eq!(count, THREADS * rounds);
}

#[test]
fn reading_and_then_writing_loses_updates_so_update_is_needed() {
    let map: Map<u8, u64> = [(0, 0)].into_iter().collect();
    let map = map.concurrently();
    let both_read = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let count = map.get(&0).unwrap_or(0);
                both_read.wait();
                map.insert(0, count + 1);
            });
        }
    });
    assert_eq!(map.get(&0), Some(1));
}

#[test]
fn an_entry_stays_where_it_is_while_the_map_grows() {
    let map: Map<u32, String> = Map::new();
    map.concurrently().insert(0, "first".to_owned());
    let (one, other) = (map.entry(&0), map.entry(&1));
    let mut other = other;
    other.insert("second".to_owned());
    let (held, mut changing) = (
        one.get().expect("it is there"),
        other.get_mut().expect("too"),
    );
    let place = &raw const *held;
    // Other threads and this one put in and take out all other keys, among them such of the same parts.
    thread::scope(|scope| {
        for thread in 0..2 {
            let map = map.concurrently();
            scope.spawn(move || {
                for key in (2 + thread..20_000).step_by(2) {
                    map.insert(key, key.to_string());
                }
            });
        }
    });
    for key in (2..20_000).step_by(3) {
        assert_eq!(map.concurrently().remove(&key), Some(key.to_string()));
    }
    changing.push_str(" changed");
    assert_eq!((&raw const *held, held.as_str()), (place, "first"));
    drop(changing);
    assert_eq!(map.get(&1).as_deref(), Some("second changed"));
}

/// Moves amounts between accounts; how much there is afterwards.
fn total_after_transfers(transfer: impl Fn(&Map<usize, i64>, usize, usize) + Sync) -> i64 {
    let accounts: Map<usize, i64> = (0..8).map(|account| (account, 1_000)).collect();
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (accounts, transfer) = (&accounts, &transfer);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..5_000 {
                    let (from, to) = (random.usize(..8), random.usize(..8));
                    if from != to {
                        transfer(accounts, from, to);
                    }
                }
            });
        }
    });
    let mut total = 0;
    accounts.for_each(|_, amount| total += amount);
    total
}

#[test]
fn two_locked_keys_are_changed_together() {
    // Stands for the locks of the service.
    let locks: Vec<_> = (0..8).map(|_| Mutex::new(())).collect();
    let total = total_after_transfers(|accounts, from, to| {
        let _first = locks[from.min(to)].lock();
        let _second = locks[from.max(to)].lock();
        let (mut from, mut to) = (accounts.entry(&from), accounts.entry(&to));
        let (mut from, mut to) = (from.get_mut().expect("one"), to.get_mut().expect("other"));
        *from -= 1;
        *to += 1;
    });
    assert_eq!(total, 8_000);
}

#[test]
fn the_total_shows_where_a_step_is_missing() {
    let total = total_after_transfers(|accounts, from, to| {
        accounts.concurrently().update(&from, |amount| *amount -= 1);
        if (from, to) != (0, 1) {
            accounts.concurrently().update(&to, |amount| *amount += 1);
        }
    });
    assert_ne!(total, 8_000);
}

fn panics(work: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

#[test]
fn who_waits_for_himself_does_not_wait_forever() {
    let mut map = Map::with_value_wait_max(Duration::from_millis(20));
    map.extend([(1, 1), (2, 2)]);
    let change_within = |key: i32| {
        map.concurrently().update(&1, |_| {
            map.concurrently().update(&key, |value| *value += 1);
        });
    };
    let change_both = |one: i32, other: i32| {
        let (mut one, mut other) = (map.entry(&one), map.entry(&other));
        let _values = (one.get_mut(), other.get_mut());
    };
    assert!(panics(|| change_within(1)) && panics(|| change_both(1, 1)));
    assert!(!panics(|| change_within(2)) && !panics(|| change_both(1, 2)));
    // What is read can be read again meanwhile.
    let (one, other) = (map.entry(&1), map.entry(&1));
    let values = (one.get(), other.get());
    assert!(values.0.is_some() && values.1.is_some());
    drop(values);
    assert_eq!((map.get(&1), map.get(&2)), (Some(1), Some(3)));
}

#[test]
fn a_panic_in_a_function_leaves_the_map_usable() {
    let map: Map<u8, u64> = [(1, 1)].into_iter().collect();
    let map = map.concurrently();
    let change = |_: &mut u64| -> u64 { panic!("as it should") };
    assert!(panics(|| {
        map.update(&1, change);
    }));
    assert!(panics(|| {
        map.update_or_insert_with(2, || 7, change);
    }));
    assert_eq!((map.insert(1, 3), map.remove(&2)), (Some(1), Some(7)));
}

#[test]
fn equal_keys_have_equal_hashes_and_others_differ() {
    let hash = |key: &str| Map::<String, u8>::hash_of(&key.to_owned());
    assert_eq!(hash("one"), hash("one"));
    assert_ne!(hash("one"), hash("other"));
}

/// As the parameter of a handler is made.
struct Shared<'r, T: Concurrent>(Concurrently<'r, T>);

impl<'r, T: Concurrent> Deref for Shared<'r, T> {
    type Target = Concurrently<'r, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

#[test]
fn a_parameter_that_is_one_changes_it_without_more_words() {
    let map = Map::new();
    let shared = Shared(Concurrently::new(&map));
    shared.insert("one", 1);
    shared.update("one", |value| *value += 1);
    assert_eq!((shared.get("one"), shared.len()), (Some(2), 1));
}
