//! Programs that print what they measured and end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{PeerError, Result};

const POLL: Duration = Duration::from_millis(20);

/// Runs a program to its end and gives what it printed, which has to fit into a pipe.
pub(crate) fn output_of(name: &str, mut command: Command, patience: Duration) -> Result<String> {
    let failed = |action: &str, error| PeerError::system(format!("{action} {name}"), error);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => super::not_installed(name),
            _ => failed("start", error),
        })?;
    let deadline = Instant::now() + patience;
    // What it prints fits into the pipe, so it never waits for us.
    while child
        .try_wait()
        .map_err(|error| failed("wait for", error))?
        .is_none()
    {
        if Instant::now() > deadline {
            child.kill().map_err(|error| failed("end", error))?;
            child.wait().map_err(|error| failed("end", error))?;
            return Err(PeerError::NotReady {
                peer: name.to_owned(),
                timeout_seconds: patience.as_secs(),
                output: String::new(),
            });
        }
        std::thread::sleep(POLL);
    }
    let output = child
        .wait_with_output()
        .map_err(|error| failed("read from", error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(PeerError::Exited {
            peer: name.to_owned(),
            status: output.status.to_string(),
            output: text,
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_is_printed_comes_back_and_failures_are_told() {
        let patience = Duration::from_secs(10);
        let printed = output_of("it", shell("echo 42"), patience).expect("it prints");
        assert_eq!(printed, "42\n");
        let failed = output_of("it", shell("echo why; exit 3"), patience).unwrap_err();
        assert!(failed.to_string().contains("why"), "{failed}");
        let late = output_of("it", shell("sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(late, PeerError::NotReady { .. }), "{late}");
        let missing = output_of("it", Command::new("no-such-program"), patience).unwrap_err();
        assert!(
            matches!(missing, PeerError::NotInstalled { .. }),
            "{missing}"
        );
    }
}
