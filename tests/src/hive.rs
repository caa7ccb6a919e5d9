//! The broker as a process of its own.
//!
//! [`Hive`] starts the binary on free ports, waits until it is healthy, and can end it kindly,
//! kill it, and start it again on the same data and ports. What it wrote to standard error is
//! shown if a test fails.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::http::{self, Response};
use crate::network::Network;
use crate::poll::wait_until;

/// Names the binary to test, if it is not beside the tests.
pub const BINARY_VARIABLE: &str = "HIVEWIRE_BIN";
const REST_TIMEOUT: Duration = Duration::from_secs(15);
const START_TIMEOUT: Duration = Duration::from_secs(10);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const LOG_SHOWN_BYTES_MAX: usize = 16 * 1024;
/// Below the ports that the system hands out to clients, so that none of them takes the place
/// of a broker that is being restarted.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Why the broker did not start or stop as it should.
#[derive(thiserror::Error)]
pub enum HiveError {
    /// There is no binary to test.
    #[error(
        "there is no binary at {0}: build it first (cargo build --release) or set {BINARY_VARIABLE}"
    )]
    NoBinary(PathBuf),
    /// Something around the process failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The process ended when it should have run.
    #[error("the broker ended with {status} instead of getting healthy; it said:\n{log}")]
    Ended {
        /// How it ended.
        status: ExitStatus,
        /// The end of its standard error.
        log: String,
    },
    /// The process runs, but does not answer.
    #[error("the broker was not healthy after {after:?}; it said:\n{log}")]
    NotHealthy {
        /// How long it had.
        after: Duration,
        /// The end of its standard error.
        log: String,
    },
    /// The process did not end when asked to.
    #[error("the broker did not end within {after:?} of SIGTERM; it said:\n{log}")]
    NotStopped {
        /// How long it had.
        after: Duration,
        /// The end of its standard error.
        log: String,
    },
    /// The process is not running now.
    #[error("the broker is not running")]
    NotRunning,
}

/// Tests unwrap these, so what they print then has to be readable.
impl fmt::Debug for HiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> HiveError {
    move |source| HiveError::Io { what, source }
}

/// How a [`Hive`] is to be started.
#[derive(Default)]
pub struct HiveOptions {
    data: Option<PathBuf>,
    config: Option<String>,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    /// What runs the binary, if it is not run directly.
    wrapper: Vec<OsString>,
    /// Where it listens, if not on loopback.
    ip: Option<IpAddr>,
}

impl HiveOptions {
    /// Keeps the data in this directory instead of a temporary one.
    #[must_use]
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Starts it with a configuration file that holds this text.
    #[must_use]
    pub fn config(mut self, text: impl Into<String>) -> Self {
        self.config = Some(text.into());
        self
    }

    /// Adds an argument after `up` and the usual ones.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Runs it on the other side of a network, where it listens on what this side can reach.
    #[must_use]
    pub fn across(mut self, network: &Network) -> Self {
        self.wrapper = network.wrapper().map(OsString::from).to_vec();
        self.reachable_at(network.there())
    }

