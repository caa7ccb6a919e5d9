//! The set against a model, and by many threads at the same time.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use proptest::prelude::*;
use web::shared::Set;

#[derive(Clone, Debug)]
enum Step {
    Insert(u8),
    Remove(u8),
    Contains(u8),
    Retain(u8),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let value = || 0..32_u8;
    prop_oneof![
        6 => value().prop_map(Step::Insert),
        4 => value().prop_map(Step::Remove),
        4 => value().prop_map(Step::Contains),
        1 => (2..5_u8).prop_map(Step::Retain),
        1 => Just(Step::Clear),
    ]
}

fn on_model(model: &mut BTreeSet<u8>, step: &Step) -> bool {
    match *step {
        Step::Insert(value) => model.insert(value),
        Step::Remove(value) => model.remove(&value),
        Step::Contains(value) => model.contains(&value),
        Step::Retain(divisor) => {
            model.retain(|value| value % divisor != 0);
            true
        }
        Step::Clear => {
            model.clear();
            true
        }
    }
}

fn exclusively(set: &mut Set<u8>, step: &Step) -> bool {
    match *step {
        Step::Insert(value) => set.insert(value),
        Step::Remove(value) => set.remove(&value),
        Step::Contains(value) => set.contains(&value),
        Step::Retain(divisor) => {
            set.retain(|value| value % divisor != 0);
            true
        }
        Step::Clear => {
            set.clear();
            true
        }
    }
}

fn together(set: &mut Set<u8>, step: &Step) -> bool {
    match *step {
        Step::Insert(value) => set.concurrently().insert(value),
        Step::Remove(value) => set.concurrently().remove(&value),
        _ => exclusively(set, step),
    }
}

/// The control: says that all is new.
fn wrongly(set: &mut Set<u8>, step: &Step) -> bool {
    exclusively(set, step) || matches!(step, Step::Insert(_))
}

fn check(steps: &[Step], take: fn(&mut Set<u8>, &Step) -> bool) -> Result<(), String> {
    let (mut set, mut model) = (Set::new(), BTreeSet::new());
    for step in steps {
        if take(&mut set, step) != on_model(&mut model, step) {
            return Err(format!("{step:?} gave something else"));
        }
        if (set.len(), set.is_empty()) != (model.len(), model.is_empty()) {
            return Err(format!("{} are there after {step:?}", set.len()));
        }
    }
    let values: BTreeSet<_> = set.clone().to_vec().into_iter().collect();
    match values == model {
        true => Ok(()),
        false => Err(format!("{values:?} is left instead of {model:?}")),
    }
}

proptest! {
    #[test]
    fn it_does_what_a_set_does(steps in prop::collection::vec(step(), 0..200)) {
        prop_assert_eq!(check(&steps, exclusively), Ok(()));
        prop_assert_eq!(check(&steps, together), Ok(()));
    }
}

#[test]
fn the_check_against_the_model_finds_what_is_wrong() {
    let steps = [Step::Insert(1), Step::Insert(1)];
    assert!(check(&steps, wrongly).is_err() && check(&steps, exclusively).is_ok());
}

const THREADS: usize = 4;

/// All threads insert the same values; how many were told that one is new.
fn told_new(values: u32, insert: impl Fn(u32) -> bool + Sync) -> usize {
    let told = |_| (0..values).filter(|value| insert(*value)).count();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || told(thread)))
            .collect();
        let counts = threads.into_iter().map(|thread| thread.join());
        counts.map(|count| count.expect("no panic")).sum()
    })
}

#[test]
fn of_many_who_insert_the_same_one_is_told_that_it_is_new() {
    let set = Set::new();
    let set = set.concurrently();
    assert_eq!(told_new(20_000, |value| set.insert(value)), 20_000);
    assert_eq!(told_new(20_000, |value| set.remove(&value)), 20_000);
    assert!(set.is_empty());
}

#[test]
fn looking_first_and_inserting_then_tells_more_than_one() {
    let set = Set::new();
    let all_looked = Barrier::new(THREADS);
    let in_two_steps = |value| {
        let is_new = !set.contains(&value);
        all_looked.wait();
        set.concurrently().insert(value);
        is_new
    };
    assert_eq!(told_new(1, in_two_steps), THREADS);
}
