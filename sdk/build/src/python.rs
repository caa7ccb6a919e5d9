//! Python workers, through componentize-py. The interpreter becomes a part of the component.

use std::process::Command;

use crate::entry::Entry;
use crate::project::Project;
use crate::{BuildError, tool};

const ENTRY: &str = include_str!("../../python/hivewire_entry.py");
const SDK: &str = include_str!("../../python/hivewire.py");
/// The version that this was tried with.
pub(crate) const TOOL_VERSION: &str = "0.25.1";

/// The component of a project; its code is in `src/worker.py`.
pub(crate) fn build(project: &Project) -> Result<Vec<u8>, BuildError> {
    project.require("src/worker.py")?;
    let name = "bin/componentize-py";
    let componentize = tool::find_beside(
        &project.folder,
        &format!(".venv/{name}"),
        &format!("venv/{name}"),
    )
    .ok_or_else(|| BuildError::Missing {
        what: "componentize-py".to_owned(),
        remedy: format!(
            "run `python3 -m venv .venv && .venv/bin/pip install componentize-py=={TOOL_VERSION}` in {}",
            project.folder.display()
        ),
    })?;
    let entry = Entry::write(
        project,
        &[("hivewire_entry.py", ENTRY), ("hivewire.py", SDK)],
    )?;
    let mut command = Command::new(componentize);
    command
        .arg("--wit-path")
        .arg(entry.wit())
        .args(["--quiet", "--world", "worker", "componentize"])
        // Without the interfaces of WASI the component needs nothing but the world of a worker.
        .args(["--stub-wasi", "hivewire_entry", "--python-path"])
        .arg(entry.folder())
        .args(["--python-path", "src", "--output"])
        .arg(entry.component());
    tool::run("componentize-py", &mut command, &project.folder)?;
    entry.read_component()
}
