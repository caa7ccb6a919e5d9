//! The code of the locks under a model checker that tries all orders in which threads can step, and all values that they may
//! read by the rules of the memory model. It is built from the sources themselves on the checker's atomics and mutexes,
//! and so needs no flag. Two wrong variants show that the checks find what is wrong.
//!
//! What a lock guards is a number that is read and written `Relaxed`, in two steps. So if anything is missing between one holder and
//! the next, some order loses a change, or reads what is old.

#![allow(dead_code, unused_imports, clippy::duplicate_mod)]

mod mutex;
mod right;
mod torn;
mod unordered;

use std::panic::catch_unwind;

use loom::model::Builder;

/// Explores all schedules with at most so many switches between threads that could have gone on.
fn explore(preemptions: usize, scenario: fn()) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(scenario);
}

/// Scenarios over one variant of the locks.
macro_rules! scenarios {
    ($module:ident, $variant:ident) => {
        mod $module {
            use std::sync::Arc;
            use std::sync::atomic::Ordering::{Relaxed, SeqCst};

            use super::$variant::{LockId, LocksBuilder, Mode, Plan, Taken, Want};
            use loom::sync::atomic::AtomicU64;
            use loom::thread;
            /// What the checks themselves count; the model does not look at it.
            use std::sync::atomic::AtomicUsize as Tally;

            fn want(lock: LockId, mode: Mode) -> Want {
                Want {
                    lock,
                    mode,
                    key: None,
                }
            }

            fn plan(wants: impl IntoIterator<Item = Want>) -> Plan {
                Plan::new(wants).expect("no state is wanted twice")
            }

            /// What is guarded.
            #[derive(Default)]
            struct Guarded {
                /// Always equal but while it is written.
                first: AtomicU64,
                second: AtomicU64,
                told: Tally,
                unequal: Tally,
            }

            impl Guarded {
                fn add(&self) {
                    self.first.store(self.first.load(Relaxed) + 1, Relaxed);
                    self.second.store(self.second.load(Relaxed) + 1, Relaxed);
                    self.told.fetch_add(1, SeqCst);
                }

                fn look(&self) {
                    let is_unequal = self.first.load(Relaxed) != self.second.load(Relaxed);
                    self.unequal.fetch_add(usize::from(is_unequal), SeqCst);
                    self.told.fetch_add(1, SeqCst);
                }
            }

            fn add_to(guarded: &Arc<Guarded>) -> impl FnOnce(Taken) + Send + 'static {
                let guarded = guarded.clone();
                move |taken| {
                    guarded.add();
                    drop(taken);
                }
            }

            fn look_at(guarded: &Arc<Guarded>) -> impl FnOnce(Taken) + Send + 'static {
                let guarded = guarded.clone();
                move |taken| {
                    guarded.look();
                    drop(taken);
                }
            }

            /// Two who write one state: both are told, one after the other, whoever comes first.
            pub fn two_writers() {
                let mut builder = LocksBuilder::new();
                let lock = builder.add("lock");
                let locks = builder.build(2);
                let guarded = Arc::new(Guarded::default());
                let plan = plan([want(lock, Mode::Write)]);
                let other = {
                    let (locks, plan, guarded) = (locks.clone(), plan.clone(), guarded.clone());
                    thread::spawn(move || {
                        locks
                            .take_or_park(&plan, add_to(&guarded))
                            .expect("two may wait");
                    })
                };
                locks
                    .take_or_park(&plan, add_to(&guarded))
                    .expect("two may wait");
                other.join().expect("it does not panic");
                assert_eq!(guarded.told.load(SeqCst), 2, "somebody was never told");
                assert_eq!(guarded.first.load(Relaxed), 2, "a change was lost");
                assert!(locks.try_take(&plan).is_some(), "nobody holds it any more");
                assert_eq!(locks.waiting_now(), 0);
            }

            /// Three requests over two states, each state being wanted by two of them, in both orders.
            pub fn crossing_plans() {
                let mut builder = LocksBuilder::new();
                let [first, second] = ["first", "second"].map(|name| builder.add(name));
                let locks = builder.build(3);
                let states = [(); 2].map(|()| Arc::new(Guarded::default()));
                let both = plan([want(second, Mode::Write), want(first, Mode::Write)]);
                let singles = [first, second].map(|lock| plan([want(lock, Mode::Write)]));
                let other = {
                    let (locks, states, both) = (locks.clone(), states.clone(), both.clone());
                    thread::spawn(move || {
                        let on_taken = move |taken: Taken| {
                            states.iter().for_each(|state| state.add());
                            drop(taken);
                        };
                        locks.take_or_park(&both, on_taken).expect("three may wait");
                    })
                };
                for (single, state) in singles.iter().zip(&states) {
                    locks
                        .take_or_park(single, add_to(state))
                        .expect("three may wait");
                }
                other.join().expect("it does not panic");
                for state in &states {
                    assert_eq!(state.told.load(SeqCst), 2, "somebody was never told");
                    assert_eq!(state.first.load(Relaxed), 2, "a change was lost");
                }
                assert!(
                    locks.try_take(&both).is_some(),
                    "nobody holds them any more"
                );
            }

            /// Two who read beside one who writes: who reads never sees half of what is written.
            pub fn readers_and_a_writer() {
                let mut builder = LocksBuilder::new();
                let lock = builder.add("lock");
                let locks = builder.build(3);
                let guarded = Arc::new(Guarded::default());
                let [reads, writes] =
                    [Mode::Read, Mode::Write].map(|mode| plan([want(lock, mode)]));
                let readers = [(); 2].map(|()| {
                    let (locks, guarded, reads) = (locks.clone(), guarded.clone(), reads.clone());
                    thread::spawn(move || {
                        locks
                            .take_or_park(&reads, look_at(&guarded))
                            .expect("three may wait");
                    })
                });
                locks
                    .take_or_park(&writes, add_to(&guarded))
                    .expect("three may wait");
                for reader in readers {
                    reader.join().expect("it does not panic");
                }
                assert_eq!(guarded.told.load(SeqCst), 3, "somebody was never told");
                assert_eq!(
                    guarded.unequal.load(SeqCst),
                    0,
                    "a reader saw half of a change"
                );
                assert!(
                    locks.try_take(&writes).is_some(),
                    "nobody holds it any more"
                );
            }

            /// One is cancelled while the lock is handed to it: it is either told or cancelled, and the lock becomes free.
            pub fn cancelled_while_granted() {
                let mut builder = LocksBuilder::new();
                let [first, second] = ["first", "second"].map(|name| builder.add(name));
                let locks = builder.build(2);
                let guarded = Arc::new(Guarded::default());
                let both = plan([want(first, Mode::Write), want(second, Mode::Write)]);
                let held = locks
                    .try_take(&plan([want(first, Mode::Write)]))
                    .expect("nobody holds it");
                let parked = locks
                    .take_or_park(&both, add_to(&guarded))
                    .expect("two may wait");
                let behind = locks
                    .take_or_park(&both, add_to(&guarded))
                    .expect("two may wait");
                let holder = thread::spawn(move || drop(held));
                let is_cancelled = parked.cancel();
                holder.join().expect("it does not panic");
                let told = guarded.told.load(SeqCst);
                assert_eq!(
                    told,
                    2 - usize::from(is_cancelled),
                    "told {told}, cancelled {is_cancelled}"
                );
                assert!(!behind.cancel());
                assert_eq!(
                    guarded.first.load(Relaxed),
                    told as u64,
                    "a change was lost"
                );
                assert!(
                    locks.try_take(&both).is_some(),
                    "nobody holds them any more"
                );
                assert_eq!(locks.waiting_now(), 0);
            }

            /// Two release, each on its own thread, what one waits for: it is told once, and has what both left.
            pub fn granted_by_two() {
                let mut builder = LocksBuilder::new();
                let ids = ["first", "second"].map(|name| builder.add(name));
                let locks = builder.build(1);
                let states = [(); 2].map(|()| Arc::new(Guarded::default()));
                let held = ids.map(|lock| {
                    locks
                        .try_take(&plan([want(lock, Mode::Write)]))
                        .expect("nobody holds it")
                });
                let both = plan(ids.map(|lock| want(lock, Mode::Write)));
                let on_taken = {
                    let states = states.clone();
                    move |taken: Taken| {
                        states.iter().for_each(|state| state.add());
                        drop(taken);
                    }
                };
                locks.take_or_park(&both, on_taken).expect("one may wait");
                let mut holders = held.into_iter().zip(&states).map(|(held, state)| {
                    let state = state.clone();
                    move || {
                        state.add();
                        drop(held);
                    }
                });
                let [one, other] = [(); 2].map(|()| holders.next().expect("there are two"));
                let other = thread::spawn(other);
                one();
                other.join().expect("it does not panic");
                for state in &states {
                    assert_eq!(state.told.load(SeqCst), 2, "it was never told");
                    assert_eq!(state.first.load(Relaxed), 2, "a change was lost");
                }
                assert!(
                    locks.try_take(&both).is_some(),
                    "nobody holds them any more"
                );
            }

            /// Two who write one key, and one who reads the whole state.
            pub fn keys_and_the_whole() {
                let mut builder = LocksBuilder::new();
                let lock = builder.add("lock");
                let locks = builder.build(3);
                let guarded = Arc::new(Guarded::default());
                let key = Want {
                    key: Some(7),
                    ..want(lock, Mode::Write)
                };
                let [one_key, whole] = [plan([key]), plan([want(lock, Mode::Read)])];
                let other = {
                    let (locks, guarded, one_key) =
                        (locks.clone(), guarded.clone(), one_key.clone());
                    thread::spawn(move || {
                        locks
                            .take_or_park(&one_key, add_to(&guarded))
                            .expect("three may wait");
                    })
                };
                locks
                    .take_or_park(&one_key, add_to(&guarded))
                    .expect("three may wait");
                locks
                    .take_or_park(&whole, look_at(&guarded))
                    .expect("three may wait");
                other.join().expect("it does not panic");
                assert_eq!(guarded.told.load(SeqCst), 3, "somebody was never told");
                assert_eq!(guarded.first.load(Relaxed), 2, "a change was lost");
                assert_eq!(
                    guarded.unequal.load(SeqCst),
                    0,
                    "a reader saw half of a change"
                );
                assert_eq!(locks.keys_now(), 0, "nobody holds a key any more");
                assert!(locks.try_take(&plan([want(lock, Mode::Write)])).is_some());
            }

            /// One takes what is free, without a place, while another parks and is handed what the first gives back.
            pub fn given_back_while_another_parks() {
                let mut builder = LocksBuilder::new();
                let [first, second] = ["first", "second"].map(|name| builder.add(name));
                let locks = builder.build(2);
                let guarded = Arc::new(Guarded::default());
                let held = locks
                    .try_take(&plan([want(second, Mode::Write)]))
                    .expect("nobody holds it");
                let [single, both] = [
                    plan([want(first, Mode::Write)]),
                    plan([want(first, Mode::Write), want(second, Mode::Write)]),
                ];
                let other = {
                    let (locks, both) = (locks.clone(), both.clone());
                    thread::spawn(move || assert!(locks.try_take(&both).is_none()))
                };
                locks
                    .take_or_park(&single, add_to(&guarded))
                    .expect("two may wait");
                other.join().expect("it does not panic");
                assert_eq!(guarded.told.load(SeqCst), 1, "it was never told");
                drop(held);
                assert!(
                    locks.try_take(&both).is_some(),
                    "nobody holds them any more"
                );
                assert_eq!(
                    locks.numbers(second).taken_at_once,
                    2,
                    "what was given back was not taken"
                );
            }
        }
    };
}

