//! What makes a process one node among several: its name, and the bus and the store that it shares
//! with the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bus::engines::{AmqpBus, AmqpSettings, StompBus, StompSettings};
use bus::store::{PostgresSettings, PostgresStore};
use bus::{Bus, BusError, StoredBus};
use kernel::Name;
use serde::{Deserialize, Serialize};
use url::Url;

/// How long one attempt to reach the bus may take before that is told.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait between two attempts that fail at once.
const PAUSE: Duration = Duration::from_secs(1);
/// Where the kernel says what the machine is called.
const MACHINE_NAME: &str = "/proc/sys/kernel/hostname";
/// A document that is asked for only to see whether there are any.
const PROBE: &str = "hivewire.probe";

/// What makes a process one node among several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NodeSettings {
    /// Its name. Without one the node stands alone; no two nodes have the same.
    pub name: Option<String>,
    /// What distinguishes it, each as `key=value`.
    pub labels: Vec<String>,
    /// Where the bus is that the nodes share; several are tried in turn. Without one the node has
    /// a broker of its own, which others can join.
    pub bus: Vec<String>,
    /// Where the store is that the nodes share, if the bus keeps no state.
    pub state: Option<String>,
    /// How many members a durable queue of RabbitMQ gets, if the bus is AMQP. From three on, what is
    /// acknowledged survives the loss of a machine.
    pub quorum_members: u8,
    /// How long sessions, turns and hand-overs may take to end when the node stops.
    pub drain_seconds_max: u64,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            name: None,
            labels: Vec::new(),
            bus: Vec::new(),
            state: None,
            quorum_members: 1,
            drain_seconds_max: 5,
        }
    }
}

/// Why a process cannot be a node among several.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The name does not serve.
    #[error("{name:?} cannot be the name of a node: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A label is no label.
    #[error("the label {0:?} does not serve: write key=value")]
    Label(String),
    /// A node that shares a bus needs a name.
    #[error("a node on a bus that others share needs a name: give it one with --name")]
    NoName,
    /// An address that nothing speaks.
    #[error(
        "the address of the bus does not serve: it begins with stomp://, stomp+ssl://, amqp:// or amqps://"
    )]
    Scheme,
    /// Several addresses of different kinds.
    #[error("all addresses of the bus must begin in the same way: they are tried in turn")]
    Mixed,
    /// The store is none.
    #[error("the address of the store does not serve: it begins with postgres://")]
    Store,
    /// An engine without a store.
    #[error(
        "{engine} keeps no state for the nodes that share it: name a shared store with --state postgres://USER@HOST/DATABASE"
    )]
    NoStore {
        /// The engine.
        engine: String,
    },
    /// The bus says no.
    #[error(transparent)]
    Bus(#[from] BusError),
}

impl NodeSettings {
    /// The name, checked; none if the node stands alone.
    pub fn checked_name(&self) -> Result<Option<Name>, NodeError> {
        let Some(text) = &self.name else {
            return match self.bus.is_empty() {
                true => Ok(None),
                false => Err(NodeError::NoName),
            };
        };
        let name = Name::new(text).map_err(|error| NodeError::Name {
            name: text.clone(),
            reason: error.to_string(),
        })?;
        Ok(Some(name))
    }

    /// Takes over what flags say.
    pub(crate) fn apply(&mut self, flags: &Self) {
        if flags.name.is_some() {
            self.name.clone_from(&flags.name);
        }
        if flags.state.is_some() {
            self.state.clone_from(&flags.state);
        }
        if !flags.labels.is_empty() {
            self.labels.clone_from(&flags.labels);
        }
        if !flags.bus.is_empty() {
            self.bus.clone_from(&flags.bus);
        }
    }

    /// The addresses of the bus without users, passwords and files.
    pub(crate) fn shown_buses(&self) -> Vec<Url> {
        let urls = self.bus.iter().filter_map(|text| Url::parse(text).ok());
        let shown = urls.map(|mut url| {
            // Without a host there are neither users nor passwords to remove.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.set_query(None);
            url.set_fragment(None);
            url
        });
        shown.collect()
    }

    /// The labels by their keys.
    pub fn checked_labels(&self) -> Result<BTreeMap<String, String>, NodeError> {
        self.labels.iter().map(|label| label_of(label)).collect()
    }
}

