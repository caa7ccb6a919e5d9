//! Configuration in two steps: the file as it was written, checked key by key, and then what the
//! program goes by, with defaults filled in and flags applied.

mod file;
mod keys;
pub(crate) mod live;

use std::fmt;
use std::path::{Path, PathBuf};

use listeners::Address;
use serde_json::Value;

use crate::alerts::{AlertError, AlertSettings, Plan};
use crate::cluster::NodeSettings;
use crate::deploy::DeploySettings;
use crate::logs::{LogError, LogSettings};
use crate::services::ServiceSettings;

pub use self::file::{ConfigFile, HttpSettings, JournalSettings, SyncSetting, WorkerSettings};
pub use self::keys::{KnownKey, known_keys};
pub use self::live::KeepError;

/// The file that is read from the current folder if it is there and no other is named.
pub const FILE_NAME: &str = "hivewire.toml";

/// Set to `off`, it switches syncing off: only for tests that must see loss.
pub const UNSAFE_SYNC_VARIABLE: &str = "HIVEWIRE_UNSAFE_SYNC";

/// A configuration file larger than this is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("{} has more than {FILE_BYTES_MAX} bytes: is it a configuration?", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A key that does not exist.
    #[error(
        "{}, line {line}: there is no key `{key}`; did you mean `{nearest}`?", .path.display()
    )]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key with its section.
        key: String,
        /// The known key that looks most like it.
        nearest: String,
    },
    /// Something else is wrong in the file.
    #[error("{}, line {line}: {problem}", .path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, without the values that stand there: one of them may be a password.
        problem: String,
    },
    /// What is set about alerts makes no sense.
    #[error(transparent)]
    Alerts(#[from] AlertError),
    /// What is set about logs makes no sense.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The environment variable has a value that means nothing.
    #[error("{UNSAFE_SYNC_VARIABLE} can only be `off`: unset it to sync, as is right")]
    UnsafeSync,
}

/// What flags on the command line say; they win over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The data folder.
    pub data: Option<PathBuf>,
    /// Where HTTP is served.
    pub http: Option<Address>,
    /// Where services are reached.
    pub services: Option<Address>,
    /// Where STOMP is served.
    pub stomp: Option<Address>,
    /// Where gamq is served.
    pub gamq: Option<Address>,
    /// Allows addresses other than loopback, for all listeners.
    pub allow_remote: bool,
    /// What makes this one node among several.
    pub node: NodeSettings,
    /// How many messages of one queue may be on their way.
    pub prefetch: Option<u32>,
    /// What the node logs about itself.
    pub log: Option<String>,
}

impl Overrides {
    /// The keys that flags decide.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        let given = [
            ("data", self.data.is_some()),
            ("http.address", self.http.is_some()),
            ("stomp.address", self.stomp.is_some()),
            ("gamq.address", self.gamq.is_some()),
            ("allow_remote", self.allow_remote),
            ("http.allow_remote", self.allow_remote),
            ("services.address", self.services.is_some()),
            ("services.allow_remote", self.allow_remote),
            ("node.name", self.node.name.is_some()),
            ("node.labels", !self.node.labels.is_empty()),
            ("node.bus", !self.node.bus.is_empty()),
            ("node.state", self.node.state.is_some()),
            (PREFETCH_KEY, self.prefetch.is_some()),
            (LOG_KEY, self.log.is_some()),
        ];
        let given = given.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(key, _)| key).collect()
    }

    /// Something else decides about this key. Only those that can change while a node runs can.
    pub(crate) fn forget(&mut self, key: &str) {
        match key {
            PREFETCH_KEY => self.prefetch = None,
            LOG_KEY => self.log = None,
            _ => {}
        }
    }
}

const PREFETCH_KEY: &str = "workers.runtime.prefetch_max";
const LOG_KEY: &str = "logs.filter";

/// What the program goes by.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder.
    pub data: PathBuf,
    /// What makes this one node among several.
    pub node: NodeSettings,
    /// How HTTP is served.
    pub http: HttpSettings,
    /// How services are reached.
    pub services: ServiceSettings,
    /// How the message protocols are served.
    pub listeners: listeners::Settings,
    /// How queues and topics behave.
    pub broker: broker::Settings,
    /// How the journal is written.
    pub journal: journal::Options,
    /// How workers run.
    pub workers: WorkerSettings,
    /// How components are fetched and watched.
    pub deploy: DeploySettings,
    /// What is watched, and who is told.
    pub alerts: AlertSettings,
    /// What is logged, and how much of it is kept.
    pub logs: LogSettings,
    /// Where all this comes from.
    pub sources: Sources,
}