    /// Lets it listen on this address, which others can reach.
    #[must_use]
    pub fn reachable_at(mut self, ip: IpAddr) -> Self {
        self.ip = Some(ip);
        self.argument("--allow-remote")
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Starts the broker and waits until it is healthy.
    pub fn start(self) -> Result<Hive, HiveError> {
        let mut hive = self.prepare()?;
        hive.start_again()?;
        Ok(hive)
    }

    /// Prepares everything, but does not start the broker yet.
    pub fn prepare(mut self) -> Result<Hive, HiveError> {
        let directory = tempfile::Builder::new()
            .prefix("hivewire-test-")
            .tempdir()
            .map_err(io_error("make a temporary directory"))?;
        let data = match self.data {
            Some(data) => data,
            None => directory.path().join("data"),
        };
        let mut services = vec!["--services", "127.0.0.1:0"];
        if let Some(text) = self.config {
            if text.contains("[services]\naddress") {
                services.clear();
            }
            let path = directory.path().join("hivewire.toml");
            fs::write(&path, text).map_err(io_error("write the configuration"))?;
            self.arguments.extend(["--config".into(), path.into()]);
        }
        let free_address = || {
            let mut address = free_address().map_err(io_error("find a free port"))?;
            address.set_ip(self.ip.unwrap_or(address.ip()));
            Ok(address)
        };
        Ok(Hive {
            binary: binary()?,
            wrapper: self.wrapper,
            data,
            log: directory.path().join("stderr"),
            http: free_address()?,
            stomp: free_address()?,
            gamq: free_address()?,
            services,
            arguments: self.arguments,
            variables: self.variables,
            child: None,
            _directory: directory,
        })
    }
}

/// A broker that runs, or ran and can be started again. Dropping it kills the process.
pub struct Hive {
    binary: PathBuf,
    wrapper: Vec<OsString>,
    data: PathBuf,
    log: PathBuf,
    http: SocketAddr,
    stomp: SocketAddr,
    gamq: SocketAddr,
    /// Services listen anywhere, unless the configuration says where.
    services: Vec<&'static str>,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    child: Option<Child>,
    // Holds the data and the log, and goes last.
    _directory: TempDir,
}

impl Hive {
    /// A broker with data in a temporary directory, healthy.
    pub fn start() -> Result<Self, HiveError> {
        HiveOptions::default().start()
    }

    /// A broker to be started with further options.
    pub fn options() -> HiveOptions {
        HiveOptions::default()
    }

    /// Where HTTP is served.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// Where STOMP is served.
    pub fn stomp_address(&self) -> SocketAddr {
        self.stomp
    }

    /// Where gamq is served, over TCP and UDP.
    pub fn gamq_address(&self) -> SocketAddr {
        self.gamq
    }

    /// The directory with the broker's data.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Sets an environment variable for the next start.
    pub fn set_variable(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.push((name.into(), value.into()));
    }

    /// Starts the broker on the same data and ports as before, and says how long it took until it
    /// was healthy.
    pub fn start_again(&mut self) -> Result<Duration, HiveError> {
        let start = Instant::now();
        self.spawn()?;
        self.wait_healthy(START_TIMEOUT)?;
        Ok(start.elapsed())
    }

    /// Starts the process and does not wait for anything.
    pub fn spawn(&mut self) -> Result<(), HiveError> {
        self.kill9();
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log)
            .map_err(io_error("open the log"))?;
        let mut words: Vec<&OsStr> = self.wrapper.iter().map(OsString::as_os_str).collect();
        words.push(self.binary.as_os_str());
        let child = Command::new(words[0])
            .args(&words[1..])
            .arg("up")
            .arg("--data")
            .arg(&self.data)
            .args(["--http", &self.http.to_string()])
            .args(["--stomp", &self.stomp.to_string()])
            .args(["--gamq", &self.gamq.to_string()])
            .args(&self.services)
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(io_error("open the log"))?)
            .stderr(log)
            .spawn()
            .map_err(io_error("start the broker"))?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until the broker says that it is healthy.
    pub fn wait_healthy(&mut self, timeout: Duration) -> Result<(), HiveError> {
        let mut ended = None;
        let healthy = wait_until(timeout, || {
            ended = self.exit_status();
            ended.is_some() || self.is_healthy()
        });
        match (ended, healthy) {
            (Some(status), _) => Err(HiveError::Ended {
                status,
                log: self.log(),
            }),
            (None, true) => Ok(()),
            (None, false) => Err(HiveError::NotHealthy {
                after: timeout,
                log: self.log(),
            }),
        }
    }

    /// Whether the broker answers that all is well.
    pub fn is_healthy(&self) -> bool {
        http::request(self.http, "GET", "/health", &[], b"").is_ok_and(|r| r.status == 200)
    }

