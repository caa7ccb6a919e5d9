//! Runs the benchmarks and writes down how they came out.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use hivewire_bench::cases::{self, Case, Effort, Measurement, Side, Systems};
use hivewire_bench::report::{self, Line, Machine};
use hivewire_bench::workers::probe::Probe;
use mimalloc::MiMalloc;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

// The one of Hivewire's binary, for all who are measured in this process.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Compares Hivewire with other brokers on this machine.
///
/// Writes bench/results.json and docs/benchmarks.md, unless it ran quickly, with fewer than five
/// repetitions, or with peers only.
#[derive(Debug, Parser)]
#[command(name = "hivewire-bench", version)]
struct Arguments {
    /// Run only this case (may be repeated); the rows of all others stay as they are.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run few and short repetitions to see that everything works, and write nothing.
    #[arg(long)]
    quick: bool,
    /// How many repetitions count.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: Option<u32>,
    /// Run the peers alone, to judge the drivers, and write nothing.
    #[arg(long)]
    peers_only: bool,
    /// List the cases.
    #[arg(long)]
    list: bool,
    /// Measure one thing in this process and print the figure; cases start it.
    #[arg(long, hide = true)]
    probe: Option<Probe>,
    /// Of how many.
    #[arg(long, hide = true, default_value_t = 1)]
    count: u32,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hivewire-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(probe) = arguments.probe {
        println!("{}", probe.measure(arguments.count)?);
        return Ok(());
    }
    let selected = cases::select(&arguments.only)?;
    if arguments.list {
        for case in selected {
            println!("{:<36}{}", case.name, case.description);
        }
        return Ok(());
    }
    raise_open_files().context("cannot raise the limit of open files")?;
    let mut effort = if arguments.quick {
        Effort::QUICK
    } else {
        Effort::FULL
    };
    effort.repetitions = arguments.repetitions.unwrap_or(effort.repetitions);
    let mut systems = Systems::default();
    if arguments.peers_only {
        return run_peers(&selected, &mut systems, &effort);
    }
    run_all(&selected, &mut systems, &effort)
}

/// Thousands of subscribers need as many sockets, here and in the brokers started from here.
fn raise_open_files() -> rustix::io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised)
}

fn run_peers(selected: &[&Case], systems: &mut Systems, effort: &Effort) -> anyhow::Result<()> {
    for case in selected {
        let median = case
            .run_peer(systems, effort, show(case))
            .with_context(|| format!("case {}", case.name))?;
        if let Some(median) = median {
            println!(
                "{}: {} {} on {} {}",
                case.name,
                report::thousands(median.value),
                case.unit,
                case.peer_name,
                median.note
            );
        }
    }
    Ok(())
}

/// Writes after each case, so that a later failure takes nothing with it.
fn run_all(selected: &[&Case], systems: &mut Systems, effort: &Effort) -> anyhow::Result<()> {
    let is_kept = !effort.quick && effort.repetitions >= Effort::FULL.repetitions;
    let mut lines: Vec<Line> = Vec::new();
    for case in selected {
        let row = case
            .run(systems, effort, show(case))
            .with_context(|| format!("case {}", case.name))?;
        lines.push(report::line(case, Some(&row)));
        if is_kept {
            write(&row)?;
        }
        if !row.note.is_empty() {
            println!("{}: {}", case.name, row.note);
        }
    }
    print!("\n{}", report::table(&lines));
    if !is_kept {
        println!("\nToo few or too short repetitions to be kept: nothing was written.");
    }
    Ok(())
}

fn show(case: &Case) -> impl FnMut(Side, &Measurement) {
    let (name, peer_name, unit) = (case.name, case.peer_name, case.unit);
    move |side, measurement| {
        let who = match side {
            Side::Ours => "Hivewire",
            Side::Peer => peer_name,
        };
        let value = report::thousands(measurement.value);
        eprintln!("{name}: {who} {value} {unit}");
    }
}

fn write(row: &report::Row) -> anyhow::Result<()> {
    let results = report::workspace().join("bench/results.json");
    report::merge_results(&results, std::slice::from_ref(row))?;
    let rows = report::read_rows(&results)?;
    let part = report::document(&cases::all(), &rows, &Machine::inspect());
    let page = report::workspace().join("docs/benchmarks.md");
    let old = std::fs::read_to_string(&page).unwrap_or_default();
    std::fs::create_dir_all(report::workspace().join("docs")).context("cannot make docs")?;
    std::fs::write(&page, report::merge_document(&old, &part))
        .with_context(|| format!("cannot write {}", page.display()))
}
