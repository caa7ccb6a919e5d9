//! RabbitMQ with its STOMP plug-in, from Debian's `rabbitmq-server`.
//!
//! The packaged start script changes to the user `rabbitmq` and to the machine's own data; here
//! the script below it is called directly, as the present user, with every path, port, cookie
//! and name of its own, so that many nodes can run beside each other and beside a packaged one.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use memchr::memmem;
use tempfile::TempDir;

use super::process::Process;
use super::{Certificate, PeerError, Result};

const READY_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// Where the node keeps its data, within its directory.
const DATA_DIRECTORY: &str = "data";
const INSTALLATION: &str = "/usr/lib/rabbitmq/lib";

/// Numbers the nodes of this process, since node names must differ.
static NODE_COUNT: AtomicU32 = AtomicU32::new(0);

/// A RabbitMQ node of its own. Dropping it ends the node and removes its data.
///
/// Users and passwords are `guest` and `guest`.
#[derive(Debug)]
pub struct RabbitMq {
    // Declared in this order since fields drop in it: node, port mapper, data.
    node: Option<Process>,
    _port_mapper: Process,
    directory: TempDir,
    settings: Settings,
}

#[derive(Debug)]
struct Settings {
    script: PathBuf,
    node_name: String,
    amqp: SocketAddr,
    stomp: SocketAddr,
    distribution: SocketAddr,
    port_mapper: SocketAddr,
    encrypted: Option<Encrypted>,
}

#[derive(Debug)]
struct Encrypted {
    amqp: SocketAddr,
    stomp: SocketAddr,
    certificate: Certificate,
}

impl Encrypted {
    fn choose(certificate: &Certificate) -> Result<Self> {
        let [amqp, stomp] = super::free_addresses()?;
        let certificate = certificate.clone();
        Ok(Self {
            amqp,
            stomp,
            certificate,
        })
    }

    fn configuration(&self) -> String {
        let Certificate {
            authority,
            certificate,
            key,
        } = &self.certificate;
        format!(
            "listeners.ssl.1 = {}\nstomp.listeners.ssl.1 = {}\nssl_options.cacertfile = {}\n\
             ssl_options.certfile = {}\nssl_options.keyfile = {}\n",
            self.amqp,
            self.stomp,
            authority.display(),
            certificate.display(),
            key.display()
        )
    }
}

impl RabbitMq {
    /// Starts a node on free ports and waits until it accepts AMQP and STOMP clients.
    pub fn start() -> Result<Self> {
        super::with_attempts(|| Self::start_once(None))
    }

    /// As before, and with ports where both are encrypted.
    pub fn start_encrypted(certificate: &Certificate) -> Result<Self> {
        super::with_attempts(|| Self::start_once(Some(certificate)))
    }

    fn start_once(certificate: Option<&Certificate>) -> Result<Self> {
        let settings = Settings::choose(certificate)?;
        let directory = super::data_directory("rabbitmq")?;
        settings.write(directory.path())?;
        let mut port_mapper = settings.start_port_mapper(directory.path())?;
        super::wait_until_ready(&mut port_mapper, READY_TIMEOUT, || {
            super::connect(settings.port_mapper, super::PROBE_TIMEOUT).is_ok()
        })?;
        let mut rabbitmq = Self {
            node: None,
            _port_mapper: port_mapper,
            directory,
            settings,
        };
        rabbitmq.restart()?;
        Ok(rabbitmq)
    }

    /// The address for AMQP 0-9-1 clients, with user, password and virtual host.
    pub fn amqp_uri(&self) -> String {
        format!("amqp://guest:guest@{}/%2f", self.settings.amqp)
    }

    /// Where AMQP 0-9-1 clients connect.
    pub fn amqp_address(&self) -> SocketAddr {
        self.settings.amqp
    }

    /// Where STOMP clients connect.
    pub fn stomp_address(&self) -> SocketAddr {
        self.settings.stomp
    }

