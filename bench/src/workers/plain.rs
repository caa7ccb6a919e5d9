//! Peers with the system's allocator, in a process of their own: Hivewire's binary brings mimalloc,
//! and what shares its process has it too.

use clap::ValueEnum;

use super::probe::figure;
use super::{Result, ractor, refused};

/// The program that is built without an allocator of its own.
const PROGRAM: &str = "hivewire-bench-plain";

/// What can be measured there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Plain {
    /// Actors of ractor spawned per second from the main thread.
    RactorSpawnMain,
    /// Actors of ractor spawned per second from one task per core.
    RactorSpawnTasks,
}

impl Plain {
    /// Measures in this process, once all code has run.
    pub fn measure(self, count: u32) -> Result<f64> {
        let spawn = match self {
            Self::RactorSpawnMain => ractor::spawn_from_main,
            Self::RactorSpawnTasks => ractor::spawn_from_tasks,
        };
        spawn(count)?;
        Ok(f64::from(count) / spawn(count)?.as_secs_f64())
    }
}

/// Starts the program, which is beside this one, and reads the figure that it prints.
pub fn run(what: Plain, count: u32) -> Result<f64> {
    let program = std::env::current_exe().map_err(refused("find this program"))?;
    let name = what.to_possible_value();
    let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
    figure(
        &program.with_file_name(PROGRAM),
        &[&name, &count.to_string()],
    )
}
