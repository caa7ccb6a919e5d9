//! Services beside the same ones with axum, actix-web and Node.

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::peers::services::Program;
use crate::report;
use crate::services::locks;
use crate::services::outcome::Outcome;
use crate::services::plots::{Diagram, Line, Scale, draw};
use crate::services::runs::{Runs, asked};
use crate::services::workloads::{LIGHT, Stateful, Workload};

const ANSWERS: &str = "answers/s";
const MILLISECONDS: &str = "ms";

/// Seconds of a run in an open loop.
const OPEN: u32 = 15;
const OPEN_SIZE: Size = size(OPEN, 2);
/// Seconds of a run in a closed loop.
const CLOSED: u32 = 4;
const CLOSED_SIZE: Size = size(CLOSED, 1);
/// Seconds of each of the runs that make one figure together.
const SWEPT: u32 = 3;
const SWEPT_SIZE: Size = size(SWEPT, 1);

const fn size(seconds: u32, quick_seconds: u32) -> Size {
    Size::Fixed {
        messages: seconds,
        quick_messages: quick_seconds,
    }
}

/// Heavy requests of a hundred.
const HEAVY_SHARES: [usize; 3] = [5, 10, 15];
/// Exclusive requests of a hundred.
const EXCLUSIVE_SHARES: [usize; 6] = [1, 5, 10, 25, 50, 75];
/// Requests in a second, up to more than two loops can do.
const RATES: [u32; 5] = [250, 500, 1_000, 1_500, 2_000];
/// The place among them of one that two loops can do.
const UNSATURATED: usize = 2;

const SF1: &[Workload] = &stateful(Stateful::Sf1);
const SF2: &[Workload] = &stateful(Stateful::Sf2);
const THEN: &[Workload] = &stateful(Stateful::Then);
const STATELESS: &[Workload] = &[Workload::Stateless];
const AT_RATES: &[Workload] = &{
    let mut workloads = [Workload::StatelessAt(0); RATES.len()];
    let mut at = 0;
    while at < workloads.len() {
        workloads[at] = Workload::StatelessAt(RATES[at]);
        at += 1;
    }
    workloads
};
const PLAIN: &[Workload] = &[Workload::Plain];

const fn stateful(how: Stateful) -> [Workload; EXCLUSIVE_SHARES.len()] {
    let mut workloads = [Workload::Stateful(how, 0); EXCLUSIVE_SHARES.len()];
    let mut at = 0;
    while at < workloads.len() {
        workloads[at] = Workload::Stateful(how, EXCLUSIVE_SHARES[at]);
        at += 1;
    }
    workloads
}

/// Who is asked what.
type Asked = (Program, &'static [Workload]);

/// One figure of one run, and how those of several runs become one.
#[derive(Clone, Copy)]
struct Figure {
    unit: &'static str,
    of: fn(&Outcome) -> f64,
    all: fn(&[f64]) -> f64,
}

const GOODPUT: Figure = Figure {
    unit: ANSWERS,
    of: Outcome::goodput,
    all: mean,
};
const LEAST_GOODPUT: Figure = Figure {
    unit: ANSWERS,
    of: Outcome::goodput,
    all: least,
};
const LIGHT_P99: Figure = Figure {
    unit: MILLISECONDS,
    of: light_p99_ms,
    all: mean,
};
const UNSATURATED_P99: Figure = Figure {
    unit: MILLISECONDS,
    of: light_p99_ms,
    all: |figures| figures[UNSATURATED],
};

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len() as f64
}

fn least(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::MAX, f64::min)
}

fn light_p99_ms(outcome: &Outcome) -> f64 {
    outcome.kinds[LIGHT].percentile_ms(99.0)
}

/// A case whose measurement needs nothing but what stands in its row.
macro_rules! compared {
    ($name:literal, $ours:expr, $peer:expr, $figure:ident, $target:expr, $size:ident, $description:literal) => {
        Case {
            name: $name,
            description: $description,
            peer_name: $peer.0.name(),
            peer: PeerFigure::Measured,
            unit: $figure.unit,
            target: $target,
            size: $size,
            measure: |systems, side, seconds| {
                let (ours, peer): (Asked, Asked) = ($ours, $peer);
                let asked = match side {
                    Side::Ours => ours,
                    Side::Peer => peer,
                };
                compare(&mut systems.services, $name, asked, $figure, seconds)
            },
        }
    };
}

