//! What the locks promise to one caller at a time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use web::locks::{
    LockId, Locks, LocksBuilder, Mode, Overloaded, Parked, Plan, PlanError, Taken, WANTS_MAX, Want,
};

fn two_locks(waiting_max: usize) -> (Arc<Locks>, LockId, LockId) {
    let mut builder = LocksBuilder::new();
    let [first, second] = ["first", "second"].map(|name| builder.add(name));
    (builder.build(waiting_max), first, second)
}

fn reads(lock: LockId) -> Want {
    let (mode, key) = (Mode::Read, None);
    Want { lock, mode, key }
}

fn writes(lock: LockId) -> Want {
    Want {
        mode: Mode::Write,
        ..reads(lock)
    }
}

fn key(want: Want, key: u64) -> Want {
    Want {
        key: Some(key),
        ..want
    }
}

fn plan<const COUNT: usize>(wants: [Want; COUNT]) -> Plan {
    Plan::new(wants).expect("the wants do not conflict")
}

/// Those who were told, by name, and what they hold.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(&'static str, Taken)>>>);

impl Told {
    fn park(
        &self,
        locks: &Arc<Locks>,
        plan: &Plan,
        name: &'static str,
    ) -> Result<Parked, Overloaded> {
        let told = self.clone();
        locks.take_or_park(plan, move |taken| told.list().push((name, taken)))
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<(&'static str, Taken)>> {
        self.0.lock().expect("nobody panics with it")
    }

    fn names(&self) -> Vec<&'static str> {
        self.list().iter().map(|(name, _)| *name).collect()
    }

    fn release(&self, name: &str) {
        let mut list = self.list();
        let place = list.iter().position(|(told, _)| *told == name);
        let taken = list.remove(place.expect("it was told"));
        // Whoever is told next adds itself.
        drop(list);
        drop(taken);
    }
}

#[test]
fn a_plan_says_what_cannot_be() {
    let (_, first, second) = two_locks(0);
    let twice = Err(PlanError::Twice { lock: first });
    let made = |wants: &[Want]| Plan::new(wants.iter().copied()).map(drop);
    assert_eq!(made(&[writes(first), reads(first)]), twice);
    assert_eq!(made(&[writes(first), writes(first)]), twice);
    assert_eq!(made(&[writes(first), key(reads(first), 1)]), twice);
    assert_eq!(
        made(&[key(writes(first), 1), reads(second), reads(first)]),
        twice
    );
    let same_key = PlanError::SameKey {
        lock: first,
        key: 1,
    };
    assert_eq!(
        made(&[key(writes(first), 1), key(reads(first), 1)]),
        Err(same_key)
    );
    let many = (0..=WANTS_MAX as u64).map(|number| key(reads(first), number));
    assert_eq!(Plan::new(many).map(drop), Err(PlanError::TooMany));
    assert_eq!(
        made(&[reads(first), reads(first), key(reads(first), 1)]),
        Ok(())
    );
    assert_eq!(
        made(&[key(writes(first), 1), key(writes(first), 2), writes(second)]),
        Ok(())
    );
}

#[test]
fn a_plan_covers_what_it_takes() {
    let (_, first, second) = two_locks(0);
    let whole = plan([writes(first), reads(second)]);
    assert!(
        whole.covers(reads(first))
            && whole.covers(key(writes(first), 1))
            && whole.covers(reads(second))
    );
    assert!(!whole.covers(writes(second)));
    let one_key = plan([key(reads(first), 1)]);
    assert!(one_key.covers(key(reads(first), 1)));
    assert!(!one_key.covers(key(writes(first), 1)) && !one_key.covers(key(reads(first), 2)));
    assert!(!one_key.covers(reads(first)));
}

#[test]
fn what_conflicts_is_not_taken_together() {
    let (locks, first, second) = two_locks(0);
    let cases = [
        (reads(first), reads(first), true),
        (reads(first), writes(first), false),
        (writes(first), writes(first), false),
        (writes(first), writes(second), true),
        (key(writes(first), 1), key(writes(first), 2), true),
        (key(writes(first), 1), key(writes(first), 1), false),
        (key(writes(first), 1), key(reads(first), 1), false),
        (key(reads(first), 1), key(reads(first), 1), true),
        (key(writes(first), 1), reads(first), false),
        (key(reads(first), 1), reads(first), true),
        (key(reads(first), 1), writes(first), false),
    ];
    for (one, other, together) in cases {
        for (one, other) in [(one, other), (other, one)] {
            let held = locks.try_take(&plan([one])).expect("nobody holds anything");
            let taken = locks.try_take(&plan([other]));
            assert_eq!(taken.is_some(), together, "{other:?} beside {one:?}");
            drop((held, taken));
        }
    }
    assert_eq!(locks.keys_now(), 0);
}

