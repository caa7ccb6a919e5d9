//! Hivewire itself, as the binary that users start.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::process::Process;
use super::rest::Request;
use super::{PeerError, Result};

pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The variable that names the binary to test.
pub const BINARY_VARIABLE: &str = "HIVEWIRE_BIN";

/// A Hivewire broker of its own. Dropping it ends the process and removes its data.
#[derive(Debug)]
pub struct Hivewire {
    // Declared before the directory: fields drop in order, and the process must end first.
    process: Option<Process>,
    directory: TempDir,
    binary: PathBuf,
    /// What it is called among other nodes, if it is one.
    name: Option<String>,
    http: SocketAddr,
    stomp: SocketAddr,
    gamq: SocketAddr,
}

impl Hivewire {
    /// Starts a broker on free ports and waits until it says that it is healthy.
    pub fn start() -> Result<Self> {
        super::with_attempts(|| Self::start_once(None))
    }

    /// The same as a node of this name, which others can join.
    pub fn start_named(name: &str) -> Result<Self> {
        super::with_attempts(|| Self::start_once(Some(name)))
    }

    fn start_once(name: Option<&str>) -> Result<Self> {
        let [http, stomp, gamq] = super::free_addresses()?;
        let mut hivewire = Self {
            process: None,
            directory: super::data_directory("hivewire")?,
            binary: find_binary()?,
            name: name.map(str::to_owned),
            http,
            stomp,
            gamq,
        };
        hivewire.restart()?;
        Ok(hivewire)
    }

    /// Where HTTP clients connect.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Where STOMP clients connect.
    pub fn stomp_address(&self) -> SocketAddr {
        self.stomp
    }

    /// Where gamq clients connect, over TCP and over UDP.
    pub fn gamq_address(&self) -> SocketAddr {
        self.gamq
    }

    /// The directory given to the broker for its data.
    pub fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// The broker's process id, or nothing while it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Ends the broker at once (SIGKILL), as a crash would, and keeps its data.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Ends the broker in good order and keeps its data.
    pub fn stop(&mut self) -> Result<()> {
        match self.process.take() {
            Some(process) => process.terminate(STOP_TIMEOUT),
            None => Ok(()),
        }
    }

    /// Starts the broker on the same data and ports, ending it first if it still runs, and
    /// waits until it says that it is healthy.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let mut command = Command::new(&self.binary);
        command
            .arg("up")
            .arg("--data")
            .arg(self.data_directory())
            .args(["--http", &self.http.to_string()])
            .args(["--stomp", &self.stomp.to_string()])
            .args(["--gamq", &self.gamq.to_string()])
            .current_dir(self.directory.path());
        if let Some(name) = &self.name {
            command.args(["--name", name]);
        }
        let output = self.directory.path().join("output");
        let mut process =
            Process::spawn("hivewire", command, &output, Some(self.directory.path()))?;
        super::wait_until_ready(&mut process, READY_TIMEOUT, || {
            get(self.http, "/health", None).is_ok()
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// The secret that HTTP clients must show, from the data directory.
    pub fn token(&self) -> Result<String> {
        read_token(&self.data_directory())
    }

    /// Asks for something under `/api/v1`.
    pub fn get(&self, path: &str) -> Result<Vec<u8>> {
        let path = format!("/api/v1/{path}");
        Request::get(&path, Some(&self.token()?)).send(self.http)
    }

    /// Posts JSON to something under `/api/v1`.
    pub fn post(&self, path: &str, body: &[u8]) -> Result<Vec<u8>> {
        let request = Request {
            method: "POST",
            path: &format!("/api/v1/{path}"),
            token: Some(&self.token()?),
            body,
            is_json: true,
        };
        request.send(self.http)
    }

    /// Reads one counter from `GET /metrics`, added up over its labels.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let text = get(self.http, "/metrics", Some(&self.token()?))?;
        sum_of_metric(&text, name).ok_or_else(|| PeerError::UnexpectedAnswer {
            peer: "hivewire".to_owned(),
            answer: format!("GET /metrics has no {name}"),
        })
    }

    /// How many messages wait in a queue.
    pub fn queue_messages(&self, queue: &str) -> Result<u32> {
        self.queue_lengths()?.messages(queue)
    }

    /// Looks at the length of queues, as long as the broker runs.
    pub fn queue_lengths(&self) -> Result<QueueLengths> {
        Ok(QueueLengths {
            http: self.http,
            token: self.token()?,
        })
    }

    /// What `hivewire --version` prints.
    pub fn version() -> Result<String> {
        let output = Command::new(find_binary()?)
            .arg("--version")
            .output()
            .map_err(|error| PeerError::system("ask hivewire for its version", error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.trim().trim_start_matches("hivewire ").to_owned())
    }
}

/// Looks at the length of a broker's queues.
#[derive(Clone)]
pub struct QueueLengths {
    http: SocketAddr,
    token: String,
}

impl QueueLengths {
    /// How many messages wait in a queue.
    pub fn messages(&self, queue: &str) -> Result<u32> {
        let name = format!("hivewire_queue_messages{{queue=\"{queue}\"}}");
        let text = get(self.http, "/metrics", Some(&self.token))?;
        Ok(sum_of_metric(&text, &name).map_or(0, |messages| messages as u32))
    }
}

/// Takes the binary from the environment, from beside the running program (tests run one level
/// deeper, in `deps`), or from the workspace's own target directory.
pub(crate) fn find_binary() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(BINARY_VARIABLE) {
        return Ok(PathBuf::from(named));
    }
    let program = std::env::current_exe().unwrap_or_default();
    let beside = program.ancestors().skip(1).take(2);
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release");
    beside
        .map(Path::to_owned)
        .chain([workspace])
        .map(|directory| directory.join("hivewire"))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| PeerError::NotInstalled {
            program: "the hivewire binary".to_owned(),
            hint: format!("build it with cargo build --release, or name it in {BINARY_VARIABLE}"),
        })
}

/// Asks for something and gives back the text of a successful answer.
fn get(address: SocketAddr, path: &str, token: Option<&str>) -> Result<String> {
    let body = Request::get(path, token).send(address)?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// Reads the secret that HTTP clients must show, from a data directory.
pub(super) fn read_token(data: &Path) -> Result<String> {
    let path = data.join("token");
    let token = std::fs::read_to_string(&path)
        .map_err(|error| PeerError::system(format!("read {}", path.display()), error))?;
    Ok(token.trim().to_owned())
}

fn sum_of_metric(text: &str, name: &str) -> Option<f64> {
    let values: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix(name))
        .filter(|rest| rest.starts_with([' ', '{']))
        .filter_map(|rest| rest.rsplit_once(' ')?.1.parse().ok())
        .collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_added_up_over_its_labels() {
        let text =
            "# TYPE a counter\na_total{x=\"1\"} 3\na_total{x=\"2\"} 4\na_total_more 9\nb 1\n";
        assert_eq!(sum_of_metric(text, "a_total"), Some(7.0));
        assert_eq!(sum_of_metric(text, "a_total{x=\"2\"}"), Some(4.0));
        assert_eq!(sum_of_metric(text, "b"), Some(1.0));
        assert_eq!(sum_of_metric(text, "c"), None);
    }
}
