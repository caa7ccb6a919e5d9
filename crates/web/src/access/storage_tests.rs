//! That states are lent as their locks allow and no more, whatever is asked for. These run under Miri too.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::access::{Claim, OnPanic, Shares, States};
use crate::locks::{Mode, Want};

use super::*;

struct Count(u64);

impl Concurrent for Count {}

fn states() -> States {
    let mut shares = Shares::default();
    shares.add(Count(0), OnPanic::Quarantine);
    shares.build(10)
}

fn want(cell: &StateCell<Count>, mode: Mode, key: Option<u64>) -> Want {
    Want {
        lock: cell.lock,
        mode,
        key,
    }
}

fn held(cell: &StateCell<Count>, mode: Mode, key: Option<u64>) -> Held {
    let claim = Claim::new(&cell.locks, &[want(cell, mode, key)]).unwrap();
    loop {
        match claim.try_take() {
            Some(granted) => return Held::of(granted),
            None => std::thread::yield_now(),
        }
    }
}

fn panics<T>(asked: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(asked)).is_err()
}

#[test]
fn what_is_written_by_many_threads_is_all_there() {
    let times: u64 = if cfg!(miri) { 20 } else { 1_000 };
    let cell = states().find::<Count>().unwrap();
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..times {
                    held(&cell, Mode::Write, None).write(&cell).0 += 1;
                    assert!(held(&cell, Mode::Read, None).read(&cell).0 > 0);
                }
            });
        }
    });
    assert_eq!(held(&cell, Mode::Read, None).read(&cell).0, 3 * times);
}

#[test]
fn nothing_is_lent_twice_in_conflict() {
    let cell = states().find::<Count>().unwrap();
    let mut alone = held(&cell, Mode::Write, None);
    let count = alone.write(&cell);
    assert!(panics(|| alone.write(&cell)));
    assert!(
        panics(|| alone.read(&cell)),
        "the lock for writing is not one for reading"
    );
    count.0 += 1;
    alone.all_given_back();
    alone.write(&cell).0 += 1;
    drop(alone);

    let reading = held(&cell, Mode::Read, None);
    assert_eq!((reading.read(&cell).0, reading.read(&cell).0), (2, 2));
    assert!(panics(|| reading.write(&cell)));
}

#[test]
fn nothing_is_lent_without_its_lock() {
    let cell = states().find::<Count>().unwrap();
    let other = states().find::<Count>().unwrap();
    assert!(panics(|| Held::nothing().read(&cell).0));
    let reading = held(&cell, Mode::Read, None);
    assert!(
        panics(|| reading.read(&other)),
        "it is of another service, though its lock has the same number"
    );
    assert!(
        panics(|| reading.keyed(&cell)),
        "the whole is held and no key"
    );
    let keyed = held(&cell, Mode::Read, Some(7));
    assert!(
        panics(|| keyed.read(&cell)),
        "a key is held and not the whole"
    );
    assert_eq!(keyed.keyed(&cell).0, 0);
}

#[test]
fn keys_and_the_whole_are_no_claim_together() {
    let cell = states().find::<Count>().unwrap();
    let both = [
        want(&cell, Mode::Read, None),
        want(&cell, Mode::Read, Some(1)),
    ];
    assert!(Claim::new(&cell.locks, &both).is_err());
    let twice = [want(&cell, Mode::Write, Some(1)); 2];
    assert!(Claim::new(&cell.locks, &twice).is_err());
    let read_twice = [want(&cell, Mode::Read, None); 2];
    assert!(Claim::new(&cell.locks, &read_twice).is_ok());
}

#[test]
fn what_is_used_without_a_lock_is_never_written() {
    let states = states();
    let cell = states.find::<Count>().unwrap();
    assert!(panics(|| Held::nothing().concurrent(&cell).0));
    cell.is_concurrent.store(true, Ordering::Release);
    assert_eq!(Held::nothing().concurrent(&cell).0, 0);
    let alone = held(&cell, Mode::Write, None);
    assert!(panics(|| alone.write(&cell)));
}
