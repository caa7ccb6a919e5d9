//! Measurements that need a process of their own, since what ran before would disturb them.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{Result, WorkerError, idle, refused};

/// What can be measured in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Probe {
    /// Bytes per idle native worker.
    IdleNative,
    /// Bytes per component worker without state that was put aside.
    Passivated,
    /// Bytes per component worker with state that was put aside.
    PassivatedState,
}

impl Probe {
    /// Measures in this process.
    pub fn measure(self, count: u32) -> Result<f64> {
        match self {
            Self::IdleNative => idle::native_bytes(count),
            Self::Passivated => idle::passivated_bytes("echo", count),
            Self::PassivatedState => idle::passivated_bytes("counter", count),
        }
    }

    fn name(self) -> String {
        use clap::ValueEnum;
        let name = self.to_possible_value();
        name.map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Starts this program again, lets it measure, and reads the figure that it prints.
pub fn run(probe: Probe, count: u32) -> Result<f64> {
    let program = std::env::current_exe().map_err(refused("find this program"))?;
    let count = count.to_string();
    figure(&program, &["--probe", &probe.name(), "--count", &count])
}

/// Starts a program that measures, and reads the figure that it prints.
pub(super) fn figure(program: &Path, arguments: &[&str]) -> Result<f64> {
    let output = Command::new(program)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .map_err(refused("start a program that measures"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figure = text.trim().parse();
    figure.map_err(|_| WorkerError::Refused {
        action: format!("measure with {} {}", program.display(), arguments.join(" ")),
        reason: format!("it ended with {}", output.status),
    })
}
