//! What authors of native plug-ins use: those of this crate, and of crates whose tables are [added](super::add).

pub use super::appended::AppendedFile;
pub use super::built_in::Plugin;
pub use super::environment::check_file;
pub use super::state;
pub use super::worker::{
    HandlesEach, OUT, REFUSED, REFUSED_OUTPUT, emit, emit_for, refuse, variables,
};