/// What this machine is called, if it is called anything.
pub(crate) fn machine_name() -> Option<String> {
    let name = std::fs::read_to_string(MACHINE_NAME).unwrap_or_default();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// A label as it is written.
pub(crate) fn label_of(text: &str) -> Result<(String, String), NodeError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(NodeError::Label(text.to_owned())),
    }
}

/// Connects to the bus and the store that the nodes share; must be called within a tokio runtime.
pub(crate) fn connect(settings: &NodeSettings, name: &Name) -> Result<Arc<dyn Bus>, NodeError> {
    let addresses = settings.bus.join(",");
    let all_begin_with = |schemes: &[&str]| {
        let is_one = |url: &String| schemes.iter().any(|scheme| url.starts_with(scheme));
        settings.bus.iter().all(is_one)
    };
    let engine: Arc<dyn Bus> = if all_begin_with(&["stomp://", "stomp+ssl://"]) {
        let mut stomp = StompSettings::new(addresses);
        if settings.state.is_none() {
            stomp.node = Some(name.clone());
        }
        Arc::new(StompBus::start(&stomp)?)
    } else if all_begin_with(&["amqp://", "amqps://"]) {
        if settings.state.is_none() {
            return Err(NodeError::NoStore {
                engine: "RabbitMQ".to_owned(),
            });
        }
        let mut amqp = AmqpSettings::new(addresses);
        amqp.quorum_members = settings.quorum_members;
        Arc::new(AmqpBus::start(&amqp)?)
    } else {
        let known = ["stomp://", "stomp+ssl://", "amqp://", "amqps://"];
        return Err(match all_begin_with(&known) {
            true => NodeError::Mixed,
            false => NodeError::Scheme,
        });
    };
    let Some(state) = &settings.state else {
        return Ok(engine);
    };
    if !["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| state.starts_with(scheme))
    {
        return Err(NodeError::Store);
    }
    let store = PostgresStore::start(&PostgresSettings::new(state))?;
    Ok(Arc::new(StoredBus::new(engine, Arc::new(store))))
}

/// Waits until the bus serves, and refuses one that keeps no state.
pub(crate) async fn reach(bus: &dyn Bus) -> Result<(), NodeError> {
    let probe = Name::new(PROBE).expect("it is a name");
    loop {
        match bus.document(&probe, REACH_TIMEOUT).await {
            Ok(_) => return Ok(()),
            Err(BusError::Unsupported { engine, .. }) => {
                return Err(NodeError::NoStore {
                    engine: engine.to_owned(),
                });
            }
            Err(error) if !error.can_retry() => return Err(error.into()),
            Err(error) => {
                tracing::warn!(%error, "the bus cannot be reached; trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(bus: &[&str], state: Option<&str>) -> NodeSettings {
        NodeSettings {
            name: Some("a".to_owned()),
            bus: bus.iter().map(|&url| url.to_owned()).collect(),
            state: state.map(str::to_owned),
            ..NodeSettings::default()
        }
    }

    #[tokio::test]
    async fn what_does_not_serve_is_refused_with_what_to_do() {
        let name = Name::new("a").unwrap();
        for (bus, state, expected) in [
            (&["http://h"][..], None, "begins with stomp://"),
            (&["amqp://h"], None, "--state postgres://"),
            (&["amqp://h", "stomp://h"], None, "in the same way"),
            (&["stomp://h"], Some("mysql://h"), "begins with postgres://"),
        ] {
            let error = connect(&settings(bus, state), &name).err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn buses_are_shown_without_secrets() {
        let node = settings(
            &["stomp://node:se%20cret@h:1?ca=/x", "amqp://u:secret@h/v"],
            None,
        );
        let shown: Vec<String> = node.shown_buses().iter().map(Url::to_string).collect();
        assert_eq!(shown, ["stomp://h:1", "amqp://h/v"]);
    }

    #[test]
    fn names_and_labels_are_checked() {
        let mut node = settings(&["stomp://h"], None);
        assert_eq!(node.checked_name().unwrap().unwrap().as_str(), "a");
        node.labels = vec!["zone=a=b".to_owned()];
        assert_eq!(node.checked_labels().unwrap()["zone"], "a=b");
        node.labels = vec!["zone".to_owned()];
        assert!(node.checked_labels().is_err());
        node.name = None;
        assert!(matches!(node.checked_name(), Err(NodeError::NoName)));
        node.bus.clear();
        assert!(node.checked_name().unwrap().is_none());
    }
}
