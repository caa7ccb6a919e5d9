//! A child process that cannot outlive its owner.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{PeerError, Result};

/// How much of a peer's output is shown in an error.
const OUTPUT_BYTES_MAX: u64 = 4096;

/// Ends the process and removes its directory once the pipe on its standard input closes, as
/// happens when the owner dies without running destructors.
const WATCHDOG_SCRIPT: &str = r#"trap '' INT TERM HUP
read -r _
kill -9 "$1" 2>/dev/null
[ -z "$2" ] || rm -rf -- "$2""#;

/// A running peer. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Process {
    peer: String,
    child: Child,
    watchdog: Child,
    output: PathBuf,
}

impl Process {
    /// Starts `command` with its output in `output`. If this process dies without dropping the
    /// value, the child is killed and `remove_when_orphaned` is removed.
    pub(super) fn spawn(
        peer: &str,
        mut command: Command,
        output: &Path,
        remove_when_orphaned: Option<&Path>,
    ) -> Result<Self> {
        let log = File::create(output).map_err(|error| failed(peer, "log output of", error))?;
        let log_too = log
            .try_clone()
            .map_err(|error| failed(peer, "log output of", error))?;
        // A group of its own keeps Ctrl-C in a terminal from reaching the peer before us.
        let mut child = command
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(log_too)
            .process_group(0)
            .spawn()
            .map_err(|error| failed(peer, "start", error))?;
        let watchdog = match spawn_watchdog(child.id(), remove_when_orphaned) {
            Ok(watchdog) => watchdog,
            Err(error) => {
                end(&mut child);
                return Err(failed(peer, "watch", error));
            }
        };
        Ok(Self {
            peer: peer.to_owned(),
            child,
            watchdog,
            output: output.to_owned(),
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Fails if the process has ended.
    pub(super) fn expect_running(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(PeerError::Exited {
                peer: self.peer.clone(),
                status: status.to_string(),
                output: self.last_output(),
            }),
            Err(error) => Err(failed(&self.peer, "look after", error)),
        }
    }

    pub(super) fn not_ready(&self, timeout: Duration) -> PeerError {
        PeerError::NotReady {
            peer: self.peer.clone(),
            timeout_seconds: timeout.as_secs(),
            output: self.last_output(),
        }
    }

    /// Asks the process to end (SIGTERM) and waits; kills it when it takes too long.
    pub(super) fn terminate(self, timeout: Duration) -> Result<()> {
        self.end_by(Signal::TERM, timeout)
    }

    /// Asks the process to end by this signal and waits; kills it when it takes too long.
    pub(super) fn end_by(mut self, signal: Signal, timeout: Duration) -> Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).map_err(|error| failed(&self.peer, "signal", error.into()))?;
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Ok(Some(_)) => return Ok(()),
                Err(error) => return Err(failed(&self.peer, "wait for", error)),
            }
        }
        Err(self.not_ready(timeout))
    }

    fn last_output(&self) -> String {
        read_end(&self.output).unwrap_or_else(|error| format!("(unreadable: {error})"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The watchdog goes last: until the child is gone it must be able to act.
        end(&mut self.child);
        end(&mut self.watchdog);
    }
}

fn spawn_watchdog(child: u32, directory: Option<&Path>) -> std::io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", WATCHDOG_SCRIPT, "watchdog", &child.to_string()])
        .arg(directory.unwrap_or(Path::new("")))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Kills and reaps. Both calls fail only if the process is gone already, which is what we want.
fn end(child: &mut Child) {
    let _ = child.kill();
    // `wait` would close the pipe first; after SIGKILL that no longer matters.
    let _ = child.wait();
}

fn failed(peer: &str, action: &str, error: std::io::Error) -> PeerError {
    PeerError::system(format!("{action} {peer}"), error)
}

fn read_end(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(OUTPUT_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// How much memory a process holds.
#[derive(Debug, Clone, Copy)]
pub struct ResidentBytes {
    /// At this moment.
    pub now: u64,
    /// At its highest so far.
    pub peak: u64,
}

/// Reads how much memory a process holds.
pub fn resident_bytes(process_id: u32) -> Result<ResidentBytes> {
    let path = format!("/proc/{process_id}/status");
    let status = std::fs::read_to_string(&path)
        .map_err(|error| PeerError::system(format!("read {path}"), error))?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
            .map(|kilobytes| kilobytes * 1024)
            .ok_or_else(|| PeerError::UnexpectedAnswer {
                peer: path.clone(),
                answer: format!("no field {name}"),
            })
    };
    Ok(ResidentBytes {
        now: field("VmRSS:")?,
        peak: field("VmHWM:")?,
    })
}

/// What the kernel counts processor time in.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads how much time of processors a process has used so far.
pub fn processor_time(process_id: u32) -> Result<Duration> {
    let path = format!("/proc/{process_id}/stat");
    let stat = std::fs::read_to_string(&path)
        .map_err(|error| PeerError::system(format!("read {path}"), error))?;
    Ok(Duration::from_secs_f64(ticks_of(&stat) / TICKS_PER_SECOND))
}

fn ticks_of(stat: &str) -> f64 {
    // The name of the program stands in brackets and may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let used = after_name.split_whitespace().skip(11).take(2);
    used.filter_map(|field| field.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_user_and_system() {
        assert_eq!(ticks_of("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 99 0"), 42.0);
    }

    fn is_alive(pid: u32) -> bool {
        Path::new(&format!("/proc/{pid}")).exists()
    }

    fn wait_for(mut condition: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !condition() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn sleeper(directory: &Path) -> Process {
        let mut command = Command::new("sleep");
        command.arg("600");
        Process::spawn(
            "sleeper",
            command,
            &directory.join("output"),
            Some(directory),
        )
        .expect("sleep starts")
    }

    #[test]
    fn dropping_ends_child_and_watchdog_and_keeps_the_directory() {
        let directory = tempfile::tempdir().expect("temp dir");
        let process = sleeper(directory.path());
        let (child, watchdog) = (process.child.id(), process.watchdog.id());
        assert!(is_alive(child) && is_alive(watchdog));
        drop(process);
        assert!(!is_alive(child) && !is_alive(watchdog));
        assert!(directory.path().exists());
    }

    #[test]
    fn the_watchdog_ends_an_orphan_and_removes_its_directory() {
        let directory = tempfile::tempdir().expect("temp dir");
        let mut process = sleeper(directory.path());
        // Closing the pipe is what the owner's death does.
        drop(process.watchdog.stdin.take());
        assert!(wait_for(|| process.expect_running().is_err()));
        assert!(wait_for(|| !directory.path().exists()));
    }

    #[test]
    fn a_peer_that_ends_early_is_reported_with_its_output() {
        let directory = tempfile::tempdir().expect("temp dir");
        let mut command = Command::new("sh");
        command.args(["-c", "echo the reason; exit 3"]);
        let mut process =
            Process::spawn("failing", command, &directory.path().join("output"), None)
                .expect("sh starts");
        assert!(wait_for(|| process.expect_running().is_err()));
        let error = process.expect_running().unwrap_err().to_string();
        assert!(error.contains("the reason"), "{error}");
        assert!(error.contains('3'), "{error}");
    }

    #[test]
    fn own_memory_can_be_read() {
        let memory = resident_bytes(std::process::id()).expect("own status");
        assert!(memory.now > 0 && memory.peak >= memory.now);
    }
}
