//! All orders in which a few requests can begin, be cancelled and end, on the locks as they are. After each event exactly those
//! run who should: in every line the longest row of requests, from the front, that may hold the lock together.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use web::locks::{LockId, Locks, LocksBuilder, Mode, Parked, Plan, Taken, Want};

/// A state, how it is wanted, and perhaps which key of it.
type Wish = (usize, Mode, Option<u64>);

const STATES: usize = 2;

/// What is looked at: who runs after what happened.
trait Engine {
    fn new(wishes: &[Vec<Wish>]) -> Self;
    fn begin(&mut self, who: usize);
    fn end(&mut self, who: usize);
    fn cancel(&mut self, who: usize);
    fn running(&self) -> BTreeSet<usize>;
}

/// The locks as they are.
struct Real {
    locks: Arc<Locks>,
    plans: Vec<Plan>,
    parked: Vec<Option<Parked>>,
    taken: Arc<Mutex<Vec<(usize, Taken)>>>,
}

impl Engine for Real {
    fn new(wishes: &[Vec<Wish>]) -> Self {
        let mut builder = LocksBuilder::new();
        let states: [LockId; STATES] = std::array::from_fn(|_| builder.add("state"));
        let want = |&(state, mode, key): &Wish| Want {
            lock: states[state],
            mode,
            key,
        };
        let plan = |wishes: &Vec<Wish>| Plan::new(wishes.iter().map(want)).expect("it makes sense");
        Self {
            locks: builder.build(wishes.len()),
            plans: wishes.iter().map(plan).collect(),
            parked: wishes.iter().map(|_| None).collect(),
            taken: Arc::default(),
        }
    }

    fn begin(&mut self, who: usize) {
        let list = self.taken.clone();
        let on_taken = move |taken| list.lock().expect("nobody panics").push((who, taken));
        let parked = self.locks.take_or_park(&self.plans[who], on_taken);
        self.parked[who] = Some(parked.expect("all may wait"));
    }

    fn end(&mut self, who: usize) {
        let mut list = self.taken.lock().expect("nobody panics");
        let place = list.iter().position(|(other, _)| *other == who);
        let taken = list.remove(place.expect("it runs"));
        drop(list);
        drop(taken);
    }

    fn cancel(&mut self, who: usize) {
        let parked = self.parked[who].as_ref().expect("it has begun");
        assert!(parked.cancel(), "it waits");
    }

    fn running(&self) -> BTreeSet<usize> {
        let list = self.taken.lock().expect("nobody panics");
        list.iter().map(|(who, _)| *who).collect()
    }
}

/// A wrong one: whoever can run does, whoever waited before.
struct Barging {
    wishes: Vec<Vec<Wish>>,
    waiting: Vec<usize>,
    running: BTreeSet<usize>,
}

impl Barging {
    fn look(&mut self) {
        for &who in &self.waiting.clone() {
            let conflicts = |&other: &usize| conflict(&self.wishes[who], &self.wishes[other]);
            if !self.running.iter().any(conflicts) {
                self.running.insert(who);
                self.waiting.retain(|&other| other != who);
            }
        }
    }
}

impl Engine for Barging {
    fn new(wishes: &[Vec<Wish>]) -> Self {
        Self {
            wishes: wishes.to_vec(),
            waiting: Vec::new(),
            running: BTreeSet::new(),
        }
    }

    fn begin(&mut self, who: usize) {
        self.waiting.push(who);
        self.look();
    }

    fn end(&mut self, who: usize) {
        self.running.remove(&who);
        self.look();
    }

    fn cancel(&mut self, who: usize) {
        self.waiting.retain(|&other| other != who);
    }

    fn running(&self) -> BTreeSet<usize> {
        self.running.clone()
    }
}

fn conflict(one: &[Wish], other: &[Wish]) -> bool {
    let meet = |one: &Wish, other: &Wish| {
        let same_key = one.2.is_none() || other.2.is_none() || one.2 == other.2;
        let one_writes = one.1 == Mode::Write || other.1 == Mode::Write;
        one.0 == other.0 && same_key && one_writes
    };
    one.iter()
        .any(|one| other.iter().any(|other| meet(one, other)))
}

/// Who of those who began and did not end runs, by the rule itself. They come in the order in which they began.
fn expected(wishes: &[Vec<Wish>], present: &[usize]) -> BTreeSet<usize> {
    let has_all = |who: &&usize| {
        wishes[**who]
            .iter()
            .all(|&wish| has(wishes, present, **who, wish))
    };
    present.iter().filter(has_all).copied().collect()
}

fn has(wishes: &[Vec<Wish>], present: &[usize], who: usize, wish: Wish) -> bool {
    let (state, _, key) = wish;
    // The line of the state: keys conflict only with those who want the whole.
    let whole = row(
        wishes,
        present,
        |other: &Wish| other.0 == state,
        |one, other| {
            (one.2.is_none() || other.2.is_none())
                && (one.1 == Mode::Write || other.1 == Mode::Write)
        },
    );
    // The line of the key.
    let of_key = row(
        wishes,
        present,
        |other: &Wish| other.0 == state && other.2 == key,
        |one, other| one.1 == Mode::Write || other.1 == Mode::Write,
    );
    whole.contains(&who) && (key.is_none() || of_key.contains(&who))
}