pub(super) const CASES: &[Case] = &[
    compared!(
        "service-fibonacci-5",
        (Program::Hivewire, &[Workload::Fibonacci(5)]),
        (Program::Axum, &[Workload::Fibonacci(5)]),
        GOODPUT,
        Target::AtLeast(1.0),
        OPEN_SIZE,
        "A hundred requests a second in an open loop: 5 of a hundred are heavy and use 100 ms of a processor, the others ask \
         for Fibonacci number 20. How many are answered rightly within 5 s."
    ),
    compared!(
        "service-fibonacci-10",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::Axum, &[Workload::Fibonacci(10)]),
        GOODPUT,
        Target::AtLeast(1.0),
        OPEN_SIZE,
        "As before, 10 of a hundred heavy."
    ),
    compared!(
        "service-fibonacci-15",
        (Program::Hivewire, &[Workload::Fibonacci(15)]),
        (Program::Axum, &[Workload::Fibonacci(15)]),
        GOODPUT,
        Target::AtLeast(1.0),
        OPEN_SIZE,
        "As before, 15 of a hundred heavy."
    ),
    compared!(
        "service-fibonacci-10-actix",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::Actix, &[Workload::Fibonacci(10)]),
        GOODPUT,
        Target::None,
        OPEN_SIZE,
        "10 of a hundred heavy, beside actix-web."
    ),
    compared!(
        "service-fibonacci-10-node",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::Node, &[Workload::Fibonacci(10)]),
        GOODPUT,
        Target::None,
        OPEN_SIZE,
        "10 of a hundred heavy, beside one process of Node."
    ),
    compared!(
        "service-fibonacci-10-node-cluster",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::NodeCluster, &[Workload::Fibonacci(10)]),
        GOODPUT,
        Target::None,
        OPEN_SIZE,
        "10 of a hundred heavy, beside two processes of Node."
    ),
    compared!(
        "service-fibonacci-light-5",
        (Program::Hivewire, &[Workload::Fibonacci(5)]),
        (Program::Axum, &[Workload::Fibonacci(5)]),
        LIGHT_P99,
        Target::AtMost(1.0),
        OPEN_SIZE,
        "The same runs: what 99 of 100 light requests did not exceed, from the moment when they were due. One that is not \
         answered rightly within 5 s counts as 5 s."
    ),
    compared!(
        "service-fibonacci-light-10",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::Axum, &[Workload::Fibonacci(10)]),
        LIGHT_P99,
        Target::AtMost(1.0),
        OPEN_SIZE,
        "As before, 10 of a hundred heavy."
    ),
    compared!(
        "service-fibonacci-light-15",
        (Program::Hivewire, &[Workload::Fibonacci(15)]),
        (Program::Axum, &[Workload::Fibonacci(15)]),
        LIGHT_P99,
        Target::AtMost(1.0),
        OPEN_SIZE,
        "As before, 15 of a hundred heavy."
    ),
    compared!(
        "service-fibonacci-light-10-actix",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::Actix, &[Workload::Fibonacci(10)]),
        LIGHT_P99,
        Target::None,
        OPEN_SIZE,
        "10 of a hundred heavy, beside actix-web."
    ),
    compared!(
        "service-fibonacci-light-10-node",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::Node, &[Workload::Fibonacci(10)]),
        LIGHT_P99,
        Target::AtMost(0.05),
        OPEN_SIZE,
        "10 of a hundred heavy, beside one process of Node."
    ),
    compared!(
        "service-fibonacci-light-10-node-cluster",
        (Program::Hivewire, &[Workload::Fibonacci(10)]),
        (Program::NodeCluster, &[Workload::Fibonacci(10)]),
        LIGHT_P99,
        Target::None,
        OPEN_SIZE,
        "10 of a hundred heavy, beside two processes of Node."
    ),
    compared!(
        "service-scimark",
        (Program::Hivewire, STATELESS),
        (Program::Axum, STATELESS),
        GOODPUT,
        Target::AtLeast(1.0),
        CLOSED_SIZE,
        "The kernels of SciMark 2.0 without state, each request one of them for about a millisecond, in a closed loop of 32 \
         connections."
    ),
    compared!(
        "service-scimark-actix",
        (Program::Hivewire, STATELESS),
        (Program::Actix, STATELESS),
        GOODPUT,
        Target::None,
        CLOSED_SIZE,
        "As before, beside actix-web."
    ),
    compared!(
        "service-scimark-node",
        (Program::Hivewire, STATELESS),
        (Program::NodeCluster, STATELESS),
        GOODPUT,
        Target::None,
        CLOSED_SIZE,
        "As before, beside two processes of Node, whose JavaScript needs longer for the same kernels."
    ),
    compared!(
        "service-scimark-loops",
        (Program::Hivewire, STATELESS),
        (Program::HivewireOneLoop, STATELESS),
        GOODPUT,
        Target::AtLeast(1.7),
        CLOSED_SIZE,
        "As before, with two event loops beside one. The client shares the two cores."
    ),
    compared!(
        "service-scimark-latency",
        (Program::Hivewire, AT_RATES),
        (Program::Axum, AT_RATES),
        UNSATURATED_P99,
        Target::None,
        SWEPT_SIZE,
        "The same in an open loop, at rates up to more than two loops can do: what 99 of 100 did not exceed at 1,000 a second."
    ),
    compared!(
        "service-sf1",
        (Program::Hivewire, SF1),
        (Program::Axum, SF1),
        GOODPUT,
        Target::AtLeast(1.2),
        SWEPT_SIZE,
        "SciMarkSf1: exclusive requests, which hold the shared state while they compute and store, among those that hold it \
         shared. The mean of runs with 1, 5, 10, 25, 50 and 75 exclusive requests of a hundred, each in a closed loop of 32 connections."
    ),
    compared!(
        "service-sf1-least",
        (Program::Hivewire, SF1),
        (Program::HivewireOneLoop, STATELESS),
        LEAST_GOODPUT,
        Target::AtLeast(1.0),
        SWEPT_SIZE,
        "As before: the least of the six, beside one event loop without state."
    ),
    compared!(
        "service-sf2",
        (Program::Hivewire, SF2),
        (Program::Axum, SF2),
        GOODPUT,
        Target::AtLeast(1.2),
        SWEPT_SIZE,
        "SciMarkSf2: the same exclusive requests among stateless ones."
    ),
    compared!(
        "service-sf2-least",
        (Program::Hivewire, SF2),
        (Program::HivewireOneLoop, STATELESS),
        LEAST_GOODPUT,
        Target::AtLeast(1.0),
        SWEPT_SIZE,
        "As before: the least of the six, beside one event loop without state."
    ),
    compared!(
        "service-then",
        (Program::Hivewire, THEN),
        (Program::Axum, THEN),
        GOODPUT,
        Target::None,
        SWEPT_SIZE,
        "As SciMarkSf1, but exclusive requests compute first and hold the state only to store: ours with `Then`, axum's by hand."
    ),
    compared!(
        "service-plain",
        (Program::Hivewire, PLAIN),
        (Program::Axum, PLAIN),
        GOODPUT,
        Target::AtLeast(0.9),
        CLOSED_SIZE,
        "Plain text in a closed loop of 64 connections."
    ),
    compared!(
        "service-plain-actix",
        (Program::Hivewire, PLAIN),
        (Program::Actix, PLAIN),
        GOODPUT,
        Target::None,
        CLOSED_SIZE,
        "As before, beside actix-web."
    ),
    compared!(
        "service-plain-node",
        (Program::Hivewire, PLAIN),
        (Program::Node, PLAIN),
        GOODPUT,
        Target::None,
        CLOSED_SIZE,
        "As before, beside one process of Node."
    ),
    Case {
        name: "service-locks",
        description: "Two free locks taken for writing at once and released, in the process that measures.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(50.0),
        unit: "ns",
        target: Target::AtMost(1.0),
        size: Size::Fixed {
            messages: 20_000_000,
            quick_messages: 1_000_000,
        },
        measure: |_: &mut Systems, _: Side, times| {
            Ok(Measurement {
                value: locks::take_two(times),
                note: String::new(),
            })
        },
    },
];

