//! The counter against a plain number, and by many threads at the same time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use proptest::prelude::*;
use web::shared::Counter;

proptest! {
    #[test]
    fn it_counts_as_a_number_does(start: i64, amounts in prop::collection::vec(any::<(bool, i64)>(), 0..50)) {
        let counter = Counter::from(start);
        let mut model = start;
        for (is_up, amount) in amounts {
            match is_up {
                true => counter.add(amount),
                false => counter.subtract(amount),
            }
            model = match is_up {
                true => model.wrapping_add(amount),
                false => model.wrapping_sub(amount),
            };
            prop_assert_eq!(counter.value(), model);
        }
        let mut copy = counter.clone();
        copy.set(5);
        prop_assert_eq!((copy.value(), counter.value()), (5, model));
    }
}

const THREADS: i64 = 4;

fn counted_by_many(rounds: i64, count: impl Fn() + Sync) {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..rounds).for_each(|_| count()));
        }
    });
}

#[test]
fn nothing_is_lost_and_what_is_read_only_grows() {
    let (counter, is_over) = (Counter::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut before = 0;
            while !is_over.load(Ordering::Acquire) {
                let value = counter.value();
                assert!(value >= before, "{value} came after {before}");
                before = value;
            }
        });
        counted_by_many(50_000, || counter.add(1));
        is_over.store(true, Ordering::Release);
        reader.join().expect("it only grew");
    });
    assert_eq!(counter.value(), THREADS * 50_000);
}

#[test]
fn counting_in_two_steps_loses_some() {
    let (counter, all_read) = (AtomicI64::new(0), Barrier::new(THREADS as usize));
    counted_by_many(1, || {
        let value = counter.load(Ordering::Relaxed);
        all_read.wait();
        counter.store(value + 1, Ordering::Relaxed);
    });
    assert_eq!(counter.into_inner(), 1);
}
