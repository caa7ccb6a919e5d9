//! HTTP services: ours and those of others, each a program that is built if need be and serves the same routes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::process::Process;
use super::program::output_of;
use super::{PeerError, Result};

/// The variable that names a directory with programs that are built already: `bench_service`, `axum-service`, `actix-service`.
pub const PROGRAMS_VARIABLE: &str = "HIVEWIRE_BENCH_SERVICES";

const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Several hundred dependencies on a slow machine.
const BUILD_PATIENCE: Duration = Duration::from_secs(3_600);
const CALIBRATION_PATIENCE: Duration = Duration::from_secs(60);
const READY_REQUEST: &[u8] = b"GET /plain HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n";

/// One of the programs, and how many workers it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Program {
    /// Ours, with two event loops.
    Hivewire,
    /// Ours, with one.
    HivewireOneLoop,
    /// axum with two workers, and work in `spawn_blocking`.
    Axum,
    /// axum with two workers, and work within handlers.
    AxumInline,
    /// actix-web with two workers, and work in `web::block`.
    Actix,
    /// Node, one process.
    Node,
    /// Node, two processes that share nothing.
    NodeCluster,
}

impl Program {
    /// What it is called in tables and pictures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hivewire => "Hivewire",
            Self::HivewireOneLoop => "Hivewire, one loop",
            Self::Axum => "axum, spawn_blocking",
            Self::AxumInline => "axum, work in the handler",
            Self::Actix => "actix-web",
            Self::Node => "Node",
            Self::NodeCluster => "Node cluster",
        }
    }

    /// Whether it is ours.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Hivewire | Self::HivewireOneLoop)
    }

    /// Whether its requests share one state.
    pub fn shares_state(self) -> bool {
        self != Self::NodeCluster
    }

    /// Whether it computes with JavaScript.
    pub fn is_node(self) -> bool {
        matches!(self, Self::Node | Self::NodeCluster)
    }

    fn command(self, listen: SocketAddr) -> Result<Command> {
        let mut command = match self {
            Self::Hivewire | Self::HivewireOneLoop => Command::new(ours()?),
            Self::Axum | Self::AxumInline => Command::new(peer("axum-service")?),
            Self::Actix => Command::new(peer("actix-service")?),
            Self::Node | Self::NodeCluster => node()?,
        };
        command.args(["--listen", &listen.to_string()]);
        match self {
            Self::HivewireOneLoop => command.args(["--workers", "1"]),
            Self::Hivewire | Self::Axum | Self::Actix => command.args(["--workers", "2"]),
            Self::AxumInline => command.args(["--workers", "2", "--inline"]),
            Self::Node => &mut command,
            Self::NodeCluster => command.args(["--cluster", "2"]),
        };
        Ok(command)
    }
}

/// A running service. Dropping it ends the process.
#[derive(Debug)]
pub struct Service {
    // Declared before the directory: fields drop in order, and the process must end first.
    process: Process,
    _directory: TempDir,
    address: SocketAddr,
}

impl Service {
    /// Starts a program and waits until it answers.
    pub fn start(program: Program) -> Result<Self> {
        super::with_attempts(|| Self::start_once(program))
    }

    fn start_once(program: Program) -> Result<Self> {
        let [address] = super::free_addresses()?;
        let directory = super::data_directory("service")?;
        let mut command = program.command(address)?;
        command.current_dir(directory.path());
        let output = directory.path().join("output");
        let mut process = Process::spawn(program.name(), command, &output, Some(directory.path()))?;
        super::wait_until_ready(&mut process, READY_TIMEOUT, || {
            super::exchange(address, READY_REQUEST, 12).is_ok_and(|answer| answer.ends_with(b"200"))
        })?;
        Ok(Self {
            process,
            _directory: directory,
            address,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }
}

/// How many rounds of this Fibonacci number use a processor for so long in JavaScript.
pub fn node_rounds(number: u32, work: Duration) -> Result<u32> {
    let mut command = node()?;
    let what = format!("{number}:{}", work.as_millis());
    command.args(["--calibrate", &what]);
    let text = output_of("node", command, CALIBRATION_PATIENCE)?;
    text.trim()
        .parse()
        .map_err(|_| PeerError::UnexpectedAnswer {
            peer: "node".to_owned(),
            answer: text,
        })
}

/// Node is not among the Debian packages that are installed for benchmarks, since the studio needs a newer one, too.
fn node() -> Result<Command> {
    let program = super::find_program("node").map_err(|_| PeerError::NotInstalled {
        program: "node".to_owned(),
        hint: "install Node.js 20 or newer".to_owned(),
    })?;
    let mut command = Command::new(program);
    command.arg(folder().join("peers/services/node/service.mjs"));
    Ok(command)
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn built_before(name: &str) -> Option<PathBuf> {
    let programs = std::env::var_os(PROGRAMS_VARIABLE)?;
    Some(Path::new(&programs).join(name))
}

/// Our service is an example of the crate `web`. It is built with the whole workspace in view, so that nothing is built twice.
fn ours() -> Result<PathBuf> {
    if let Some(program) = built_before("bench_service") {
        return Ok(program);
    }
    let workspace = folder().parent().unwrap_or(folder());
    let target = workspace.join("target");
    let arguments = ["--workspace", "--example", "bench_service"];
    build(&workspace.join("Cargo.toml"), &target, &arguments)?;
    Ok(target.join("release/examples/bench_service"))
}

fn peer(name: &str) -> Result<PathBuf> {
    if let Some(program) = built_before(name) {
        return Ok(program);
    }
    let target = folder()
        .parent()
        .unwrap_or(folder())
        .join("target/services");
    build(&folder().join("peers/services/Cargo.toml"), &target, &[])?;
    Ok(target.join("release").join(name))
}

fn build(manifest: &Path, target: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--release", "--locked", "--quiet"])
        .args(arguments)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target);
    output_of("cargo", command, BUILD_PATIENCE).map(drop)
}
