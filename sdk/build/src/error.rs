use std::io;
use std::path::{Path, PathBuf};

use kernel::descriptor::DescriptorError;

/// Why a project was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The folder holds no project.
    #[error(
        "{} holds no worker project: there is no {} in it; `hivewire new worker NAME` makes one",
        folder.display(),
        crate::PROJECT_FILE
    )]
    NoProject {
        /// The folder.
        folder: PathBuf,
    },
    /// The file that describes the project does not fit.
    #[error("{}: {reason}", path.display())]
    Project {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A new project would write over something.
    #[error("{} is not empty: name another folder, or empty it", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// A tool is not there.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A tool was there and failed; it has said why on standard error.
    #[error("{tool} failed ({outcome}) in {}: see what it says above", folder.display())]
    Tool {
        /// The tool.
        tool: String,
        /// How it ended.
        outcome: String,
        /// Where it ran.
        folder: PathBuf,
    },
    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What the compiler made is no worker.
    #[error("what was built is no Hivewire worker: {reason}")]
    NotAWorker {
        /// What is wrong.
        reason: String,
    },
    /// The descriptor could not be put in.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
}

impl BuildError {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