    /// Where AMQP and STOMP clients connect to speak encrypted, if they can.
    pub fn encrypted_addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let encrypted = self.settings.encrypted.as_ref()?;
        Some((encrypted.amqp, encrypted.stomp))
    }

    /// The directory that holds the node's data, settings and logs.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The node's process id, or nothing while it is stopped.
    pub fn process_id(&self) -> Option<u32> {
        self.node.as_ref().map(Process::id)
    }

    /// Whether the node has written down that there is a queue of this name.
    ///
    /// It answers that a durable queue is there before that: what it wrote to its log of changes
    /// waits in its memory for up to two seconds. A crash until then loses the queue with all
    /// that was confirmed in it.
    pub fn has_written_queue(&self, name: &str) -> io::Result<bool> {
        let database = self
            .directory()
            .join(DATA_DIRECTORY)
            .join(&self.settings.node_name);
        for entry in fs::read_dir(database)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if !matches!(extension, Some("LOG" | "DCD" | "DCL")) {
                continue;
            }
            match fs::read(&path) {
                Ok(bytes) if memmem::find(&bytes, name.as_bytes()).is_some() => return Ok(true),
                // The node takes its files away when it has put them together.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Ends the node at once (SIGKILL), as a crash would, and keeps its data.
    pub fn kill(&mut self) {
        self.node = None;
    }

    /// Ends the node in good order and keeps its data.
    pub fn stop_app(&mut self) -> Result<()> {
        match self.node.take() {
            Some(node) => node.terminate(STOP_TIMEOUT),
            None => Ok(()),
        }
    }

    /// Starts the node on the same data and ports, ending it first if it still runs, and waits
    /// until it accepts clients.
    pub fn restart(&mut self) -> Result<()> {
        self.stop_app()?;
        let mut node = self.settings.start_node(self.directory.path())?;
        super::wait_until_ready(&mut node, READY_TIMEOUT, || {
            accepts_amqp(self.settings.amqp) && super::accepts_stomp(self.settings.stomp)
        })?;
        self.node = Some(node);
        Ok(())
    }

    /// The installed version, such as `3.10.8`.
    pub fn version() -> Result<String> {
        let script = find_script()?;
        let home = script.parent().and_then(Path::parent);
        Ok(home
            .and_then(Path::file_name)
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix("rabbitmq_server-"))
            .unwrap_or("of unknown version")
            .to_owned())
    }
}

impl Settings {
    fn choose(certificate: Option<&Certificate>) -> Result<Self> {
        let [amqp, stomp, distribution, port_mapper] = super::free_addresses()?;
        let number = NODE_COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            script: find_script()?,
            node_name: format!("hivewire-{}-{number}@localhost", std::process::id()),
            amqp,
            stomp,
            distribution,
            port_mapper,
            encrypted: certificate.map(Encrypted::choose).transpose()?,
        })
    }

    fn write(&self, directory: &Path) -> Result<()> {
        let home = directory.join("home");
        fs::create_dir(&home)
            .map_err(|error| PeerError::system(format!("make {}", home.display()), error))?;
        super::write_file(&directory.join("enabled_plugins"), "[rabbitmq_stomp].\n")?;
        let mut configuration = format!(
            "listeners.tcp.1 = {}\nstomp.listeners.tcp.1 = {}\nlog.file.level = warning\n",
            self.amqp, self.stomp
        );
        if let Some(encrypted) = &self.encrypted {
            configuration.push_str(&encrypted.configuration());
        }
        super::write_file(&directory.join("rabbitmq.conf"), &configuration)
    }

    /// Starts Erlang's port mapper as a child; the node would leave one running for ever.
    fn start_port_mapper(&self, directory: &Path) -> Result<Process> {
        let mut command = Command::new(super::find_program("epmd")?);
        command
            .args(["-port", &self.port_mapper.port().to_string()])
            .args(["-address", &self.port_mapper.ip().to_string()]);
        Process::spawn("epmd", command, &directory.join("epmd-output"), None)
    }

    fn start_node(&self, directory: &Path) -> Result<Process> {
        let mut command = Command::new("/bin/sh");
        command
            .arg(&self.script)
            .current_dir(directory)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            // Erlang keeps its cookie here.
            .env("HOME", directory.join("home"))
            // Makes the script become the node instead of its parent, so that its id is ours.
            .env("detached", "true")
            .env("ERL_EPMD_PORT", self.port_mapper.port().to_string())
            .env("ERL_EPMD_ADDRESS", self.port_mapper.ip().to_string())
            .env("RABBITMQ_NODENAME", &self.node_name)
            .env("RABBITMQ_DIST_PORT", self.distribution.port().to_string())
            .env(
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
            );
        for (variable, file) in [
            ("RABBITMQ_BASE", ""),
            ("RABBITMQ_MNESIA_BASE", DATA_DIRECTORY),
            ("RABBITMQ_LOG_BASE", "log"),
            ("RABBITMQ_CONFIG_FILE", "rabbitmq.conf"),
            ("RABBITMQ_CONF_ENV_FILE", "no-such-file"),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", "no-such-file"),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", "enabled_plugins"),
            ("RABBITMQ_PLUGINS_EXPAND_DIR", "plugins"),
            ("RABBITMQ_FEATURE_FLAGS_FILE", "feature_flags"),
            ("RABBITMQ_PID_FILE", "pid"),
        ] {
            command.env(variable, directory.join(file));
        }
        let output = directory.join("output");
        Process::spawn("rabbitmq-server", command, &output, Some(directory))
    }
}

fn find_script() -> Result<PathBuf> {
    let installed = fs::read_dir(INSTALLATION)
        .map_err(|_| super::not_installed("rabbitmq-server"))?
        .filter_map(|entry| Some(entry.ok()?.path().join("sbin/rabbitmq-server")))
        .filter(|script| script.is_file())
        .max();
    installed.ok_or_else(|| super::not_installed("rabbitmq-server"))
}

fn accepts_amqp(address: SocketAddr) -> bool {
    super::exchange(address, b"AMQP\x00\x00\x09\x01", 1).is_ok_and(|answer| answer == [1])
}
