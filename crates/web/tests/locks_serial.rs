//! Requests that run together leave the same as if they had run one after another in some order, and see the same.
//!
//! Each request reads all that it wants and later writes what it may, and notes which version of each thing it read and made. From
//! that follows who came before whom; if that goes around in a circle, or a version is made twice, there is no such order.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};

use proptest::prelude::*;
use web::locks::{LockId, Locks, LocksBuilder, Mode, Parked, Plan, Taken, Want};

const STATES: usize = 3;
const KEYS: usize = 3;

/// What one request does to a state: to all its keys, or to one.
#[derive(Clone, Copy, Debug)]
struct Touch {
    state: usize,
    key: Option<usize>,
    writes: bool,
}

/// One thing that is guarded. There is nothing atomic about its two parts together, nor about reading and writing it.
#[derive(Default)]
struct Cell {
    value: AtomicU64,
    version: AtomicU64,
}

type CellPlace = (usize, usize);

/// What a request saw and did to one cell.
#[derive(Clone, Copy, Debug)]
struct Seen {
    cell: CellPlace,
    value: u64,
    version: u64,
    writes: bool,
}

/// What a request saw and did.
#[derive(Clone, Debug)]
struct Trace {
    who: usize,
    seen: Vec<Seen>,
}

struct World {
    cells: Vec<Vec<Cell>>,
    locks: Arc<Locks>,
    ids: Vec<LockId>,
}

impl World {
    fn new(waiting_max: usize) -> Self {
        let mut builder = LocksBuilder::new();
        let ids = (0..STATES).map(|_| builder.add("state")).collect();
        let cells = || (0..KEYS).map(|_| Cell::default()).collect();
        Self {
            cells: (0..STATES).map(|_| cells()).collect(),
            locks: builder.build(waiting_max),
            ids,
        }
    }

    /// The plan for what is touched. A wrong one takes for reading what is written.
    fn plan(&self, touches: &[Touch], is_wrong: bool) -> Plan {
        let mode = |writes| match writes && !is_wrong {
            true => Mode::Write,
            false => Mode::Read,
        };
        let wants = touches.iter().map(|touch| Want {
            lock: self.ids[touch.state],
            mode: mode(touch.writes),
            key: touch.key.map(|key| key as u64),
        });
        Plan::new(wants).expect("each state is touched once")
    }

    fn read(&self, who: usize, touches: &[Touch]) -> Trace {
        let see = |touch: &Touch, key: usize| {
            let cell = &self.cells[touch.state][key];
            Seen {
                cell: (touch.state, key),
                value: cell.value.load(Relaxed),
                version: cell.version.load(Relaxed),
                writes: touch.writes,
            }
        };
        let keys = |touch: &Touch| match touch.key {
            Some(key) => key..key + 1,
            None => 0..KEYS,
        };
        let seen = touches
            .iter()
            .flat_map(|touch| keys(touch).map(move |key| see(touch, key)));
        Trace {
            who,
            seen: seen.collect(),
        }
    }

    fn write(&self, trace: &Trace) {
        let value = trace.result();
        for seen in trace.seen.iter().filter(|seen| seen.writes) {
            let (state, key) = seen.cell;
            self.cells[state][key].value.store(value, Relaxed);
            self.cells[state][key]
                .version
                .store(seen.version + 1, Relaxed);
        }
    }

    fn values(&self) -> HashMap<CellPlace, u64> {
        let places = (0..STATES).flat_map(|state| (0..KEYS).map(move |key| (state, key)));
        places
            .map(|(state, key)| ((state, key), self.cells[state][key].value.load(Relaxed)))
            .collect()
    }
}

impl Trace {
    /// What it writes: it depends on who it is and on all that it read.
    fn result(&self) -> u64 {
        let mix = |all: u64, value: u64| {
            (all ^ value)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29)
        };
        let values = self.seen.iter().map(|seen| seen.value);
        values.fold(self.who as u64 + 1, mix)
    }
}

/// The requests in an order that explains all that they saw, or what speaks against any.
fn serial_order(traces: &[Trace]) -> Result<Vec<usize>, String> {
    let mut made: HashMap<(CellPlace, u64), usize> = HashMap::new();
    for (place, trace) in traces.iter().enumerate() {
        for seen in trace.seen.iter().filter(|seen| seen.writes) {
            if made.insert((seen.cell, seen.version + 1), place).is_some() {
                return Err(format!(
                    "version {} of {:?} was made twice",
                    seen.version + 1,
                    seen.cell
                ));
            }
        }
    }
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); traces.len()];
    for (place, trace) in traces.iter().enumerate() {
        for seen in &trace.seen {
            before[place].extend(made.get(&(seen.cell, seen.version)));
            let overwritten_by = made.get(&(seen.cell, seen.version + 1));
            if let Some(&next) = overwritten_by.filter(|&&next| next != place) {
                before[next].push(place);
            }
        }
    }
    let (mut order, mut is_placed) = (Vec::new(), vec![false; traces.len()]);
    while order.len() < traces.len() {
        let can_come = |place: &usize| {
            !is_placed[*place] && before[*place].iter().all(|&other| is_placed[other])
        };
        let Some(next) = (0..traces.len()).find(can_come) else {
            return Err("each of some requests has to come before another of them".to_owned());
        };
        is_placed[next] = true;
        order.push(next);
    }
    Ok(order)
}

