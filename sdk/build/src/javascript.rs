//! JavaScript workers, through componentize-js. Node runs it; the engine that runs the worker
//! becomes a part of the component.

use std::process::Command;

use crate::entry::Entry;
use crate::project::Project;
use crate::{BuildError, tool};

const ENTRY: &str = include_str!("../../js/entry.js");
const SCRIPT: &str = include_str!("../../js/componentize.mjs");
const TOOL: &str = "node_modules/@bytecodealliance/componentize-js/src/componentize.js";
/// What to install, in the versions that this was tried with. The tool imports the second and does
/// not say so.
pub(crate) const PACKAGES: [(&str, &str); 2] = [
    ("@bytecodealliance/componentize-js", "0.23.0"),
    ("@bytecodealliance/preview2-shim", "0.17.9"),
];

/// The component of a project; its code is in `src/worker.js`.
pub(crate) fn build(project: &Project) -> Result<Vec<u8>, BuildError> {
    project.require("src/worker.js")?;
    let componentize = tool::find_beside(&project.folder, TOOL, &format!("node/{TOOL}"))
        .ok_or_else(|| BuildError::Missing {
            what: "componentize-js".to_owned(),
            remedy: format!(
                "run `npm install --save-dev {}` in {}",
                PACKAGES
                    .map(|(name, version)| format!("{name}@{version}"))
                    .join(" "),
                project.folder.display()
            ),
        })?;
    let node = tool::find("node").ok_or_else(|| BuildError::Missing {
        what: "Node.js".to_owned(),
        remedy: "install version 20 or later, with npm".to_owned(),
    })?;
    let entry = Entry::write(
        project,
        &[("entry.js", ENTRY), ("componentize.mjs", SCRIPT)],
    )?;
    let mut command = Command::new(node);
    command
        .arg(entry.file("componentize.mjs"))
        .arg(componentize)
        .args([entry.file("entry.js"), entry.wit(), entry.component()]);
    tool::run("componentize-js", &mut command, &project.folder)?;
    entry.read_component()
}