#[test]
fn what_is_not_all_free_is_not_taken_at_all() {
    let (locks, first, second) = two_locks(0);
    let held = locks.try_take(&plan([writes(second)])).expect("it is free");
    let both = plan([writes(second), writes(first)]);
    assert!(locks.try_take(&both).is_none());
    let numbers = locks.numbers(first);
    assert!(!numbers.held_now);
    assert_eq!(numbers.taken_at_once, 0);
    drop(held);
    assert!(locks.try_take(&both).is_some());
}

#[test]
fn readers_behind_a_writer_wait_and_go_together() {
    let (locks, first, _) = two_locks(9);
    let [read, write] = [plan([reads(first)]), plan([writes(first)])];
    let told = Told::default();
    for (name, plan) in [
        ("r1", &read),
        ("w2", &write),
        ("r3", &read),
        ("r4", &read),
        ("w5", &write),
        ("r6", &read),
    ] {
        told.park(&locks, plan, name).expect("nine may wait");
    }
    assert_eq!(told.names(), ["r1"]);
    assert!(locks.try_take(&read).is_none(), "nobody barges in");
    told.release("r1");
    assert_eq!(told.names(), ["w2"]);
    told.release("w2");
    assert_eq!(told.names(), ["r3", "r4"]);
    told.release("r4");
    told.release("r3");
    told.release("w5");
    assert_eq!(told.names(), ["r6"]);
    let numbers = locks.numbers(first);
    assert_eq!(
        (numbers.parked, numbers.waiting_now, numbers.waiting.count()),
        (5, 0, 5)
    );
}

#[test]
fn a_key_waits_only_for_itself_and_for_the_whole() {
    let (locks, first, _) = two_locks(9);
    let told = Told::default();
    told.park(&locks, &plan([key(writes(first), 1)]), "a")
        .expect("nine may wait");
    told.park(&locks, &plan([key(writes(first), 1)]), "b")
        .expect("nine may wait");
    told.park(&locks, &plan([key(writes(first), 2)]), "c")
        .expect("nine may wait");
    told.park(&locks, &plan([reads(first)]), "whole")
        .expect("nine may wait");
    told.park(&locks, &plan([key(writes(first), 3)]), "d")
        .expect("nine may wait");
    assert_eq!(told.names(), ["a", "c"]);
    assert_eq!(locks.keys_now(), 3);
    told.release("a");
    assert_eq!(told.names(), ["c", "b"]);
    told.release("c");
    told.release("b");
    assert_eq!(told.names(), ["whole"]);
    told.release("whole");
    told.release("d");
    assert_eq!(locks.keys_now(), 0);
}

#[test]
fn no_more_wait_than_may() {
    let (locks, first, _) = two_locks(1);
    let write = plan([writes(first)]);
    let told = Told::default();
    told.park(&locks, &write, "a").expect("it is free");
    let parked = told.park(&locks, &write, "b").expect("one may wait");
    assert_eq!(told.park(&locks, &write, "c").err(), Some(Overloaded));
    assert_eq!(locks.numbers(first).refused, 1);
    assert!(parked.cancel());
    told.park(&locks, &write, "d").expect("there is room again");
    told.release("a");
    assert_eq!(told.names(), ["d"]);
    told.park(&locks, &write, "e").expect("there is room again");
}

#[test]
fn who_is_cancelled_is_never_told_and_lets_others_pass() {
    let (locks, first, second) = two_locks(9);
    let told = Told::default();
    told.park(&locks, &plan([reads(first)]), "a")
        .expect("nine may wait");
    let both = plan([writes(first), writes(second)]);
    let parked = told.park(&locks, &both, "b").expect("nine may wait");
    told.park(&locks, &plan([reads(first)]), "c")
        .expect("nine may wait");
    told.park(&locks, &plan([key(writes(second), 5)]), "d")
        .expect("nine may wait");
    assert_eq!(told.names(), ["a"]);
    assert!(parked.is_waiting());
    assert!(parked.cancel());
    assert!(parked.cancel(), "it still never will be told");
    assert_eq!(told.names(), ["a", "c", "d"]);
    assert_eq!(locks.waiting_now(), 0);
    for name in ["a", "c", "d"] {
        told.release(name);
    }
    assert_eq!(told.names(), [""; 0]);
    assert_eq!(
        (
            locks.numbers(first).cancelled,
            locks.numbers(second).cancelled
        ),
        (1, 0)
    );
}

#[test]
fn who_was_told_cannot_be_cancelled() {
    let (locks, first, _) = two_locks(9);
    let told = Told::default();
    let write = plan([writes(first)]);
    let at_once = told.park(&locks, &write, "a").expect("nine may wait");
    assert!(!at_once.cancel());
    let parked = told.park(&locks, &write, "b").expect("nine may wait");
    told.release("a");
    assert!(!parked.cancel());
    assert_eq!(told.names(), ["b"]);
}

