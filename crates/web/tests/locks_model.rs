//! All schedules of small sets of requests, in a model of the locks that steps as the code does: one atomic change of a word, or
//! one thing done under a mutex, at a time. No schedule ends in a deadlock, lets conflicting requests run together, or lets
//! a request run before one that it conflicts with and that had its places before. Wrong variants of the rules are found out.

use std::collections::HashSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Mode {
    Read,
    Write,
}

/// A lock, and how it is wanted.
type Want = (usize, Mode);

/// How it is done. All true is right.
#[derive(Clone, Copy)]
struct Rules {
    /// Who has no place yet takes nothing for which somebody waits.
    nobody_barges_in: bool,
    /// All take mutexes and places in the same order.
    sorted: bool,
    /// All places are taken under all mutexes, and not one after another.
    places_in_one_step: bool,
    /// Who joins a line looks again after it could be seen that it waits.
    second_look: bool,
}

const RIGHT: Rules = Rules {
    nobody_barges_in: true,
    sorted: true,
    places_in_one_step: true,
    second_look: true,
};

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Lock {
    holders: Vec<(usize, Mode)>,
    queued: bool,
    line: Vec<(usize, Mode)>,
    mutex: Option<usize>,
}

impl Lock {
    fn is_open(&self, mode: Mode) -> bool {
        let both_read = |&(_, held): &(usize, Mode)| held == Mode::Read && mode == Mode::Read;
        self.holders.iter().all(both_read)
    }

    fn hold(&mut self, who: usize, mode: Mode) {
        self.holders.push((who, mode));
        self.holders.sort_unstable();
    }

    /// Says whether somebody waits.
    fn release(&mut self, who: usize) -> bool {
        self.holders.retain(|&(holder, _)| holder != who);
        self.queued
    }
}

/// Where a request is. Numbers count its wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    Trying(usize),
    GivingBack(usize),
    Locking(usize),
    Placing(usize),
    Joining(usize),
    LookingAgain(usize),
    Waiting,
    Running,
    Releasing(usize),
    /// Waits for the mutex of what it released, to hand it over.
    PassingOn(usize, Then),
    HandingOver(usize, Then),
    Done,
}

/// What it does after handing a lock over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Then {
    GiveBack,
    Release,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Request {
    phase: Phase,
    missing: usize,
    /// Who waited when it began, or when it was about to take its places.
    earlier: u32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    locks: Vec<Lock>,
    requests: Vec<Request>,
}

struct Model {
    rules: Rules,
    wants: Vec<Vec<Want>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Deadlock,
    TogetherInConflict,
    Overtaken,
}

impl Model {
    fn new(rules: Rules, mut wants: Vec<Vec<Want>>) -> Self {
        if rules.sorted {
            wants.iter_mut().for_each(|wants| wants.sort_unstable());
        }
        Self { rules, wants }
    }