fn compare(
    runs: &mut Runs,
    case: &'static str,
    (program, workloads): Asked,
    figure: Figure,
    seconds: u32,
) -> Result<Measurement> {
    let (mut figures, mut notes) = (Vec::new(), Vec::new());
    for workload in workloads {
        let outcome = runs.next(case, program, *workload, seconds)?;
        figures.push((figure.of)(outcome));
        notes.push(note(*workload, outcome));
    }
    notes.retain(|note| !note.is_empty());
    draw_all(runs, seconds)?;
    Ok(Measurement {
        value: (figure.all)(&figures),
        note: notes.join("; "),
    })
}

/// What was asked, if there are several of its kind, what it came to, and what failed.
fn note(workload: Workload, outcome: &Outcome) -> String {
    let failures = outcome.failures();
    match workload {
        Workload::Stateful(_, percent) => {
            let goodput = outcome.goodput();
            let failures = if failures.is_empty() {
                failures
            } else {
                format!(" ({failures})")
            };
            format!("{percent} %: {goodput:.0}{failures}")
        }
        Workload::StatelessAt(rate) => {
            let p99 = light_p99_ms(outcome);
            format!(
                "{rate}/s: {:.0} answers/s, p99 {p99:.1} ms",
                outcome.goodput()
            )
        }
        _ => failures,
    }
}