#[test]
fn what_a_cancelled_request_owned_is_dropped_outside() {
    let (locks, first, second) = two_locks(9);
    let held = locks.try_take(&plan([writes(first)])).expect("it is free");
    let owned = locks.try_take(&plan([writes(second)])).expect("it is free");
    let both = plan([writes(first), writes(second)]);
    let parked = locks
        .take_or_park(&both, move |_| drop(owned))
        .expect("nine may wait");
    // It owns a lock of its own line. If that were released under the mutex of the line, this would never return.
    assert!(parked.cancel());
    assert!(locks.try_take(&plan([writes(second)])).is_some());
    drop(held);
}

#[test]
fn a_long_line_is_no_deep_stack() {
    const WAITING: usize = 200_000;
    let (locks, first, _) = two_locks(WAITING);
    let write = plan([writes(first)]);
    let told = Arc::new(AtomicUsize::new(0));
    let held = locks.try_take(&write).expect("it is free");
    for _ in 0..WAITING {
        let told = told.clone();
        let parked = locks.take_or_park(&write, move |taken| {
            told.fetch_add(1, SeqCst);
            drop(taken);
        });
        drop(parked.expect("so many may wait"));
    }
    drop(held);
    assert_eq!(told.load(SeqCst), WAITING);
    assert_eq!(locks.waiting_now(), 0);
}

#[test]
fn a_panic_of_one_who_is_told_harms_nobody_else() {
    let (locks, first, _) = two_locks(9);
    let write = plan([writes(first)]);
    let told = Told::default();
    told.park(&locks, &write, "a").expect("nine may wait");
    locks
        .take_or_park(&write, |_taken| panic!("as the test wants it"))
        .expect("nine may wait");
    told.park(&locks, &write, "c").expect("nine may wait");
    told.release("a");
    assert_eq!(told.names(), ["c"]);
}

#[test]
fn locks_outlive_their_maker_and_forget_nobody() {
    let (locks, first, _) = two_locks(9);
    let write = plan([writes(first)]);
    let told = Told::default();
    told.park(&locks, &write, "a").expect("nine may wait");
    told.park(&locks, &write, "b").expect("nine may wait");
    let weak = Arc::downgrade(&locks);
    drop(locks);
    told.release("a");
    assert_eq!(told.names(), ["b"]);
    told.release("b");
    assert!(weak.upgrade().is_none(), "nothing keeps the locks");
}

#[test]
fn numbers_count_beyond_what_a_word_holds() {
    const ROUNDS: u64 = (1 << 20) + 3;
    let (locks, first, second) = two_locks(9);
    let held = locks.try_take(&plan([writes(second)])).expect("it is free");
    let [one, both] = [plan([writes(first)]), plan([reads(first), reads(second)])];
    for round in 0..ROUNDS {
        assert!(locks.try_take(&one).is_some());
        // What is given back is not counted, also where the count begins anew.
        assert!(round % 3 != 0 || locks.try_take(&both).is_none());
    }
    drop(held);
    let numbers = locks.numbers(first);
    assert_eq!(numbers.taken_at_once, ROUNDS);
    let estimated = numbers.holding.count();
    assert!(
        estimated.abs_diff(ROUNDS) < ROUNDS / 100,
        "{estimated} of {ROUNDS}"
    );
    assert_eq!(locks.name(first), "first");
    assert!(locks.ids().eq([first, second]));
}

#[test]
#[should_panic(expected = "another service")]
fn locks_of_others_are_refused_before_anything_is_taken() {
    let (_, first, second) = two_locks(9);
    let mut builder = LocksBuilder::new();
    builder.add("only");
    let locks = builder.build(9);
    let wide = plan([writes(first), writes(second)]);
    let refused = catch_unwind(AssertUnwindSafe(|| locks.try_take(&wide).is_some()));
    assert!(!locks.numbers(first).held_now);
    std::panic::resume_unwind(refused.expect_err("it is not one of these"));
}

#[test]
fn many_states_and_keys_are_released_all() {
    let mut builder = LocksBuilder::new();
    let all: Vec<LockId> = (0..20)
        .map(|number| builder.add(&format!("state {number}")))
        .collect();
    let locks = builder.build(9);
    let wide = Plan::new(all.iter().rev().map(|&lock| match lock.index() % 3 {
        0 => writes(lock),
        1 => reads(lock),
        _ => key(writes(lock), 7),
    }));
    let wide = wide.expect("the wants do not conflict");
    let told = Told::default();
    told.park(&locks, &wide, "a").expect("nine may wait");
    told.park(&locks, &wide, "b").expect("nine may wait");
    told.park(&locks, &wide, "c")
        .expect("nine may wait")
        .cancel();
    told.release("a");
    told.release("b");
    for lock in all {
        assert!(locks.try_take(&plan([writes(lock)])).is_some());
    }
    assert_eq!(locks.keys_now(), 0);
}
