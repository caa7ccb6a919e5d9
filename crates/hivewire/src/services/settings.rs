//! What can be configured about services.

use listeners::Address;
use serde::{Deserialize, Serialize};
use web::edge::EdgeLimits;

/// How services are reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceSettings {
    /// Where they listen, once there is one.
    pub address: Address,
    /// Allows an address other than loopback although nothing is encrypted.
    pub allow_remote: bool,
    /// Further names under which they may be reached, such as that of a proxy.
    pub hosts: Vec<String>,
    /// Web pages of these origins may ask, besides those of the services themselves.
    pub origins: Vec<String>,
    /// What clients may take.
    pub limits: EdgeLimits,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            address: Address::loopback(8080),
            allow_remote: false,
            hosts: Vec::new(),
            origins: Vec::new(),
            limits: EdgeLimits::default(),
        }
    }
}
