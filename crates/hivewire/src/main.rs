//! The `hivewire` binary: see the library of the same name.

use std::process::ExitCode;

use mimalloc::MiMalloc;

// Messages are made by one thread and dropped by another, where the allocator of the system makes
// both wait for each other: with this one a worker gets nearly twice as many.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    hivewire::commands::run()
}