    /// How the process ended, if it has.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().ok().flatten()
    }

    /// Kills the process without warning and waits until it is gone.
    pub fn kill9(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already, which is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Asks the process to end and waits for it.
    pub fn terminate(&mut self) -> Result<ExitStatus, HiveError> {
        self.signal(Signal::TERM)?;
        let mut status = None;
        wait_until(STOP_TIMEOUT, || {
            status = self.exit_status();
            status.is_some()
        });
        let status = status.ok_or_else(|| HiveError::NotStopped {
            after: STOP_TIMEOUT,
            log: self.log(),
        })?;
        self.child = None;
        Ok(status)
    }

    /// Sends a signal, such as STOP and CONT.
    pub fn signal(&self, signal: Signal) -> Result<(), HiveError> {
        kill_process(self.pid()?, signal).map_err(|error| HiveError::Io {
            what: "send a signal",
            source: error.into(),
        })
    }

    /// Bytes of memory that the process holds now.
    pub fn memory_bytes(&self) -> Result<u64, HiveError> {
        self.status_bytes("VmRSS:")
    }

    /// The most bytes of memory that the process ever held.
    pub fn memory_bytes_peak(&self) -> Result<u64, HiveError> {
        self.status_bytes("VmHWM:")
    }

    /// Bytes of files, above all of the binary itself, that the process has in memory. Under a cap the system takes
    /// them away first, and reads them again when they are needed.
    pub fn file_bytes(&self) -> Result<u64, HiveError> {
        self.status_bytes("RssFile:")
    }

    fn status_bytes(&self, field: &str) -> Result<u64, HiveError> {
        let path = format!("/proc/{}/status", self.pid()?.as_raw_nonzero());
        let status = fs::read_to_string(path).map_err(io_error("read the memory of the broker"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kibibytes.ok_or(HiveError::NotRunning)? * 1024)
    }

    fn pid(&self) -> Result<Pid, HiveError> {
        let child = self.child.as_ref().ok_or(HiveError::NotRunning)?;
        Ok(Pid::from_child(child))
    }

    /// The token that REST asks for.
    pub fn token(&self) -> Result<String, HiveError> {
        let text = fs::read_to_string(self.data.join("token"));
        Ok(text.map_err(io_error("read the token"))?.trim().to_owned())
    }

    /// Asks the REST interface something, with the token.
    pub fn rest(&self, method: &str, path: &str, body: &[u8]) -> Result<Response, HiveError> {
        self.rest_within(method, path, body, REST_TIMEOUT)
    }

    /// The same with another time for the answer.
    pub fn rest_within(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Response, HiveError> {
        let authorization = format!("Bearer {}", self.token()?);
        let headers = [
            ("Authorization", authorization.as_str()),
            ("Content-Type", "application/json"),
        ];
        http::request_within(timeout, self.http, method, path, &headers, body)
            .map_err(io_error("ask over HTTP"))
    }

    /// A command of the same binary that talks to this broker.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .arg("--server")
            .arg(format!("http://{}", self.http))
            .arg("--data")
            .arg(&self.data)
            .stdin(Stdio::null());
        command
    }

    /// How often it wrote this to standard output or error.
    pub fn times_said(&self, text: &str) -> usize {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).matches(text).count()
    }

    /// The end of what the broker wrote to standard output and error.
    pub fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let start = bytes.len().saturating_sub(LOG_SHOWN_BYTES_MAX);
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }
}

impl Drop for Hive {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.exit_status().map(ExitStatus::into_raw);
            eprintln!("the broker (ended: {ended:?}) said:\n{}", self.log());
        }
        self.kill9();
    }
}

/// The binary to test.
fn binary() -> Result<PathBuf, HiveError> {
    let path = match std::env::var_os(BINARY_VARIABLE) {
        Some(path) => PathBuf::from(path),
        None => {
            let tests = std::env::current_exe().map_err(io_error("find this program"))?;
            // Tests stand in target/release/deps, the binary in target/release.
            let release = tests.ancestors().nth(2).unwrap_or(Path::new("."));
            release.join("hivewire")
        }
    };
    if path.is_file() {
        Ok(path)
    } else {
        Err(HiveError::NoBinary(path))
    }
}

/// A loopback address whose port nobody uses, over TCP or UDP, and that is given out only once.
pub fn free_address() -> io::Result<SocketAddr> {
    static NEXT: LazyLock<Mutex<u16>> =
        LazyLock::new(|| Mutex::new(fastrand::u16(PORTS.start..PORTS.end)));
    let mut next = NEXT.lock();
    for _ in PORTS {
        *next = if *next + 1 < PORTS.end {
            *next + 1
        } else {
            PORTS.start
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *next));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
