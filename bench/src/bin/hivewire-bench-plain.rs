//! Measures another library with the system's allocator, which its users have unless they choose
//! another one. `hivewire-bench` starts it.

use std::process::ExitCode;

use clap::Parser;
use hivewire_bench::workers::plain::Plain;

/// Measures one thing and prints the figure.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// What to measure.
    what: Plain,
    /// Of how many.
    count: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.what.measure(arguments.count) {
        Ok(figure) => {
            println!("{figure}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hivewire-bench-plain: {error}");
            ExitCode::FAILURE
        }
    }
}