/// Where a configuration comes from. No `Debug` of what was written: passwords stand there.
#[derive(Clone)]
pub struct Sources {
    /// The file, as it was written.
    pub(crate) written: Value,
    /// The flags.
    pub(crate) overrides: Overrides,
}

impl fmt::Debug for Sources {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sources(…)")
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::resolve(ConfigFile::default(), &Overrides::default())
    }
}

impl Config {
    /// Reads the named file or, without one, [`FILE_NAME`] if it is there; then applies `overrides`
    /// and the environment.
    pub fn load(named: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let path = named.unwrap_or(Path::new(FILE_NAME));
        let text = match named.is_some() || path.exists() {
            true => read(path)?,
            false => String::new(),
        };
        let mut config = Self::parse(path, &text, overrides)?;
        Plan::new(&config.alerts)?;
        config.logs.check()?;
        match std::env::var_os(UNSAFE_SYNC_VARIABLE) {
            None => {}
            Some(value) if value == "off" => config.journal.sync = journal::Sync::Off,
            Some(_) => return Err(ConfigError::UnsafeSync),
        }
        Ok(config)
    }

    /// Understands the text of a file, which is named in errors, and applies flags.
    pub(crate) fn parse(
        path: &Path,
        text: &str,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::resolve(ConfigFile::parse(path, text)?, overrides);
        let written = toml::from_str(text);
        config.sources.written = written.unwrap_or_else(|_| Value::Object(Default::default()));
        Ok(config)
    }

    /// Fills in what follows from other values and applies flags.
    pub fn resolve(file: ConfigFile, overrides: &Overrides) -> Self {
        let ConfigFile {
            data,
            allow_remote,
            connections_max,
            users,
            node,
            http,
            services,
            stomp,
            gamq,
            broker,
            journal,
            mut workers,
            mut deploy,
            alerts,
            plugins,
            logs,
        } = file.with_flags(overrides);
        let cache = workers.components.cache_folder.take();
        workers.components.cache_folder = Some(cache.unwrap_or_else(|| data.join("cache")));
        deploy.plugins = plugins;
        deploy.instance_limits = workers.limits.clone();
        deploy.component_bytes_max = workers.components.component_bytes_max as u64;
        Self {
            data,
            node,
            http,
            services,
            listeners: listeners::Settings {
                stomp,
                gamq,
                allow_remote,
                users,
                connections_max,
            },
            broker,
            journal: journal.resolve(),
            workers,
            deploy,
            alerts,
            logs,
            sources: Sources {
                written: Value::Object(Default::default()),
                overrides: overrides.clone(),
            },
        }
    }
}

fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable {
        path: path.to_path_buf(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ConfigError::TooLarge {
            path: path.to_path_buf(),
        });
    }
    std::fs::read_to_string(path).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("test.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn an_empty_file_gives_the_defaults() {
        let config = Config::resolve(parse("").unwrap(), &Overrides::default());
        assert_eq!(config.data, Path::new("hivewire-data"));
        assert_eq!(config.http.address, Address::loopback(8000));
        assert_eq!(config.listeners, listeners::Settings::default());
        assert_eq!(config.journal.sync, journal::Sync::Fdatasync);
    }

    #[test]
    fn every_section_is_read() {
        let text = r#"
            data = "here"
            allow_remote = true
            [[users]]
            name = "alice"
            password = "wonderland"
            [[users]]
            name = "hive2"
            password = "honey"
            node = true
            [node]
            name = "a"
            labels = ["zone=1"]
            [http]
            address = "off"
            hosts = ["hive.example"]
            [services]
            address = "off"
            origins = ["https://front.example"]
            [services.limits]
            body_bytes_max = 5
            [stomp]
            address = "127.0.0.1:1"
            [gamq]
            body_bytes_max = 5
            [broker]
            names_max = 7
            [[broker.queues]]
            name = "orders.*"
            durability = "durable"
            tries_max = 2
            [journal]
            segment_bytes = 1048576
            sync = "off"
            [workers.runtime]
            turn_threads = 3
            [workers.components]
            instances_max = 9
            component_bytes_max = 77
            [workers.limits]
            call_ms_max = 8
            [deploy]
            allow_private_sources = true
            [alerts]
            group_wait_seconds = 3
            [[alerts.rules]]
            name = "slow"
            kind = "expression"
            expression = "hivewire_queues > 5"
            [[alerts.webhooks]]
            url = "https://example.org/"
            bearer = "hush"
            [[alerts.emails]]
            host = "mail.example.org"
            tls = "tls"
            from = "hive@example.org"
            to = ["a@example.org"]
            [logs]
            files_max = 3
            [plugins]
            versions_max = 3
            [[plugins.repositories]]
            name = "shelf"
            location = "/srv/plugins"
            [[plugins.repositories]]
            name = "other"
            location = "http://hive.example:8000"
            token = "honey"
        "#;
        let config = Config::resolve(parse(text).unwrap(), &Overrides::default());
        assert_eq!(config.node.name.as_deref(), Some("a"));
        assert_eq!(config.node.labels, ["zone=1"]);
        assert_eq!(config.http.address, Address::Off);
        assert_eq!(config.http.hosts, ["hive.example"]);
        assert!(config.listeners.allow_remote);
        assert_eq!(config.listeners.users[0].name, "alice");
        assert!(!config.listeners.users[0].node && config.listeners.users[1].node);
        assert_eq!(config.listeners.gamq.body_bytes_max, 5);
        assert_eq!(config.broker.for_queue("orders.new").tries_max, 2);
        assert_eq!(config.journal.segment_bytes, 1 << 20);
        assert!(config.journal.record_bytes_max < 1 << 20);
        assert_eq!(config.workers.runtime.turn_threads, 3);
        assert_eq!(config.workers.components.instances_max, 9);
        assert_eq!(config.workers.limits.call_ms_max, 8);
        assert!(config.deploy.allow_private_sources);
        assert_eq!(config.deploy.component_bytes_max, 77);
        assert_eq!(config.alerts.group_wait_seconds, 3);
        assert_eq!(config.alerts.emails[0].to, ["a@example.org"]);
        assert!(!format!("{config:?}").contains("hush"));
        assert!(Plan::new(&config.alerts).is_ok());
        assert_eq!(config.logs.files_max, 3);
        assert_eq!(config.deploy.plugins.versions_max, 3);
        assert_eq!(config.deploy.plugins.repositories[1].name, "other");
        let cache = config.workers.components.cache_folder;
        assert_eq!(cache.as_deref(), Some(Path::new("here/cache")));
        assert_eq!(config.journal.sync, journal::Sync::Off);
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_one() {
        for (text, expected) in [
            ("\nadress = 1", "line 2: there is no key `adress`"),
            ("[http]\nadress = \"off\"", "did you mean `http.address`?"),
            ("[htttp]\nx = 1", "did you mean `http`?"),
            ("[gamq]\nbody_byte_max = 1", "`gamq.body_bytes_max`?"),
            (
                "[[broker.queues]]\nname = \"a\"\ntrys_max = 1",
                "line 3: there is no key `broker.queues.trys_max`; did you mean `broker.queues.tries_max`?",
            ),
            (
                "[[users]]\nname=\"a\"\npasword = \"b\"",
                "`users.password`?",
            ),
            (
                "[http]\nsegment_bytes = 5",
                "did you mean `journal.segment_bytes`?",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_wrong_value_is_refused_without_being_shown() {
        let error = parse("data = \"x\"\nusers = \"alice:wonderland\"").unwrap_err();
        assert!(
            error.contains("line 2") && !error.contains("wonderland"),
            "{error}"
        );
        let error = parse("[http]\naddress = \"nowhere\"").unwrap_err();
        assert!(
            error.contains("line 2") && error.contains("is no address"),
            "{error}"
        );
        let error = parse("[journal]\nsync = \"never\"").unwrap_err();
        assert!(error.contains("fdatasync"), "{error}");
        let error = parse("[journal\n").unwrap_err();
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = parse("data = \"a\"\n[stomp]\naddress = \"off\"").unwrap();
        let overrides = Overrides {
            data: Some("b".into()),
            stomp: Some(Address::loopback(1)),
            ..Overrides::default()
        };
        let config = Config::resolve(file, &overrides);
        assert_eq!(config.data, Path::new("b"));
        assert_eq!(config.listeners.stomp.address, Address::loopback(1));
    }
}
