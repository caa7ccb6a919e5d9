//! Nodes as the registry names them: each is a system with a `bootstrapperId` and an address.

use std::net::{IpAddr, SocketAddr};

use sha2::{Digest, Sha256};
use url::Url;

use crate::rest::app::Running;
use crate::rest::problem::Problem;

/// The place of whoever is asked for; also what a node that stands alone is called.
pub(super) const LOCALHOST: &str = "localhost";
/// Where a node takes workers, as it is written in `workersPaths`.
const ACTIVATOR_PATH: &str = "/activator";
/// Six bytes: few enough digits for a number of JavaScript, and enough that no two names share one.
const ID_BYTES: usize = 6;

/// A node.
#[derive(Clone, Debug)]
pub(super) struct System {
    pub name: String,
    /// Where it answers over HTTP.
    pub address: Option<SocketAddr>,
    pub lives: bool,
}

impl System {
    /// The `bootstrapperId`, which follows from the name.
    pub fn id(&self) -> String {
        let digest = Sha256::digest(self.name.as_bytes());
        let bytes = digest.iter().take(ID_BYTES);
        let id = bytes.fold(0_u64, |id, byte| (id << 8) | u64::from(*byte));
        id.to_string()
    }

    /// How it is written in `workersPaths`, seen from another node.
    fn path(&self) -> String {
        match self.address {
            Some(address) => format!("ws://{address}{ACTIVATOR_PATH}"),
            None => self.name.clone(),
        }
    }
}

/// All nodes that this one has heard of, itself among them.
pub(super) struct Systems {
    /// The name of this node, if it has one.
    pub me: Option<String>,
    all: Vec<System>,
}

impl Systems {
    pub fn of(running: &Running) -> Self {
        let me = running.deployments.agent();
        let me = me.map(|agent| agent.name().to_string());
        let known = running.deployments.nodes().unwrap_or_default();
        let system = |(member, lives): (control::Member, bool)| System {
            name: member.last.node,
            address: member.last.address,
            lives,
        };
        let mut all: Vec<System> = known.into_iter().map(system).collect();
        let own = me.as_deref().unwrap_or(LOCALHOST);
        match all.iter_mut().find(|system| system.name == own) {
            // Whoever answers lives, also if its heartbeats are late.
            Some(system) => system.lives = true,
            None => all.push(System {
                name: own.to_owned(),
                address: running.reached_at,
                lives: true,
            }),
        }
        Self { me, all }
    }

    /// Those that live.
    pub fn living(&self) -> impl Iterator<Item = &System> {
        self.all.iter().filter(|system| system.lives)
    }

    /// The node of this `bootstrapperId`, which may also be its name.
    pub fn find(&self, id: &str) -> Result<&System, Problem> {
        let mut by_name = self.all.iter().filter(|system| system.name == id);
        let mut by_id = self.all.iter().filter(|system| system.id() == id);
        let found = by_name.next().or_else(|| by_id.next());
        found.ok_or_else(|| {
            let known: Vec<String> = self
                .living()
                .map(|system| format!("{} ({})", system.id(), system.name))
                .collect();
            Problem::not_found(format!(
                "no node has the bootstrapperId {id:?}: there are {}",
                known.join(", ")
            ))
        })
    }

    /// The node that an entry of `workersPaths` names, in a request to the node `asked`.
    pub fn place(&self, entry: &str, asked: &System) -> Result<String, Problem> {
        if entry == LOCALHOST {
            return Ok(asked.name.clone());
        }
        if let Some(system) = self.all.iter().find(|system| system.name == entry) {
            return Ok(system.name.clone());
        }
        let address = activator_of(entry);
        let at = |system: &&System| address.is_some() && system.address == address;
        // The address of a node that is dead may be that of another one by now.
        let mut dead = self.all.iter().filter(|system| !system.lives);
        let found = self.living().find(at).or_else(|| dead.find(at));
        found.map(|system| system.name.clone()).ok_or_else(|| {
            let known: Vec<String> = self
                .living()
                .map(|system| format!("{} ({})", system.name, system.path()))
                .collect();
            Problem::bad_request(format!(
                "{entry:?} in workersPaths is no place: write localhost, or one of the nodes by its name or address: {}",
                known.join(", ")
            ))
        })
    }

    /// How a node is written in `workersPaths`, in an answer about the node `asked`.
    pub fn path(&self, node: &str, asked: &System) -> String {
        if node == asked.name {
            return LOCALHOST.to_owned();
        }
        let system = self.all.iter().find(|system| system.name == node);
        system.map_or_else(|| node.to_owned(), System::path)
    }
}

/// The address in `ws://host:port/activator`.
fn activator_of(entry: &str) -> Option<SocketAddr> {
    let url = Url::parse(entry).ok()?;
    if url.scheme() != "ws" || url.path() != ACTIVATOR_PATH {
        return None;
    }
    let ip: IpAddr = bare_host(&url)?.parse().ok()?;
    Some(SocketAddr::new(ip, url.port_or_known_default()?))
}

/// The host of an address, without brackets; `localhost` is the address that it stands for.
pub(super) fn bare_host(url: &Url) -> Option<String> {
    let host = url.host_str()?.to_lowercase();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(match host {
        LOCALHOST => "127.0.0.1".to_owned(),
        host => host.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(name: &str, address: &str, lives: bool) -> System {
        System {
            name: name.to_owned(),
            address: address.parse().ok(),
            lives,
        }
    }

    fn systems() -> Systems {
        Systems {
            me: Some("a".to_owned()),
            all: vec![
                system("a", "127.0.0.1:8000", true),
                system("b", "10.0.0.2:8000", true),
                system("gone", "10.0.0.2:8000", false),
                system("silent", "", true),
            ],
        }
    }

    #[test]
    fn ids_are_digits_and_follow_from_the_name() {
        let id = system("a", "", true).id();
        assert!(id.bytes().all(|digit| digit.is_ascii_digit()), "{id}");
        assert!(id.parse::<u64>().unwrap() < 1 << 48);
        assert_eq!(id, system("a", "10.0.0.1:1", false).id());
        assert_ne!(id, system("b", "", true).id());
    }

    #[test]
    fn a_node_is_found_by_id_and_by_name() {
        let systems = systems();
        let id = system("b", "", true).id();
        assert_eq!(systems.find(&id).unwrap().name, "b");
        assert_eq!(systems.find("b").unwrap().name, "b");
        assert!(systems.find("266393094").is_err());
    }

    #[test]
    fn places_are_names_addresses_and_the_node_itself() {
        let systems = systems();
        let asked = systems.find("b").unwrap();
        let place = |entry: &str| systems.place(entry, asked).ok();
        for (entry, node) in [
            ("localhost", "b"),
            ("a", "a"),
            ("silent", "silent"),
            ("ws://127.0.0.1:8000/activator", "a"),
            ("ws://localhost:8000/activator", "a"),
            ("ws://10.0.0.2:8000/activator", "b"),
        ] {
            assert_eq!(place(entry).as_deref(), Some(node), "{entry}");
        }
        for entry in [
            "",
            "c",
            "ws://10.0.0.2:8001/activator",
            "ws://10.0.0.2:8000/other",
            "wss://10.0.0.2:8000/activator",
            "ws://elsewhere.example:8000/activator",
        ] {
            assert_eq!(place(entry), None, "{entry}");
        }
        assert_eq!(systems.path("b", asked), "localhost");
        assert_eq!(systems.path("a", asked), "ws://127.0.0.1:8000/activator");
        assert_eq!(systems.path("silent", asked), "silent");
        assert_eq!(systems.path("forgotten", asked), "forgotten");
    }
}