    /// Looks at all schedules. Gives the number of different worlds.
    fn check(&self) -> Result<usize, Wrong> {
        let locks = self.wants.iter().flatten().map(|want| want.0 + 1).max();
        let request = |wants: &Vec<Want>| Request {
            phase: Phase::New,
            missing: wants.len() + 1,
            earlier: 0,
        };
        let start = World {
            locks: vec![Lock::default(); locks.unwrap_or(0)],
            requests: self.wants.iter().map(request).collect(),
        };
        let mut seen = HashSet::from([start.clone()]);
        let mut open = vec![start];
        while let Some(world) = open.pop() {
            let mut can_step = false;
            for who in 0..world.requests.len() {
                let Some(next) = self.step(&world, who)? else {
                    continue;
                };
                can_step = true;
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
            let is_done = |request: &Request| request.phase == Phase::Done;
            if !can_step && !world.requests.iter().all(is_done) {
                return Err(Wrong::Deadlock);
            }
        }
        Ok(seen.len())
    }

    /// The world after one step of this request, if it can step.
    fn step(&self, world: &World, who: usize) -> Result<Option<World>, Wrong> {
        let mut next = world.clone();
        let wants = &self.wants[who];
        let phase = match world.requests[who].phase {
            Phase::Waiting | Phase::Done => return Ok(None),
            Phase::New => {
                self.note_earlier(&mut next, who);
                Phase::Trying(0)
            }
            Phase::Trying(place) if place == wants.len() => {
                self.run(&mut next, who)?;
                Phase::Running
            }
            Phase::Trying(place) => self.try_one(&mut next, who, place),
            Phase::GivingBack(0) => Phase::Locking(0),
            Phase::GivingBack(place) => {
                release(&mut next, who, wants[place - 1].0, place, Then::GiveBack)
            }
            Phase::Locking(place) if place == wants.len() => {
                self.note_earlier(&mut next, who);
                Phase::Placing(0)
            }
            Phase::Locking(place) => {
                let lock = &mut next.locks[wants[place].0];
                if lock.mutex.is_some() {
                    return Ok(None);
                }
                lock.mutex = Some(who);
                match self.rules.places_in_one_step {
                    true => Phase::Locking(place + 1),
                    false => Phase::Placing(place),
                }
            }
            Phase::Placing(place) if place == wants.len() => {
                for lock in &mut next.locks {
                    lock.mutex.take_if(|owner| *owner == who);
                }
                // Granting may set it running.
                next.requests[who].phase = Phase::Waiting;
                self.grant(&mut next, who)?;
                return Ok(Some(next));
            }
            Phase::Placing(place) => self.place(&mut next, who, place),
            Phase::Joining(place) => self.join(&mut next, who, place),
            Phase::LookingAgain(place) => match self.hand_over_one(&mut next, wants[place].0)? {
                true => Phase::LookingAgain(place),
                false => self.after_place(&mut next, who, place),
            },
            Phase::Running => Phase::Releasing(wants.len()),
            Phase::Releasing(0) => Phase::Done,
            Phase::Releasing(place) => {
                release(&mut next, who, wants[place - 1].0, place, Then::Release)
            }
            Phase::PassingOn(place, then) => {
                let lock = &mut next.locks[wants[place - 1].0];
                if lock.mutex.is_some() {
                    return Ok(None);
                }
                lock.mutex = Some(who);
                Phase::HandingOver(place, then)
            }
            Phase::HandingOver(place, then) => {
                let lock = wants[place - 1].0;
                if self.hand_over_one(&mut next, lock)? {
                    Phase::HandingOver(place, then)
                } else {
                    next.locks[lock].mutex = None;
                    then.go_on(place - 1)
                }
            }
        };
        next.requests[who].phase = phase;
        Ok(Some(next))
    }

    fn try_one(&self, world: &mut World, who: usize, place: usize) -> Phase {
        let (lock, mode) = self.wants[who][place];
        let lock = &mut world.locks[lock];
        let may_try = !lock.queued || !self.rules.nobody_barges_in;
        if may_try && lock.is_open(mode) {
            lock.hold(who, mode);
            return Phase::Trying(place + 1);
        }
        Phase::GivingBack(place)
    }

    fn place(&self, world: &mut World, who: usize, place: usize) -> Phase {
        let (lock, mode) = self.wants[who][place];
        let lock = &mut world.locks[lock];
        if lock.line.is_empty() && lock.is_open(mode) {
            lock.hold(who, mode);
            world.requests[who].missing -= 1;
            return self.after_place(world, who, place);
        }
        Phase::Joining(place)
    }

    /// Joins the line, some time after it saw that the lock is not free.
    fn join(&self, world: &mut World, who: usize, place: usize) -> Phase {
        let (lock, mode) = self.wants[who][place];
        let lock = &mut world.locks[lock];
        lock.line.push((who, mode));
        lock.queued = true;
        match self.rules.second_look {
            true => Phase::LookingAgain(place),
            false => self.after_place(world, who, place),
        }
    }

    fn after_place(&self, world: &mut World, who: usize, place: usize) -> Phase {
        if self.rules.places_in_one_step || place + 1 == self.wants[who].len() {
            return Phase::Placing(place + 1);
        }
        world.locks[self.wants[who][place].0].mutex = None;
        Phase::Locking(place + 1)
    }

    /// One turn of handing over. Says whether there may be more.
    fn hand_over_one(&self, world: &mut World, lock: usize) -> Result<bool, Wrong> {
        let lock = &mut world.locks[lock];
        let Some(&(first, mode)) = lock.line.first() else {
            lock.queued = false;
            return Ok(false);
        };
        if !lock.is_open(mode) {
            return Ok(false);
        }
        lock.line.remove(0);
        lock.hold(first, mode);
        self.grant(world, first)?;
        Ok(true)
    }

    fn grant(&self, world: &mut World, who: usize) -> Result<(), Wrong> {
        let request = &mut world.requests[who];
        request.missing -= 1;
        if request.missing == 0 {
            self.run(world, who)?;
            world.requests[who].phase = Phase::Running;
        }
        Ok(())
    }

    fn note_earlier(&self, world: &mut World, who: usize) {
        let waiting = |other: &usize| world.requests[*other].phase == Phase::Waiting;
        let waiting = (0..self.wants.len()).filter(waiting);
        let waiting = waiting.fold(0, |all, other| all | 1 << other);
        world.requests[who].earlier |= waiting;
    }

    /// A request is about to run.
    fn run(&self, world: &mut World, who: usize) -> Result<(), Wrong> {
        let request = &world.requests[who];
        let others = world.requests.iter().enumerate();
        for (other, _) in others.filter(|(other, _)| *other != who && self.conflict(who, *other)) {
            let phase = world.requests[other].phase;
            if phase == Phase::Running {
                return Err(Wrong::TogetherInConflict);
            }
            if phase == Phase::Waiting && request.earlier & 1 << other != 0 {
                return Err(Wrong::Overtaken);
            }
        }
        Ok(())
    }

    fn conflict(&self, one: usize, other: usize) -> bool {
        let others = &self.wants[other];
        let conflicts = |&(lock, mode): &Want| {
            let same = |&&(other, _): &&Want| other == lock;
            others
                .iter()
                .filter(same)
                .any(|&(_, other)| mode == Mode::Write || other == Mode::Write)
        };
        self.wants[one].iter().any(conflicts)
    }
}

impl Then {
    fn go_on(self, place: usize) -> Phase {
        match self {
            Then::GiveBack => Phase::GivingBack(place),
            Then::Release => Phase::Releasing(place),
        }
    }
}

fn release(world: &mut World, who: usize, lock: usize, place: usize, then: Then) -> Phase {
    match world.locks[lock].release(who) {
        true => Phase::PassingOn(place, then),
        false => then.go_on(place - 1),
    }
}

use Mode::{Read, Write};

/// All that a request may want of two locks.
fn all_plans_of_two() -> Vec<Vec<Want>> {
    let choices = [None, Some(Read), Some(Write)];
    let plan = |first: Option<Mode>, second: Option<Mode>| -> Vec<Want> {
        let first = first.map(|mode| (0, mode));
        first
            .into_iter()
            .chain(second.map(|mode| (1, mode)))
            .collect()
    };
    let plans = choices
        .iter()
        .flat_map(|&first| choices.iter().map(move |&second| plan(first, second)));
    plans.filter(|plan| !plan.is_empty()).collect()
}

#[test]
fn any_three_requests_over_two_locks() {
    let plans = all_plans_of_two();
    let mut worlds = 0;
    for first in 0..plans.len() {
        for second in first..plans.len() {
            for third in second..plans.len() {
                let set = [first, second, third].map(|plan| plans[plan].clone());
                let checked = Model::new(RIGHT, set.to_vec()).check();
                worlds += checked.unwrap_or_else(|wrong| panic!("{wrong:?} with {set:?}"));
            }
        }
    }
    assert!(worlds > 100_000, "{worlds} worlds are not all");
}

/// Each wants two of three locks, named in an order that goes around.
fn around() -> Vec<Vec<Want>> {
    vec![
        vec![(0, Write), (1, Write)],
        vec![(1, Write), (2, Write)],
        vec![(2, Write), (0, Write)],
    ]
}

#[test]
fn requests_that_go_around() {
    assert!(Model::new(RIGHT, around()).check().is_ok());
}

#[test]
fn a_writer_among_readers_in_both_orders() {
    let set = vec![
        vec![(0, Read)],
        vec![(1, Write), (0, Write)],
        vec![(0, Read), (1, Read)],
        vec![(0, Read)],
    ];
    assert!(Model::new(RIGHT, set).check().is_ok());
}

/// What is found wrong with these rules, in requests that are fine with the right ones.
fn found(rules: Rules, wants: Vec<Vec<Want>>) -> Option<Wrong> {
    assert!(Model::new(RIGHT, wants.clone()).check().is_ok());
    Model::new(rules, wants).check().err()
}

#[test]
fn barging_in_is_found_out() {
    let rules = Rules {
        nobody_barges_in: false,
        ..RIGHT
    };
    let set = vec![vec![(0, Read)], vec![(0, Write)], vec![(0, Read)]];
    assert_eq!(found(rules, set), Some(Wrong::Overtaken));
}

#[test]
fn mutexes_in_any_order_are_found_out() {
    let rules = Rules {
        sorted: false,
        ..RIGHT
    };
    assert_eq!(found(rules, around()), Some(Wrong::Deadlock));
}

#[test]
fn places_taken_one_after_another_in_any_order_are_found_out() {
    let rules = Rules {
        sorted: false,
        places_in_one_step: false,
        ..RIGHT
    };
    let set = vec![vec![(0, Write), (1, Write)], vec![(1, Write), (0, Write)]];
    // A third holds both for a while, so that the two have to park.
    let set = [set, vec![vec![(0, Write), (1, Write)]]].concat();
    assert_eq!(found(rules, set), Some(Wrong::Deadlock));
}

#[test]
fn a_missing_second_look_is_found_out() {
    let rules = Rules {
        second_look: false,
        ..RIGHT
    };
    let set = vec![vec![(0, Write)], vec![(0, Write)]];
    assert_eq!(found(rules, set), Some(Wrong::Deadlock));
}
