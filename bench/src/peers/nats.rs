//! NATS core, from Debian's `nats-server`.

use std::io::Read;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::process::Process;
use super::{PeerError, Result};

const READY_TIMEOUT: Duration = Duration::from_secs(30);
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

/// A NATS server of its own.
#[derive(Debug)]
pub struct Nats {
    // Declared before the directory: fields drop in order, and the process must end first.
    process: Process,
    _directory: TempDir,
    address: SocketAddr,
}

impl Nats {
    /// Starts a server on a free port and waits until it greets clients.
    pub fn start() -> Result<Self> {
        super::with_attempts(Self::start_once)
    }

    fn start_once() -> Result<Self> {
        let program = super::find_program("nats-server")?;
        let directory = super::data_directory("nats")?;
        let [address] = super::free_addresses()?;
        let mut command = Command::new(program);
        command
            .args(["-a", &address.ip().to_string()])
            .args(["-p", &address.port().to_string()])
            .current_dir(directory.path());
        let output = directory.path().join("output");
        let mut process = Process::spawn("nats-server", command, &output, Some(directory.path()))?;
        super::wait_until_ready(&mut process, READY_TIMEOUT, || greets(address))?;
        Ok(Self {
            process,
            _directory: directory,
            address,
        })
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's process id.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The installed version, such as `2.9.10`.
    pub fn version() -> Result<String> {
        let program = super::find_program("nats-server")?;
        let output = Command::new(program)
            .arg("--version")
            .output()
            .map_err(|error| PeerError::system("ask nats-server for its version", error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.trim().trim_start_matches("nats-server: v").to_owned())
    }
}

fn greets(address: SocketAddr) -> bool {
    let mut greeting = [0; 5];
    super::connect(address, PROBE_TIMEOUT)
        .and_then(|mut stream| stream.read_exact(&mut greeting))
        .is_ok_and(|()| &greeting == b"INFO ")
}
