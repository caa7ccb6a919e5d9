//! A node that joins a bus, as the binary that users start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use super::hivewire::{find_binary, token_in};
use super::http::{Request, exchange};
use super::process::Process;
use super::{PeerError, Result};

const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A node of its own. Dropping it ends the process and removes its data.
#[derive(Debug)]
pub struct Node {
    // Declared before the directory: fields drop in order, and the process must end first.
    process: Option<Process>,
    directory: TempDir,
    name: String,
    http: SocketAddr,
}

impl Node {
    /// Starts a node of this name on the bus of a Hivewire broker, and waits until it says that it
    /// is healthy.
    pub fn start(name: &str, bus: SocketAddr) -> Result<Self> {
        super::with_attempts(|| Self::start_once(name, bus))
    }

    fn start_once(name: &str, bus: SocketAddr) -> Result<Self> {
        let [http] = super::free_addresses()?;
        let mut node = Self {
            process: None,
            directory: super::data_directory("hivewire-node")?,
            name: name.to_owned(),
            http,
        };
        let mut process = node.spawn(bus)?;
        super::wait_until_ready(&mut process, READY_TIMEOUT, || {
            exchange(http, &Request::get("/health")).is_ok()
        })?;
        node.process = Some(process);
        Ok(node)
    }

    fn spawn(&self, bus: SocketAddr) -> Result<Process> {
        let mut command = Command::new(find_binary()?);
        command
            .args(["join", "--name", &self.name])
            .args(["--bus", &format!("stomp://{bus}")])
            .args(["--http", &self.http.to_string()])
            .arg("--data")
            .arg(self.data_directory())
            .current_dir(self.directory.path());
        let output = self.directory.path().join("output");
        Process::spawn("hivewire", command, &output, Some(self.directory.path()))
    }

    fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id, or nothing after it was killed.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// What it answers when it is asked for something.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.exchange(Request::get(path))
    }

    /// What it answers when it is told something.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.exchange(Request::post(path, body.to_string()))
    }

    fn exchange(&self, request: Request<'_>) -> Result<Value> {
        let token = token_in(&self.data_directory())?;
        let answer = exchange(self.http, &request.with_token(&token))?;
        serde_json::from_str(&answer).map_err(|error| PeerError::UnexpectedAnswer {
            peer: self.name.clone(),
            answer: format!("{error} in {answer}"),
        })
    }
}
