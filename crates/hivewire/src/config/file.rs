//! The configuration file as it is written.

use std::path::{Path, PathBuf};

use kernel::worker::InstanceLimits;
use listeners::{Address, GamqSettings, StompSettings, User};
use serde::{Deserialize, Serialize};

use super::{ConfigError, Overrides, keys};
use crate::alerts::AlertSettings;
use crate::cluster::NodeSettings;
use crate::deploy::{DeploySettings, PluginSettings};
use crate::logs::LogSettings;
use crate::rest::CONNECTIONS_MAX;
use crate::services::ServiceSettings;

/// Everything that may stand in the file. What does not stand there has its default.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// The folder for journal, token and components.
    pub data: PathBuf,
    /// Allows STOMP and gamq on addresses other than loopback although nothing is encrypted.
    pub allow_remote: bool,
    /// How many STOMP and gamq connections there may be at a time.
    pub connections_max: usize,
    /// Who may connect. As long as nobody stands here, anyone on this machine may.
    pub users: Vec<User>,
    /// What makes this one node among several.
    pub node: NodeSettings,
    /// How HTTP is served.
    pub http: HttpSettings,
    /// How services are reached.
    pub services: ServiceSettings,
    /// How STOMP is spoken.
    pub stomp: StompSettings,
    /// How gamq is spoken.
    pub gamq: GamqSettings,
    /// How queues and topics behave.
    pub broker: broker::Settings,
    /// How the journal is written.
    pub journal: JournalSettings,
    /// How workers run.
    pub workers: WorkerSettings,
    /// How components are fetched and watched.
    pub deploy: DeploySettings,
    /// What is watched, and who is told.
    pub alerts: AlertSettings,
    /// How plug-ins are kept and found.
    pub plugins: PluginSettings,
    /// What is logged, and how much of it is kept.
    pub logs: LogSettings,
}

impl Default for ConfigFile {
    fn default() -> Self {
        let listeners::Settings {
            stomp,
            gamq,
            allow_remote,
            users,
            connections_max,
        } = listeners::Settings::default();
        Self {
            data: "hivewire-data".into(),
            allow_remote,
            connections_max,
            users,
            node: NodeSettings::default(),
            http: HttpSettings::default(),
            services: ServiceSettings::default(),
            stomp,
            gamq,
            broker: broker::Settings::default(),
            journal: JournalSettings::default(),
            workers: WorkerSettings::default(),
            deploy: DeploySettings::default(),
            alerts: AlertSettings::default(),
            plugins: PluginSettings::default(),
            logs: LogSettings::default(),
        }
    }
}

/// How workers run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerSettings {
    /// Threads and timeouts.
    pub runtime: runtime::Settings,
    /// What components may use up together.
    pub components: wasm::Settings,
    /// What one instance may use up, if its deployment says nothing about it.
    pub limits: InstanceLimits,
}

/// How HTTP is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where it listens.
    pub address: Address,
    /// Allows an address other than loopback although nothing is encrypted.
    pub allow_remote: bool,
    /// Further names under which browsers may reach it, such as that of a proxy.
    pub hosts: Vec<String>,
    /// How many connections there may be at a time.
    pub connections_max: usize,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            address: Address::loopback(8000),
            allow_remote: false,
            hosts: Vec::new(),
            connections_max: CONNECTIONS_MAX,
        }
    }
}

/// How the journal is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JournalSettings {
    /// The size of a segment file.
    pub segment_bytes: u32,
    /// Whether an acknowledgement waits for the disk.
    pub sync: SyncSetting,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self {
            segment_bytes: journal::Options::default().segment_bytes,
            sync: SyncSetting::Fdatasync,
        }
    }
}

impl JournalSettings {
    /// The journal's options. Records shrink with the segments, for each must fit into one.
    pub(super) fn resolve(&self) -> journal::Options {
        let defaults = journal::Options::default();
        journal::Options {
            segment_bytes: self.segment_bytes,
            record_bytes_max: defaults.record_bytes_max.min(self.segment_bytes / 2),
            sync: match self.sync {
                SyncSetting::Fdatasync => journal::Sync::Fdatasync,
                SyncSetting::Off => journal::Sync::Off,
            },
            ..defaults
        }
    }
}

/// Whether an acknowledgement waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncSetting {
    /// It does: what was acknowledged survives loss of power.
    Fdatasync,
    /// It does not: loss of power loses acknowledged messages.
    Off,
}

impl ConfigFile {
    /// The same with what flags say instead.
    pub(super) fn with_flags(mut self, flags: &Overrides) -> Self {
        self.data = flags.data.clone().unwrap_or(self.data);
        self.allow_remote |= flags.allow_remote;
        self.http.address = flags.http.unwrap_or(self.http.address);
        self.http.allow_remote |= flags.allow_remote;
        self.services.allow_remote |= flags.allow_remote;
        self.services.address = flags.services.unwrap_or(self.services.address);
        self.stomp.address = flags.stomp.unwrap_or(self.stomp.address);
        self.gamq.address = flags.gamq.unwrap_or(self.gamq.address);
        self.node.apply(&flags.node);
        let prefetch_max = &mut self.workers.runtime.prefetch_max;
        *prefetch_max = flags.prefetch.unwrap_or(*prefetch_max);
        if let Some(filter) = &flags.log {
            self.logs.filter.clone_from(filter);
        }
        self
    }

    /// Checks the text of a file, which is named in errors.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let wrong = |error: toml::de::Error| ConfigError::Wrong {
            path: path.to_path_buf(),
            line: keys::line_of(text, error.span().map_or(0, |span| span.start)),
            problem: without_values(error.message()),
        };
        let table = toml::de::DeTable::parse(text).map_err(wrong)?;
        keys::check(path, text, table.get_ref())?;
        toml::from_str(text).map_err(wrong)
    }
}

/// What was found instead of what was expected may be a password in the wrong place.
pub(super) fn without_values(message: &str) -> String {
    match message.split_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid") => format!("expected {expected}"),
        _ => message.to_owned(),
    }
}
