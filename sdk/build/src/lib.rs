//! Builds worker projects into components.
//!
//! The main function is [`build`]: it reads `worker.toml` in the folder of a project, calls the
//! tools of its language, and writes one component that carries its descriptor.
//!
//! ```no_run
//! # fn main() -> Result<(), build::BuildError> {
//! let built = build::build("workers/counter".as_ref(), None)?;
//! println!("{} has {} bytes", built.path.display(), built.bytes);
//! # Ok(()) }
//! ```
//!
//! The tools are those of the user: cargo with the target `wasm32-unknown-unknown` (see [`rust`]
//! for what is done where that is missing), componentize-js, componentize-py. What is not there is
//! an error that says what to install.
//!
//! What it deliberately does not do: it installs nothing, and it does not run components.

mod component;
mod entry;
mod error;
mod javascript;
mod project;
mod python;
pub mod rust;
mod template;
mod test_workers;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};

pub use entry::WIT;
pub use error::BuildError;
pub use kernel::descriptor::{self, Descriptor};
pub use project::{Language, PROJECT_FILE, Project};
pub use template::create;
pub use test_workers::{test_example, test_probe, test_worker};

/// A component that was built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Where it lies.
    pub path: PathBuf,
    /// Its length.
    pub bytes: u64,
    /// What it says about itself.
    pub descriptor: Descriptor,
}

/// Builds the project in a folder. The component goes to `out`, or else to `build/NAME.wasm` in the
/// folder.
pub fn build(folder: &Path, out: Option<&Path>) -> Result<Built, BuildError> {
    let project = Project::open(folder)?;
    let component = match project.language {
        Language::Rust => component::of_module(&rust::build_module(&project)?)?,
        Language::Js => javascript::build(&project)?,
        Language::Python => python::build(&project)?,
    };
    let path = match out {
        Some(out) => out.to_owned(),
        None => project
            .build_folder()?
            .join(format!("{}.wasm", project.descriptor.name)),
    };
    finish(component, project.descriptor, path)
}

/// Puts the descriptor into the component and the component into its place, all at once, so that
/// whoever watches the file sees the old one or the new one.
fn finish(component: Vec<u8>, descriptor: Descriptor, path: PathBuf) -> Result<Built, BuildError> {
    let component = kernel::descriptor::embed(&component, &descriptor)?;
    let unfinished = path.with_extension("wasm.unfinished");
    let write = || {
        fs::write(&unfinished, &component)?;
        fs::rename(&unfinished, &path)
    };
    write().map_err(|source| BuildError::file("write", &path, source))?;
    Ok(Built {
        path,
        bytes: component.len() as u64,
        descriptor,
    })
}
