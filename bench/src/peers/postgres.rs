//! PostgreSQL, from Debian's `postgresql`.
//!
//! The packaged cluster is left alone: this server has its own data, port and settings. It refuses
//! to run as root, so then it runs as the user `postgres`.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use super::process::Process;
use super::{Certificate, PeerError, Result};

const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
const INSTALLATION: &str = "/usr/lib/postgresql";
const USER: &str = "hivewire";
const DATABASE: &str = "postgres";

/// A PostgreSQL server of its own, which syncs what it promises. Dropping it ends the server and
/// removes its data. Anybody on this machine may connect as the user `hivewire`.
#[derive(Debug)]
pub struct Postgres {
    server: Option<Process>,
    directory: TempDir,
    programs: PathBuf,
    account: Option<Account>,
    address: SocketAddr,
}

/// A user of this machine.
#[derive(Clone, Copy, Debug)]
struct Account {
    user_id: u32,
    group_id: u32,
}

impl Postgres {
    /// Starts a server on a free port and waits until it serves clients.
    pub fn start() -> Result<Self> {
        super::with_attempts(|| Self::start_once(None))
    }

    /// As before; clients may speak encrypted.
    pub fn start_encrypted(certificate: &Certificate) -> Result<Self> {
        super::with_attempts(|| Self::start_once(Some(certificate)))
    }

    fn start_once(certificate: Option<&Certificate>) -> Result<Self> {
        let directory = super::data_directory("postgres")?;
        let account = Account::needed()?;
        give(account, directory.path())?;
        let [address] = super::free_addresses()?;
        let mut postgres = Self {
            server: None,
            directory,
            programs: find_programs()?,
            account,
            address,
        };
        postgres.make_data()?;
        if let Some(certificate) = certificate {
            postgres.encrypt(certificate)?;
        }
        postgres.restart()?;
        Ok(postgres)
    }

    /// The address for clients, with user and database.
    pub fn uri(&self) -> String {
        format!("postgres://{USER}@{}/{DATABASE}", self.address)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server's process id, or nothing while it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        self.server.as_ref().map(Process::id)
    }

    /// Ends the server at once (SIGKILL), as a crash would, and keeps its data.
    pub fn kill(&mut self) {
        self.server = None;
    }

    /// Starts the server on the same data and port, ending it first if it still runs, and waits
    /// until it serves clients.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let mut server = self.spawn()?;
            let address = self.address;
            match super::wait_until_ready(&mut server, READY_TIMEOUT, || serves(address)) {
                Ok(()) => {
                    self.server = Some(server);
                    return Ok(());
                }
                // What a killed server leaves behind ends a moment after it, and is in the way.
                Err(PeerError::Exited { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The installed version, such as `15.14`.
    pub fn version() -> Result<String> {
        let program = find_programs()?.join("postgres");
        let output = Command::new(program)
            .arg("--version")
            .output()
            .map_err(|error| PeerError::system("ask postgres for its version", error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.split_whitespace().nth(2);
        Ok(version.unwrap_or("of unknown version").to_owned())
    }

    /// Ends the server without waiting for its clients.
    fn stop(&mut self) -> Result<()> {
        match self.server.take() {
            Some(server) => server.end_by(Signal::QUIT, STOP_TIMEOUT),
            None => Ok(()),
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LC_ALL", "C");
        if let Some(account) = self.account {
            command.uid(account.user_id).gid(account.group_id);
        }
        command
    }

    fn make_data(&self) -> Result<()> {
        let output = self
            .command("initdb")
            .arg("-D")
            .arg(self.data())
            .args(["--auth=trust", "--encoding=UTF8", "--locale=C"])
            .args(["--username", USER, "--no-sync"])
            .output()
            .map_err(|error| PeerError::system("start initdb", error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(PeerError::UnexpectedAnswer {
            peer: "initdb".to_owned(),
            answer: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// The server takes a key only from a file of its own that nobody else may read.
    fn encrypt(&self, certificate: &Certificate) -> Result<()> {
        let own = self.directory.path().join("key");
        let key = std::fs::read_to_string(&certificate.key);
        let key = key.map_err(|error| PeerError::system("read a key", error))?;
        super::write_file(&own, &key)?;
        std::fs::set_permissions(&own, Permissions::from_mode(0o600))
            .map_err(|error| PeerError::system("hide a key", error))?;
        give(self.account, &own)?;
        let certificate = std::fs::read_to_string(&certificate.certificate);
        let certificate =
            certificate.map_err(|error| PeerError::system("read a certificate", error))?;
        let shown = self.directory.path().join("certificate");
        super::write_file(&shown, &certificate)?;
        let settings = format!(
            "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
            shown.display(),
            own.display()
        );
        let path = self.data().join("postgresql.auto.conf");
        super::write_file(&path, &settings)
    }

    fn spawn(&self) -> Result<Process> {
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data());
        let listen = format!("listen_addresses={}", self.address.ip());
        let port = format!("port={}", self.address.port());
        for setting in [
            listen.as_str(),
            port.as_str(),
            "unix_socket_directories=",
            "fsync=on",
            "synchronous_commit=on",
            "max_connections=64",
        ] {
            command.args(["-c", setting]);
        }
        let directory = self.directory.path();
        let output = directory.join("output");
        Process::spawn("postgres", command, &output, Some(directory))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A killed server would leave shared memory behind. If it does not end so, it is killed.
        let _ = self.stop();
    }
}

/// Makes something the account's own.
fn give(account: Option<Account>, path: &Path) -> Result<()> {
    let Some(Account { user_id, group_id }) = account else {
        return Ok(());
    };
    std::os::unix::fs::chown(path, Some(user_id), Some(group_id))
        .map_err(|error| PeerError::system("give postgres what is its own", error))
}

impl Account {
    /// Whom to become, if that is needed: the user `postgres`, for root.
    fn needed() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = std::fs::read_to_string("/etc/passwd")
            .map_err(|error| PeerError::system("read /etc/passwd", error))?;
        let account = users.lines().find_map(Self::of_postgres);
        account
            .map(Some)
            .ok_or_else(|| super::not_installed("the user postgres"))
    }

    fn of_postgres(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[..] {
            ["postgres", _, user, group, ..] => Some(Self {
                user_id: user.parse().ok()?,
                group_id: group.parse().ok()?,
            }),
            _ => None,
        }
    }
}

/// The folder with the programs of the newest version, which are not in `PATH`.
fn find_programs() -> Result<PathBuf> {
    let number = |path: &Path| -> Option<u32> { path.file_name()?.to_str()?.parse().ok() };
    let installed = std::fs::read_dir(INSTALLATION)
        .map_err(|_| super::not_installed("postgres"))?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((number(&path)?, path.join("bin")))
        })
        .filter(|(_, programs)| programs.join("postgres").is_file())
        .max();
    let (_, programs) = installed.ok_or_else(|| super::not_installed("postgres"))?;
    Ok(programs)
}

/// Whether a client is let in; while the server recovers it is not.
fn serves(address: SocketAddr) -> bool {
    let_in(address).is_ok_and(|answer| answer == b'R')
}

fn let_in(address: SocketAddr) -> std::io::Result<u8> {
    const VERSION: u32 = 3 << 16;
    let parameters = format!("user\0{USER}\0database\0{DATABASE}\0\0");
    let mut greeting = Vec::new();
    greeting.extend((8 + parameters.len() as u32).to_be_bytes());
    greeting.extend(VERSION.to_be_bytes());
    greeting.extend(parameters.as_bytes());
    let mut stream = super::connect(address, PROBE_TIMEOUT)?;
    stream.write_all(&greeting)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(answer[0])
}