/// Runs them one after another in the order that was found, and compares what they see and what is left.
fn check(traces: &[Trace], left: &HashMap<CellPlace, u64>) -> Result<(), String> {
    let mut values: HashMap<CellPlace, u64> = left.keys().map(|&cell| (cell, 0)).collect();
    for place in serial_order(traces)? {
        let trace = &traces[place];
        if let Some(seen) = trace
            .seen
            .iter()
            .find(|seen| values[&seen.cell] != seen.value)
        {
            return Err(format!(
                "request {} saw {seen:?} where {} is",
                trace.who, values[&seen.cell]
            ));
        }
        for seen in trace.seen.iter().filter(|seen| seen.writes) {
            values.insert(seen.cell, trace.result());
        }
    }
    match values == *left {
        true => Ok(()),
        false => Err("what is left differs".to_owned()),
    }
}

/// One that runs: it was told, and perhaps has read already.
struct Running {
    who: usize,
    taken: Taken,
    trace: Option<Trace>,
}

/// Runs the requests on one thread, which at each point does what the schedule says: begins one, lets one go on, or cancels one.
fn run_by_schedule(requests: &[Vec<Touch>], schedule: &[u8], is_wrong: bool) -> Result<(), String> {
    let world = World::new(requests.len());
    let told: Arc<Mutex<Vec<Running>>> = Arc::default();
    let mut begun = 0;
    let mut parked: Vec<Parked> = Vec::new();
    let (mut traces, mut cancelled) = (Vec::new(), 0);
    let mut schedule = schedule.iter().copied().chain(std::iter::repeat(3));
    while traces.len() + cancelled < requests.len() {
        let choice = usize::from(schedule.next().unwrap_or_default());
        let running = told.lock().expect("nobody panics").len();
        if begun < requests.len() && (running == 0 || choice % 3 == 0) {
            let (who, list) = (begun, told.clone());
            let on_taken = move |taken| {
                let trace = None;
                list.lock()
                    .expect("nobody panics")
                    .push(Running { who, taken, trace });
            };
            let plan = world.plan(&requests[who], is_wrong);
            parked.push(
                world
                    .locks
                    .take_or_park(&plan, on_taken)
                    .expect("all may wait"),
            );
            begun += 1;
        } else if choice % 16 == 1 && !parked.is_empty() {
            let waiting = &parked[choice % parked.len()];
            cancelled += usize::from(waiting.is_waiting() && waiting.cancel());
        } else if running > 0 {
            let mut one = told.lock().expect("nobody panics").remove(choice % running);
            match one.trace.take() {
                None => {
                    one.trace = Some(world.read(one.who, &requests[one.who]));
                    told.lock().expect("nobody panics").push(one);
                }
                Some(trace) => {
                    world.write(&trace);
                    traces.push(trace);
                    drop(one.taken);
                }
            }
        } else {
            return Err("some wait, and nobody runs".to_owned());
        }
    }
    check(&traces, &world.values())
}

fn touches() -> impl Strategy<Value = Vec<Touch>> {
    let one = |state: usize| {
        let key = proptest::option::of(0..KEYS);
        proptest::option::of((key, any::<bool>()).prop_map(move |(key, writes)| Touch {
            state,
            key,
            writes,
        }))
    };
    let states: Vec<_> = (0..STATES).map(one).collect();
    states.prop_map(|touches| touches.into_iter().flatten().collect())
}

fn runs() -> impl Strategy<Value = (Vec<Vec<Touch>>, Vec<u8>)> {
    let requests = proptest::collection::vec(touches(), 1..12);
    (requests, proptest::collection::vec(any::<u8>(), 0..60))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_schedule_equals_some_serial_order((requests, schedule) in runs()) {
        prop_assert_eq!(run_by_schedule(&requests, &schedule, false), Ok(()));
    }
}

#[test]
fn writing_under_a_lock_to_read_is_found_out() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let is_found = (0..200).any(|_| {
        let (requests, schedule) = runs()
            .new_tree(&mut runner)
            .expect("it can be made")
            .current();
        run_by_schedule(&requests, &schedule, true).is_err()
    });
    assert!(is_found);
}

/// Requests of two kinds of thread: some begin requests, others run those that have their locks.
#[test]
fn threads_equal_some_serial_order() {
    const EACH: usize = 400;
    const BEGINNERS: usize = 2;
    let all: Vec<Vec<Touch>> = {
        use proptest::strategy::ValueTree;
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let mut one = || {
            touches()
                .new_tree(&mut runner)
                .expect("it can be made")
                .current()
        };
        (0..EACH * BEGINNERS).map(|_| one()).collect()
    };
    let world = World::new(all.len());
    let traces = Mutex::new(Vec::new());
    let (to_run, runnable) = mpsc::channel::<(usize, Taken)>();
    let runnable = Mutex::new(runnable);
    std::thread::scope(|scope| {
        for part in all.chunks(EACH).enumerate() {
            let (to_run, world) = (to_run.clone(), &world);
            scope.spawn(move || {
                let (number, requests) = part;
                for (place, touches) in requests.iter().enumerate() {
                    let (who, to_run) = (number * EACH + place, to_run.clone());
                    let on_taken = move |taken| drop(to_run.send((who, taken)));
                    let parked = world
                        .locks
                        .take_or_park(&world.plan(touches, false), on_taken);
                    drop(parked.expect("all may wait"));
                }
            });
        }
        drop(to_run);
        for _ in 0..2 {
            scope.spawn(|| {
                // It ends when no request is left that could still be told.
                while let Ok((who, taken)) = { runnable.lock().expect("nobody panics").recv() } {
                    let trace = world.read(who, &all[who]);
                    std::thread::yield_now();
                    world.write(&trace);
                    traces.lock().expect("nobody panics").push(trace);
                    drop(taken);
                }
            });
        }
    });
    let traces = traces.into_inner().expect("nobody panics");
    assert_eq!(traces.len(), all.len());
    assert_eq!(check(&traces, &world.values()), Ok(()));
    assert_eq!((world.locks.waiting_now(), world.locks.keys_now()), (0, 0));
}