/// From the front of a line, all who may hold the lock together.
fn row(
    wishes: &[Vec<Wish>],
    present: &[usize],
    is_in_line: impl Fn(&Wish) -> bool,
    conflicts: impl Fn(&Wish, &Wish) -> bool,
) -> Vec<usize> {
    let mut row: Vec<(usize, Wish)> = Vec::new();
    for &who in present {
        let mine: Vec<Wish> = wishes[who]
            .iter()
            .copied()
            .filter(|wish| is_in_line(wish))
            .collect();
        let blocked = row
            .iter()
            .any(|(_, held)| mine.iter().any(|wish| conflicts(held, wish)));
        if blocked {
            break;
        }
        row.extend(mine.into_iter().map(|wish| (who, wish)));
    }
    row.into_iter().map(|(who, _)| who).collect()
}

/// Runs one schedule: at each point, which of the possible events comes. Gives how many were possible at each point.
fn run<E: Engine>(wishes: &[Vec<Wish>], choices: &[usize]) -> Result<Vec<usize>, String> {
    let mut engine = E::new(wishes);
    let (mut begun, mut present) = (vec![false; wishes.len()], Vec::new());
    let (mut possible, mut happened) = (Vec::new(), Vec::new());
    loop {
        let running = engine.running();
        if running != expected(wishes, &present) {
            return Err(format!(
                "{running:?} run after {happened:?} with {wishes:?}"
            ));
        }
        let mut events = Vec::new();
        events.extend(
            (0..wishes.len())
                .filter(|&who| !begun[who])
                .map(|who| ("begins", who)),
        );
        events.extend(present.iter().map(|&who| match running.contains(&who) {
            true => ("ends", who),
            false => ("is cancelled", who),
        }));
        if events.is_empty() {
            return Ok(possible);
        }
        let choice = choices.get(possible.len()).copied().unwrap_or(0);
        possible.push(events.len());
        let (event, who) = events[choice];
        happened.push((event, who));
        if event == "begins" {
            begun[who] = true;
            present.push(who);
            engine.begin(who);
            continue;
        }
        present.retain(|&other| other != who);
        match event {
            "ends" => engine.end(who),
            _ => engine.cancel(who),
        }
    }
}

/// Runs all schedules. Gives how many there are.
fn run_all<E: Engine>(wishes: &[Vec<Wish>]) -> Result<usize, String> {
    let mut choices: Vec<usize> = Vec::new();
    for count in 1.. {
        let possible = run::<E>(wishes, &choices)?;
        choices.resize(possible.len(), 0);
        let last = (0..possible.len())
            .rev()
            .find(|&point| choices[point] + 1 < possible[point]);
        let Some(last) = last else {
            return Ok(count);
        };
        choices.truncate(last + 1);
        choices[last] += 1;
    }
    unreachable!("there are only so many schedules")
}

fn wishes() -> Vec<Vec<Wish>> {
    use Mode::{Read, Write};
    vec![
        vec![(0, Read, None)],
        vec![(0, Write, None)],
        vec![(0, Read, None), (1, Write, None)],
        vec![(0, Write, None), (1, Read, None)],
        vec![(0, Write, None), (1, Write, None)],
        vec![(1, Write, None)],
        vec![(0, Read, Some(1))],
        vec![(0, Write, Some(1))],
        vec![(0, Write, Some(2)), (1, Read, None)],
        vec![(0, Write, Some(1)), (0, Write, Some(2))],
        vec![(0, Read, Some(1)), (0, Write, Some(2))],
    ]
}

#[test]
fn any_three_requests_in_any_order() {
    let wishes = wishes();
    let mut schedules = 0;
    for first in 0..wishes.len() {
        for second in first..wishes.len() {
            for third in second..wishes.len() {
                let set = [first, second, third].map(|place| wishes[place].clone());
                schedules += run_all::<Real>(&set).unwrap_or_else(|wrong| panic!("{wrong}"));
            }
        }
    }
    assert!(schedules > 10_000, "{schedules} schedules are not all");
}

#[test]
fn four_requests_that_cross() {
    use Mode::{Read, Write};
    let set = [
        vec![(0, Write, None), (1, Write, None)],
        vec![(0, Read, None)],
        vec![(1, Write, None)],
        vec![(0, Read, None), (1, Read, Some(1))],
    ];
    let schedules = run_all::<Real>(&set).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(schedules > 1_000, "{schedules} schedules are not all");
}

#[test]
fn barging_in_is_found_out() {
    let wishes = wishes();
    let set = [0, 1, 0].map(|place: usize| wishes[place].clone());
    assert!(run_all::<Barging>(&set).is_err());
}
