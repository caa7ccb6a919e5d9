//! `messageQueuingSystemServer`: which bus is meant, and whether it is the one that this node uses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use listeners::Bound;
use url::Url;

use super::systems::{Systems, bare_host};
use crate::rest::app::Running;
use crate::rest::problem::Problem;

/// How a queuing system is written that is spoken to over WebSocket.
const QUEUING_SCHEME: &str = "ws";
const QUEUING_PATH: &str = "mqs";
/// What listens here and carries no messages.
const HTTP: &str = "http";
const TLS: &str = "tls";

/// An address under which a bus is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BusAddress {
    scheme: String,
    host: String,
    port: u16,
    /// The virtual host, if there is one.
    path: String,
}

impl BusAddress {
    fn of(url: &Url) -> Option<Self> {
        Some(Self {
            scheme: url.scheme().to_owned(),
            host: bare_host(url)?,
            port: url.port().or_else(|| usual_port(url.scheme()))?,
            path: url.path().trim_matches('/').to_owned(),
        })
    }

    fn new(scheme: &str, address: SocketAddr, path: &str) -> Self {
        Self {
            scheme: scheme.to_owned(),
            host: address.ip().to_string(),
            port: address.port(),
            path: path.to_owned(),
        }
    }

    /// Whether `given` means this one: in its own words, or in those of the registry.
    fn is_meant_by(&self, given: &Self) -> bool {
        let is_there = given.host == self.host && given.port == self.port;
        let in_its_words = given.scheme == self.scheme && given.path == self.path;
        let in_ours = given.scheme == QUEUING_SCHEME && given.path == QUEUING_PATH;
        is_there && (in_its_words || in_ours)
    }
}

impl fmt::Display for BusAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "{}://[{}]:{}", self.scheme, self.host, self.port)?,
            false => write!(f, "{}://{}:{}", self.scheme, self.host, self.port)?,
        }
        match self.path.is_empty() {
            true => Ok(()),
            false => write!(f, "/{}", self.path),
        }
    }
}

fn usual_port(scheme: &str) -> Option<u16> {
    match scheme {
        "stomp" => Some(61_613),
        "stomp+ssl" => Some(61_614),
        "amqp" => Some(5_672),
        "amqps" => Some(5_671),
        "ws" => Some(80),
        _ => None,
    }
}

/// Checks that what a request names is the bus that this node uses.
pub(super) fn check(running: &Running, systems: &Systems, given: &str) -> Result<(), Problem> {
    let known = known(running, systems);
    // A password in it must not come back in an answer, so it is not repeated.
    let address = Url::parse(given).ok();
    let address = address.as_ref().and_then(BusAddress::of);
    let is_known = address.is_some_and(|given| known.iter().any(|bus| bus.is_meant_by(&given)));
    if is_known {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(BusAddress::to_string).collect();
    Err(Problem::conflict(format!(
        "messageQueuingSystemServer is none that this node uses: leave it out, or name one of {}",
        known.join(", ")
    )))
}

/// All addresses under which the bus of this node is known.
fn known(running: &Running, systems: &Systems) -> Vec<BusAddress> {
    let joined = running.buses.iter().filter_map(BusAddress::of);
    let carries = |bound: &&Bound| bound.protocol != HTTP;
    let own = running.bound.iter().filter(carries);
    let own = own.flat_map(|bound| listening(bound, running.reached_at));
    // Nodes that hear each other share a bus, so each of them names it.
    let announced = systems.living().filter_map(|system| system.address);
    let announced = announced.map(|address| BusAddress::new(QUEUING_SCHEME, address, QUEUING_PATH));
    let mut known: Vec<BusAddress> = joined.chain(own).chain(announced).collect();
    known.dedup();
    known
}

/// The addresses of a listener. One that listens everywhere is reached by loopback, and from outside
/// as HTTP is.
fn listening(bound: &Bound, reached_at: Option<SocketAddr>) -> Vec<BusAddress> {
    let scheme = match bound.transport {
        TLS => format!("{}+ssl", bound.protocol),
        _ => bound.protocol.to_owned(),
    };
    let ip = bound.address.ip();
    let ips: Vec<IpAddr> = match ip.is_unspecified() {
        false => vec![ip],
        true => {
            let loopback = match ip {
                IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            };
            let outside = reached_at.map(|address| address.ip());
            outside.into_iter().chain([loopback]).collect()
        }
    };
    let port = bound.address.port();
    let address = |ip| BusAddress::new(&scheme, SocketAddr::new(ip, port), "");
    ips.into_iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> BusAddress {
        BusAddress::of(&Url::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn a_bus_is_meant_in_its_own_words_and_in_those_of_the_registry() {
        let bus = address("stomp://10.0.0.1:61613");
        for given in [
            "stomp://10.0.0.1:61613",
            "stomp://10.0.0.1",
            "stomp://node:secret@10.0.0.1:61613/",
            "ws://10.0.0.1:61613/mqs",
        ] {
            assert!(bus.is_meant_by(&address(given)), "{given}");
        }
        for given in [
            "stomp://10.0.0.1:61614",
            "stomp://10.0.0.2:61613",
            "amqp://10.0.0.1:61613",
            "ws://10.0.0.1:61613",
            "ws://10.0.0.1:61613/activator",
            "stomp://10.0.0.1:61613/other",
        ] {
            assert!(!bus.is_meant_by(&address(given)), "{given}");
        }
        let local = address("stomp://127.0.0.1:1");
        assert!(local.is_meant_by(&address("stomp://localhost:1")));
        let virtual_host = address("amqp://h:5672/shop");
        assert!(virtual_host.is_meant_by(&address("amqp://h/shop")));
        assert!(!virtual_host.is_meant_by(&address("amqp://h")));
    }

    #[test]
    fn a_listener_on_all_addresses_has_two() {
        let bound = |transport, address: &str| Bound {
            protocol: "stomp",
            transport,
            address: address.parse().unwrap(),
        };
        let shown = |bound: &Bound| {
            let reached_at = "10.0.0.1:8000".parse().ok();
            let addresses = listening(bound, reached_at);
            let texts: Vec<String> = addresses.iter().map(BusAddress::to_string).collect();
            texts.join(" ")
        };
        assert_eq!(shown(&bound("tcp", "[::1]:1")), "stomp://[::1]:1");
        assert_eq!(
            shown(&bound("tls", "0.0.0.0:2")),
            "stomp+ssl://10.0.0.1:2 stomp+ssl://127.0.0.1:2"
        );
    }
}