/// Draws each picture of whose figures at least one of each kind is there.
fn draw_all(runs: &Runs, seconds: u32) -> std::io::Result<()> {
    if seconds == OPEN {
        let workloads = HEAVY_SHARES.map(Workload::Fibonacci);
        let diagrams = [
            diagram(
                runs,
                &workloads,
                seconds,
                GOODPUT,
                "answers in time",
                Scale::Even,
            ),
            diagram(
                runs,
                &workloads,
                seconds,
                LIGHT_P99,
                "p99 of light requests from the moment when they were due",
                Scale::Decades(-1, 4),
            ),
        ];
        let places = HEAVY_SHARES.map(|share| format!("{share} % heavy"));
        write("services-fibonacci", &places, diagrams)?;
    }
    if seconds == SWEPT {
        let places = EXCLUSIVE_SHARES.map(|share| format!("{share} % exclusive"));
        let sf = |workloads, title| diagram(runs, workloads, seconds, GOODPUT, title, Scale::Even);
        let diagrams = [
            sf(SF1, "SciMarkSf1: exclusive and shared"),
            sf(SF2, "SciMarkSf2: exclusive and stateless"),
            sf(THEN, "SciMarkSf1, computing before the state is held"),
        ];
        write("services-scimark-state", &places, diagrams)?;
        let diagrams = [
            diagram(
                runs,
                AT_RATES,
                seconds,
                GOODPUT,
                "answers in time",
                Scale::Even,
            ),
            diagram(
                runs,
                AT_RATES,
                seconds,
                LIGHT_P99,
                "p99 from the moment when they were due",
                Scale::Decades(-1, 4),
            ),
        ];
        write(
            "services-scimark-rates",
            &RATES.map(|rate| format!("{rate}/s")),
            diagrams,
        )?;
    }
    Ok(())
}

fn write<const N: usize>(
    name: &str,
    places: &[String],
    diagrams: [Option<Diagram>; N],
) -> std::io::Result<()> {
    let all: Option<Vec<Diagram>> = diagrams.into_iter().collect();
    match all {
        Some(all) => report::write_plot(name, &draw(places, &all)),
        None => Ok(()),
    }
}

/// The medians of all who are asked, if each was asked everything at least once.
fn diagram(
    runs: &Runs,
    workloads: &[Workload],
    seconds: u32,
    figure: Figure,
    title: &str,
    scale: Scale,
) -> Option<Diagram> {
    let programs = asked(*workloads.first()?).iter().copied();
    let lines: Option<Vec<Line>> = programs
        .map(|program| {
            let figures = workloads.iter();
            let figures: Option<Vec<f64>> = figures
                .map(|workload| runs.median(program, *workload, seconds, figure.of))
                .collect();
            Some(Line {
                program,
                figures: figures?,
            })
        })
        .collect();
    Some(Diagram {
        title: title.to_owned(),
        unit: figure.unit,
        scale,
        lines: lines?,
    })
}
