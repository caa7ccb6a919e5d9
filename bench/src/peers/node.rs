//! A Hivewire node that joins a bus, as the binary that users start.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::hivewire::{READY_TIMEOUT, find_binary, read_token};
use super::process::Process;
use super::rest::Request;
use super::{PeerError, Result};

/// What nodes share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The address of the bus.
    pub bus: String,
    /// The address of the store, if the bus has none.
    pub state: Option<String>,
}

/// A node without a broker of its own. Dropping it ends the process and removes its data.
#[derive(Debug)]
pub struct Node {
    // Declared before the directory: fields drop in order, and the process must end first.
    process: Option<Process>,
    _directory: TempDir,
    name: String,
    http: SocketAddr,
    token: String,
}

impl Node {
    /// Starts a node of this name and waits until it says that it is healthy.
    pub fn start(name: &str, shared: &Shared) -> Result<Self> {
        super::with_attempts(|| Self::start_once(name, shared))
    }

    fn start_once(name: &str, shared: &Shared) -> Result<Self> {
        let [http] = super::free_addresses()?;
        let directory = super::data_directory("node")?;
        let data = directory.path().join("data");
        let mut command = Command::new(find_binary()?);
        command
            .arg("join")
            .arg("--data")
            .arg(&data)
            .args(["--name", name, "--bus", &shared.bus])
            .args(["--http", &http.to_string()])
            .current_dir(directory.path());
        if let Some(state) = &shared.state {
            command.args(["--state", state]);
        }
        let output = directory.path().join("output");
        let mut process = Process::spawn("hivewire", command, &output, Some(directory.path()))?;
        super::wait_until_ready(&mut process, READY_TIMEOUT, || {
            Request::get("/health", None).send(http).is_ok()
        })?;
        Ok(Self {
            token: read_token(&data)?,
            process: Some(process),
            _directory: directory,
            name: name.to_owned(),
            http,
        })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where HTTP clients connect.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// The secret that HTTP clients must show.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Its process id, or nothing after it was killed.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Asks for something under `/api/v1`.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.call("GET", path, &Value::Null)
    }

    /// Posts to something under `/api/v1`.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", path, body)
    }

    /// Deletes something under `/api/v1`.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.call("DELETE", path, &Value::Null).map(|_| ())
    }

    /// Sends a message to a stage or a worker.
    pub fn send(&self, address: &str, body: &[u8]) -> Result<()> {
        let path = format!("messages/{}", encoded(address));
        self.exchange("POST", &path, body, false).map(|_| ())
    }

    /// Asks a stage or a worker.
    pub fn ask(&self, address: &str) -> Result<Vec<u8>> {
        let path = format!("asks/{}?timeout_ms=60000", encoded(address));
        self.exchange("POST", &path, b"?", false)
    }

    fn call(&self, method: &'static str, path: &str, body: &Value) -> Result<Value> {
        let body = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let answer = self.exchange(method, path, &body, true)?;
        serde_json::from_slice(&answer).map_err(|error| PeerError::UnexpectedAnswer {
            peer: self.name.clone(),
            answer: format!("{method} {path}: {error}"),
        })
    }

    fn exchange(
        &self,
        method: &'static str,
        path: &str,
        body: &[u8],
        is_json: bool,
    ) -> Result<Vec<u8>> {
        let request = Request {
            method,
            path: &format!("/api/v1/{path}"),
            token: Some(&self.token),
            body,
            is_json,
        };
        request.send(self.http)
    }
}

/// An address as a part of a path.
fn encoded(address: &str) -> String {
    address.replace('/', "%2F")
}
