//! Calls of tools.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::BuildError;

/// No build takes longer, unless something hangs.
const TOOL_SECONDS_MAX: u64 = 1_800;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Runs a tool to its end. What it prints goes to standard error, so that standard output is left
/// for results.
pub(crate) fn run(name: &str, command: &mut Command, folder: &Path) -> Result<(), BuildError> {
    let failed = |outcome: String| BuildError::Tool {
        tool: name.to_owned(),
        outcome,
        folder: folder.to_owned(),
    };
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(std::io::stderr());
    let mut child = command
        .spawn()
        .map_err(|error| failed(format!("it cannot be started: {error}")))?;
    match wait(&mut child) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(failed(status.to_string())),
        Ok(None) => Err(failed(format!(
            "it was stopped after {TOOL_SECONDS_MAX} seconds"
        ))),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// How it ended; none if it took too long and was killed.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > Duration::from_secs(TOOL_SECONDS_MAX) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What a tool prints when it is asked something; none if it is not there or fails.
pub(crate) fn ask(tool: &Path, arguments: &[&str], folder: &Path) -> Option<String> {
    let output = Command::new(tool)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The tool of this name in the search path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Where tools for JavaScript and Python are looked for: in the project, then in the folder that
/// `HIVEWIRE_TOOLS` names.
pub(crate) fn find_beside(project: &Path, here: &str, in_tools: &str) -> Option<PathBuf> {
    let tools = env::var_os("HIVEWIRE_TOOLS").map(|tools| Path::new(&tools).join(in_tools));
    [Some(project.join(here)), tools]
        .into_iter()
        .flatten()
        .find(|path| path.exists())
}