scenarios!(as_it_is, right);
scenarios!(without_order, unordered);
scenarios!(with_torn_words, torn);

#[test]
fn two_writers() {
    explore(4, as_it_is::two_writers);
}

#[test]
fn crossing_plans() {
    explore(3, as_it_is::crossing_plans);
}

#[test]
fn readers_and_a_writer() {
    explore(2, as_it_is::readers_and_a_writer);
}

#[test]
fn cancelled_while_granted() {
    explore(3, as_it_is::cancelled_while_granted);
}

#[test]
fn granted_by_two() {
    explore(4, as_it_is::granted_by_two);
}

#[test]
fn keys_and_the_whole() {
    explore(3, as_it_is::keys_and_the_whole);
}

#[test]
fn given_back_while_another_parks() {
    explore(3, as_it_is::given_back_while_another_parks);
}

#[test]
fn steps_that_order_nothing_are_found_out() {
    assert!(catch_unwind(|| explore(3, without_order::two_writers)).is_err());
    assert!(catch_unwind(|| explore(2, without_order::readers_and_a_writer)).is_err());
}

#[test]
fn lost_releases_are_found_out() {
    assert!(catch_unwind(|| explore(3, with_torn_words::two_writers)).is_err());
    assert!(catch_unwind(|| explore(3, with_torn_words::crossing_plans)).is_err());
}

#[test]
fn lost_grants_are_found_out() {
    assert!(catch_unwind(|| explore(3, with_torn_words::granted_by_two)).is_err());
}
