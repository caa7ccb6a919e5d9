//! What every router promises. The suite runs over all that are built in and over some that a user
//! might write; broken ones prove that it would notice.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;

/// How a router chooses, and so what it promises.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Manner {
    /// One worker that has room, each as often as the others.
    One,
    /// All workers.
    All,
    /// Whichever it likes.
    Any,
}

/// Workers in memory.
struct Pool(Vec<(AtomicU32, AtomicBool)>);

impl Pool {
    fn new(count: u32) -> Self {
        let worker = |_| (AtomicU32::new(0), AtomicBool::new(true));
        Self((0..count).map(worker).collect())
    }

    fn fill(self, full: impl Fn(u32) -> bool) -> Self {
        for (number, (_, room)) in (0..).zip(&self.0) {
            room.store(!full(number), Ordering::Relaxed);
        }
        self
    }

    fn add(&self, worker: u32) {
        self.0[worker as usize].0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Workers for Pool {
    fn count(&self) -> u32 {
        self.0.len() as u32
    }

    fn waiting(&self, worker: u32) -> u32 {
        self.0[worker as usize].0.load(Ordering::Relaxed)
    }

    fn has_room(&self, worker: u32) -> bool {
        self.0[worker as usize].1.load(Ordering::Relaxed)
    }
}

type Outcome = Result<(), String>;
type Guarantee = fn(&dyn Router, Manner) -> Outcome;

const GUARANTEES: [(&str, Guarantee); 6] = [
    (
        "chooses workers that are there, each once",
        chooses_existing,
    ),
    ("chooses as many as its manner says", chooses_its_number),
    ("skips those without room", skips_full_ones),
    ("finds the only one with room", finds_the_only_room),
    ("is fair", is_fair),
    ("holds under several threads", holds_under_threads),
];

const COUNTS: [u32; 8] = [0, 1, 2, 3, 63, 64, 65, 300];

fn choose(router: &dyn Router, pool: &Pool) -> Result<Vec<u32>, String> {
    let mut chosen = Vec::new();
    router
        .select(&Message::new("x"), pool, &mut chosen)
        .map_err(|failure| failure.reason)?;
    check_existing(&chosen, pool.count())?;
    Ok(chosen)
}

fn check_existing(chosen: &[u32], count: u32) -> Outcome {
    let mut sorted = chosen.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    ensure(sorted.len() == chosen.len(), || {
        format!("twice: {chosen:?}")
    })?;
    ensure(chosen.iter().all(|worker| *worker < count), || {
        format!("{chosen:?} of {count}")
    })
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(what()) }
}

fn chooses_existing(router: &dyn Router, _manner: Manner) -> Outcome {
    // Shrinking and growing: what a router remembers must not outlive the workers.
    for count in COUNTS.into_iter().chain(COUNTS.into_iter().rev()) {
        let pool = Pool::new(count);
        (0..200).try_for_each(|_| choose(router, &pool).map(|_| ()))?;
    }
    Ok(())
}

fn chooses_its_number(router: &dyn Router, manner: Manner) -> Outcome {
    for count in COUNTS {
        let chosen = choose(router, &Pool::new(count))?.len() as u32;
        let fits = match manner {
            Manner::One => chosen == count.min(1),
            Manner::All => chosen == count,
            Manner::Any => true,
        };
        ensure(fits, || format!("{chosen} of {count}"))?;
    }
    Ok(())
}

fn skips_full_ones(router: &dyn Router, manner: Manner) -> Outcome {
    for count in COUNTS {
        let half = Pool::new(count).fill(|worker| worker % 2 == 0);
        let full = Pool::new(count).fill(|_| true);
        for _ in 0..200 {
            let from_half = choose(router, &half)?;
            let from_full = choose(router, &full)?;
            let fits = match manner {
                Manner::One => from_full.is_empty() && from_half.iter().all(|w| w % 2 == 1),
                // Copies wait in the queues of those that have no room.
                Manner::All => from_full.len() == count as usize,
                Manner::Any => true,
            };
            ensure(fits, || format!("{from_half:?} and {from_full:?}"))?;
        }
    }
    Ok(())
}

fn finds_the_only_room(router: &dyn Router, manner: Manner) -> Outcome {
    for count in COUNTS.into_iter().filter(|_| manner == Manner::One) {
        for only in [0, count / 2, count.saturating_sub(1)] {
            let pool = Pool::new(count).fill(|worker| worker != only);
            let chosen = choose(router, &pool)?;
            let expected: Vec<u32> = (0..count).filter(|worker| *worker == only).collect();
            ensure(chosen == expected, || format!("{chosen:?}, not {only}"))?;
        }
    }
    Ok(())
}

fn is_fair(router: &dyn Router, manner: Manner) -> Outcome {
    for count in [2, 10, 100] {
        if manner == Manner::Any {
            return Ok(());
        }
        // One worker is full all the time, and its neighbour must not inherit its share.
        let pool = Pool::new(count).fill(|worker| manner == Manner::One && worker == 1);
        let messages = count * 1_000;
        for _ in 0..messages {
            choose(router, &pool)?.into_iter().for_each(|w| pool.add(w));
        }
        let shares: Vec<u32> = (0..count).map(|worker| pool.waiting(worker)).collect();
        let share = match manner {
            Manner::One => messages / (count - 1),
            _ => messages,
        };
        let fits = |worker: &u32| {
            let got = shares[*worker as usize];
            got.abs_diff(share) <= share / 4 || (got == 0 && !pool.has_room(*worker))
        };
        ensure((0..count).all(|w| fits(&w)), || format!("{shares:?}"))?;
    }
    Ok(())
}

fn holds_under_threads(router: &dyn Router, manner: Manner) -> Outcome {
    let pool = Pool::new(5);
    let run = || (0..2_000).try_for_each(|_| choose_and_add(router, &pool));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        let mut outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
        outcomes.try_for_each(|outcome| outcome)
    })?;
    let total: u32 = (0..5).map(|worker| pool.waiting(worker)).sum();
    let expected = match manner {
        Manner::One => 8_000,
        Manner::All => 40_000,
        Manner::Any => total,
    };
    ensure(total == expected, || format!("{total} choices"))
}

