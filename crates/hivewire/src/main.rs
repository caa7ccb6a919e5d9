//! The `hivewire` binary: see the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    hivewire::commands::run()
}
