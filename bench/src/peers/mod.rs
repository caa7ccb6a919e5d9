//! Starts the systems under test on loopback, each in a directory of its own, and ends them
//! again by process id: on drop, on panic, and also when the process that started them dies.

pub mod activemq;
mod certificate;
pub mod hivewire;
pub mod nats;
pub mod nginx;
pub mod node;
pub mod postgres;
mod process;
pub(crate) mod program;
pub mod rabbitmq;
pub(crate) mod rest;
pub mod services;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use certificate::Certificate;
pub use process::{ResidentBytes, processor_time, resident_bytes};

/// The variable that names the directory in which peers keep their data. It decides which disk
/// the durable benchmarks measure.
pub const DATA_ROOT_VARIABLE: &str = "HIVEWIRE_BENCH_DIR";

/// How often a start is tried again with other ports, should another process take one first.
const START_ATTEMPTS_MAX: u32 = 3;

/// How long a peer may take over one answer while it is asked whether it is ready.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// What can go wrong while a peer is started, stopped or asked something.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The program is not on this machine.
    #[error("{program} was not found; {hint}")]
    NotInstalled {
        /// The program that was looked for.
        program: String,
        /// What to do about it.
        hint: String,
    },
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The peer ended before it was ready.
    #[error("{peer} ended early ({status}); its last output:\n{output}")]
    Exited {
        /// The peer's name.
        peer: String,
        /// How it ended.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// The peer runs but does not answer.
    #[error("{peer} was not ready after {timeout_seconds} s; its last output:\n{output}")]
    NotReady {
        /// The peer's name.
        peer: String,
        /// How long was waited.
        timeout_seconds: u64,
        /// The end of what it printed.
        output: String,
    },
    /// The peer answered something that was not expected.
    #[error("{peer} gave an unexpected answer: {answer}")]
    UnexpectedAnswer {
        /// The peer's name.
        peer: String,
        /// What it said.
        answer: String,
    },
}

impl PeerError {
    pub(crate) fn system(action: impl Into<String>, source: std::io::Error) -> Self {
        Self::System {
            action: action.into(),
            source,
        }
    }
}

/// The result of talking to a peer.
pub type Result<T> = std::result::Result<T, PeerError>;

/// Makes an empty directory for one peer; it goes when the returned guard is dropped.
pub(crate) fn data_directory(peer: &str) -> Result<TempDir> {
    let root = std::env::var_os(DATA_ROOT_VARIABLE)
        .map(PathBuf::from)
        .unwrap_or_else(std::env::temp_dir);
    tempfile::Builder::new()
        .prefix(&format!("{peer}-"))
        .tempdir_in(&root)
        .map_err(|error| {
            PeerError::system(format!("make a directory in {}", root.display()), error)
        })
}

/// Finds addresses on loopback that are free for TCP and UDP, all different from one another.
fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut held = Vec::with_capacity(N);
    while held.len() < N {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .map_err(|error| PeerError::system("find a free port", error))?;
        let address = listener
            .local_addr()
            .map_err(|error| PeerError::system("read a port", error))?;
        // gamq listens on UDP under the same number.
        if let Ok(datagrams) = UdpSocket::bind(address) {
            held.push((address, listener, datagrams));
        }
    }
    Ok(std::array::from_fn(|index| held[index].0))
}

/// Tries a start again when it failed because the peer ended early, which is what a port that
/// was taken in between looks like.
fn with_attempts<T>(mut start: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match start() {
            Err(PeerError::Exited { .. }) if attempt < START_ATTEMPTS_MAX => attempt += 1,
            outcome => return outcome,
        }
    }
}

/// Finds a program in `PATH` or in the directories for system programs, which an ordinary
/// user's `PATH` lacks.
fn find_program(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")])
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| not_installed(program))
}

fn not_installed(program: &str) -> PeerError {
    PeerError::NotInstalled {
        program: program.to_owned(),
        hint: "run tests/tools/install bench".to_owned(),
    }
}

/// Connects with bounds on every wait.
fn connect(address: SocketAddr, timeout: Duration) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Calls `ready` until it says yes, the process ends, or the time is over.
fn wait_until_ready(
    process: &mut process::Process,
    timeout: Duration,
    mut ready: impl FnMut() -> bool,
) -> Result<()> {
    let deadline = Instant::now() + timeout;
    while !ready() {
        process.expect_running()?;
        if Instant::now() > deadline {
            return Err(process.not_ready(timeout));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Whether a server lets STOMP clients in.
fn accepts_stomp(address: SocketAddr) -> bool {
    let connect = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0";
    exchange(address, connect, 9).is_ok_and(|answer| answer == b"CONNECTED")
}

/// Sends a request and reads the first bytes of the answer.
fn exchange(address: SocketAddr, request: &[u8], answer_bytes: usize) -> std::io::Result<Vec<u8>> {
    let mut stream = connect(address, PROBE_TIMEOUT)?;
    stream.write_all(request)?;
    let mut answer = vec![0; answer_bytes];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|error| PeerError::system(format!("write {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_addresses_differ() {
        let addresses = free_addresses::<8>().expect("loopback has free ports");
        let distinct: std::collections::HashSet<_> = addresses.iter().collect();
        assert_eq!(distinct.len(), addresses.len());
    }

    #[test]
    fn a_missing_program_is_named_with_a_remedy() {
        let error = find_program("no-such-program-anywhere").unwrap_err();
        assert!(error.to_string().contains("no-such-program-anywhere"));
        assert!(error.to_string().contains("tests/tools/install"));
    }

    #[test]
    fn starts_are_tried_again_only_when_the_peer_ended_early() {
        let mut calls = 0;
        let outcome: Result<()> = with_attempts(|| {
            calls += 1;
            Err(not_installed("x"))
        });
        assert!(outcome.is_err());
        assert_eq!(calls, 1);

        let mut calls = 0;
        let outcome = with_attempts(|| {
            calls += 1;
            if calls < 3 {
                return Err(PeerError::Exited {
                    peer: "x".into(),
                    status: "exit status: 1".into(),
                    output: String::new(),
                });
            }
            Ok(calls)
        });
        assert_eq!(outcome.expect("third attempt succeeds"), 3);
    }
}