fn choose_and_add(router: &dyn Router, pool: &Pool) -> Outcome {
    let chosen = choose(router, pool)?;
    chosen.into_iter().for_each(|worker| pool.add(worker));
    Ok(())
}

/// The guarantees that a router breaks.
fn broken(router: &dyn Router, manner: Manner) -> Vec<String> {
    let outcomes = GUARANTEES.map(|(name, guarantee)| (name, guarantee(router, manner)));
    let failed = outcomes.into_iter().filter_map(|(name, outcome)| {
        let why = outcome.err()?;
        Some(format!("{name}: {}", &why[..why.len().min(200)]))
    });
    failed.collect()
}

/// A router made of a function, as a user might write it.
struct Own<F>(F);

impl<F: Fn(&dyn Workers, &mut Vec<u32>) + Send + Sync> Router for Own<F> {
    fn select(
        &self,
        _message: &Message,
        workers: &dyn Workers,
        chosen: &mut Vec<u32>,
    ) -> Result<(), Failure> {
        (self.0)(workers, chosen);
        Ok(())
    }
}

#[test]
fn every_built_in_router_keeps_the_contract() {
    for (kind, make) in ROUTERS {
        let manner = if kind.is_routed() {
            Manner::All
        } else {
            Manner::One
        };
        assert_eq!(broken(&*make(), manner), [""; 0], "{kind}");
    }
}

#[test]
fn routers_of_ones_own_keep_the_contract() {
    let shuffled = Own(|workers: &dyn Workers, chosen: &mut Vec<u32>| {
        let mut with_room: Vec<u32> = (0..workers.count())
            .filter(|worker| workers.has_room(*worker))
            .collect();
        fastrand::shuffle(&mut with_room);
        chosen.extend(with_room.first());
    });
    assert_eq!(broken(&shuffled, Manner::One), [""; 0]);
    let first_and_last = Own(|workers: &dyn Workers, chosen: &mut Vec<u32>| {
        let count = workers.count();
        chosen.extend((0..count).filter(|w| *w == 0 || *w + 1 == count));
    });
    assert_eq!(broken(&first_and_last, Manner::Any), [""; 0]);
}

/// Runs the suite over a broken router and expects this guarantee to fail.
fn assert_noticed(
    select: impl Fn(&dyn Workers, &mut Vec<u32>) + Send + Sync,
    manner: Manner,
    guarantee: &str,
) {
    let broken = broken(&Own(select), manner);
    let noticed = broken.iter().any(|failed| failed.starts_with(guarantee));
    assert!(noticed, "{guarantee:?} is not among {broken:?}");
}

#[test]
fn broken_routers_are_noticed() {
    assert_noticed(
        |workers, chosen| chosen.push(workers.count()),
        Manner::Any,
        "chooses workers that are there",
    );
    assert_noticed(
        |workers, chosen| chosen.extend((0..workers.count()).chain(0..1)),
        Manner::Any,
        "chooses workers that are there",
    );
    assert_noticed(
        |workers, chosen| chosen.extend(1..workers.count()),
        Manner::All,
        "chooses as many",
    );
    assert_noticed(
        |workers, chosen| chosen.extend((0..workers.count()).take(1)),
        Manner::One,
        "skips those without room",
    );
    assert_noticed(
        |workers, chosen| chosen.extend((0..workers.count()).find(|w| workers.has_room(*w))),
        Manner::One,
        "is fair",
    );
    assert_noticed(
        |workers, chosen| {
            let guess = fastrand::u32(..workers.count().max(1));
            chosen.extend((guess < workers.count() && workers.has_room(guess)).then_some(guess));
        },
        Manner::One,
        "finds the only one",
    );
}

#[test]
fn round_robin_goes_around_in_order() {
    let router = round_robin::make();
    let pool = Pool::new(4).fill(|worker| worker == 2);
    let order: Vec<u32> = (0..7)
        .flat_map(|_| choose(&*router, &pool).unwrap())
        .collect();
    assert_eq!(order, [0, 1, 3, 0, 1, 3, 0]);
}

#[test]
fn the_smallest_mailbox_is_found_among_few_and_nearly_among_many() {
    let router = smallest_mailbox::make();
    let few = Pool::new(64);
    (0..64).for_each(|w| (0..=(w + 13) % 64).for_each(|_| few.add(w)));
    for _ in 0..100 {
        assert_eq!(choose(&*router, &few).unwrap(), [51]);
    }
    let many = Pool::new(1_000);
    (0..1_000).for_each(|w| (0..w).for_each(|_| many.add(w)));
    let sum: u32 = (0..1_000)
        .map(|_| choose(&*router, &many).unwrap()[0])
        .sum();
    // The best of eight has a ninth of the workers before it on average; a guess has half.
    assert!(sum / 1_000 < 150, "{} on average", sum / 1_000);
}

#[test]
fn tail_chopping_asks_those_with_room_first_and_in_any_order() {
    let router = tail_chopping::make();
    let pool = Pool::new(10).fill(|worker| worker < 3);
    let orders: Vec<_> = (0..50).map(|_| choose(&*router, &pool).unwrap()).collect();
    assert!(
        orders
            .iter()
            .all(|order| order[..7].iter().all(|w| *w >= 3))
    );
    assert!(orders.iter().any(|order| *order != orders[0]));
}
