//! What the user can set about deployments.

use kernel::worker::InstanceLimits;
use serde::{Deserialize, Serialize};

use super::plugins::PluginSettings;

/// How components are fetched and watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeploySettings {
    /// Allows URIs that lead into this machine or its network.
    pub allow_private_sources: bool,
    /// How large a component may be. What `workers.components` says is taken.
    #[serde(skip)]
    pub component_bytes_max: u64,
    /// What one instance may use up, if its deployment says nothing about it. What
    /// `workers.limits` says is taken.
    #[serde(skip)]
    pub instance_limits: InstanceLimits,
    /// How plug-ins are kept and found. What `plugins` says is taken.
    #[serde(skip)]
    pub plugins: PluginSettings,
    /// How long one fetch may take.
    pub fetch_seconds_max: u64,
    /// How often a URI is looked at.
    pub watch_interval_ms: u64,
}

impl Default for DeploySettings {
    fn default() -> Self {
        Self {
            allow_private_sources: false,
            component_bytes_max: 64 << 20,
            instance_limits: InstanceLimits::default(),
            plugins: PluginSettings::default(),
            fetch_seconds_max: 60,
            watch_interval_ms: 5_000,
        }
    }
}
