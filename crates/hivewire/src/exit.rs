//! How the process ends: the one place where exit codes are decided.

use std::io;
use std::process::ExitCode;

use crate::config::ConfigError;

/// What the process tells its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// Something failed; the reason stands on standard error.
    Failed,
    /// The command line or the configuration is wrong. (`clap` uses the same code.)
    Usage,
    /// The time given was over before all that was wanted had come.
    TimedOut,
    /// A second signal asked to leave at once.
    Interrupted,
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::TimedOut => 3,
            Self::Interrupted => 130,
        }
    }

    /// How a command that failed ends.
    pub fn of_error(error: &anyhow::Error) -> Self {
        if is_broken_pipe(error) {
            // Whoever read our output has seen enough, as in `hivewire sub orders | head -1`.
            Self::Done
        } else if error.is::<ConfigError>() || error.is::<clap::Error>() {
            Self::Usage
        } else {
            Self::Failed
        }
    }
}

/// Whether an error only says that nobody reads our output any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
