//! The real binary as a process of its own, and just enough of HTTP to talk to it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

pub const TIMEOUT: Duration = Duration::from_secs(20);
/// Small segments, so that starting does not take long.
const CONFIG: &str = "[journal]\nsegment_bytes = 1048576\n";

/// The binary.
pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hivewire"));
    for variable in [
        "HIVEWIRE_SERVER",
        "HIVEWIRE_TOKEN",
        "HIVEWIRE_LOG",
        "HIVEWIRE_UNSAFE_SYNC",
    ] {
        command.env_remove(variable);
    }
    command
}

/// A node on free ports. Dropping it kills the process.
pub struct Hive {
    pub folder: TempDir,
    child: Child,
    /// What it printed when it was ready.
    pub ready: Value,
}

impl Hive {
    pub fn start() -> Self {
        Self::with_config("")
    }

    /// Starts a node with more configuration, and waits until it is ready.
    pub fn with_config(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("hivewire.toml"),
            format!("{more}\n{CONFIG}"),
        )
        .unwrap();
        let (child, ready) = spawn(folder.path());
        Self {
            folder,
            child,
            ready,
        }
    }

    /// Ends it in good order and starts it again on the same data.
    pub fn restart(&mut self) {
        assert_eq!(self.terminate(), Some(0), "{}", self.log());
        self.start_again();
    }

    /// Starts it on the same data after it has ended.
    pub fn start_again(&mut self) {
        (self.child, self.ready) = spawn(self.folder.path());
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends SIGTERM and gives the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.exit_code()
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(
                Instant::now() < end,
                "the node did not end:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn address(&self, protocol: &str) -> SocketAddr {
        let listeners = self.ready["listeners"].as_array().unwrap();
        let listener = listeners.iter().find(|l| l["protocol"] == protocol);
        listener.unwrap()["address"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("hivewire-data")
    }

    pub fn token(&self) -> String {
        let token = fs::read_to_string(self.data().join("token")).unwrap();
        token.trim().to_owned()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A command against this node, which finds its token by itself.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary();
        command
            .current_dir(self.folder.path())
            .args(arguments)
            .args(["--server", &format!("http://{}", self.address("http"))])
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that must succeed and print one line of JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let output = self.run(&arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            stderr(&output)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Asks over HTTP with the token.
    pub fn rest(&self, method: &str, path: &str, body: &str) -> Answer {
        let authorization = format!("Authorization: Bearer {}", self.token());
        self.http(
            method,
            path,
            &[&authorization, "Content-Type: application/json"],
            body,
        )
    }

    /// Asks over HTTP with these header lines only. A Host is added unless there is one.
    pub fn http(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let address = self.address("http");
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|line| line.starts_with("Host:")) {
            head.push_str(&format!("Host: {address}\r\n"));
        }
        for line in headers {
            head.push_str(&format!("{line}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        self.exchange(&head)
    }

    /// Asks with exactly these header lines, a Host, and no body, whatever they say about one.
    pub fn raw(&self, method: &str, path: &str, headers: &[&str]) -> Answer {
        let (address, lines) = (self.address("http"), headers.join("\r\n"));
        self.exchange(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{lines}\r\n\r\n"
        ))
    }

    fn exchange(&self, request: &str) -> Answer {
        let address = self.address("http");
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = Vec::new();
        // A refused body may end in a reset after the answer.
        let _ = stream.read_to_end(&mut text);
        Answer::parse(&String::from_utf8(text).unwrap())
    }
}

impl Drop for Hive {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the node said:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a node in a folder with a configuration, and waits for the line that says it is ready.
fn spawn(folder: &Path) -> (Child, Value) {
    let log = File::options()
        .create(true)
        .append(true)
        .open(folder.join("log"))
        .unwrap();
    let mut child = binary()
        .current_dir(folder)
        .args(["up", "--json", "--log", "trace"])
        .args([
            "--http",
            "127.0.0.1:0",
            "--stomp",
            "127.0.0.1:0",
            "--gamq",
            "127.0.0.1:0",
            "--services",
            "127.0.0.1:0",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let (sender, first_line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = sender.send(line);
    });
    let line = first_line
        .recv_timeout(TIMEOUT)
        .expect("the node was not ready in time");
    let ready = serde_json::from_str(&line).unwrap_or_else(|_| {
        panic!(
            "not ready: {line:?} {}",
            fs::read_to_string(folder.join("log")).unwrap()
        )
    });
    (child, ready)
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An answer over HTTP.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self {
            status,
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    /// What a header says, in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Checks that this is a problem document with this status, and gives it.
    pub fn problem(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert!(
            self.head.contains("content-type: application/problem+json"),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["status"], status);
        for key in ["type", "title", "detail"] {
            assert!(
                problem[key].as_str().is_some_and(|text| !text.is_empty()),
                "{self:?}"
            );
        }
        problem
    }
}
