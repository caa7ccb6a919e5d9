//! A machine of its own for a process, as far as the network is concerned: a network namespace with
//! one cable to this one, which can be pulled. Needs root.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::{Context, Result, bail};

/// Several test processes may run at a time; each takes networks of its own.
const NETWORKS_MAX: u32 = 250;

/// Numbers the networks of this process.
static NEXT: AtomicU8 = AtomicU8::new(1);

/// A namespace and its cable. Dropping it removes both.
pub struct Network {
    name: String,
    /// This end of the cable.
    here: Ipv4Addr,
    /// Its other end.
    there: Ipv4Addr,
}

/// The direction in which nothing comes through.
#[derive(Clone, Copy, Debug)]
pub enum Direction {
    /// From this machine to the other.
    There,
    /// From the other machine to this one.
    Here,
}

impl Network {
    /// Makes a namespace that is connected with this one.
    pub fn new() -> Result<Self> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let name = format!("hw{}n{number}", process % 1_000_000);
        let third = u8::try_from(process % NETWORKS_MAX)?;
        // A range that no network uses; each cable has four addresses.
        let end = |last: u8| Ipv4Addr::new(198, 18, third, number * 4 + last);
        let network = Self {
            name,
            here: end(1),
            there: end(2),
        };
        network.connect().with_context(
            || "network namespaces are needed, and root to make them: run the tests as root",
        )?;
        Ok(network)
    }

    fn connect(&self) -> Result<()> {
        let Self { name, here, there } = self;
        ip(&format!("netns add {name}"))?;
        ip(&format!(
            "link add {name} type veth peer name cable netns {name}"
        ))?;
        ip(&format!("addr add {here}/30 dev {name}"))?;
        ip(&format!("-n {name} addr add {there}/30 dev cable"))?;
        ip(&format!("-n {name} link set lo up"))?;
        ip(&format!("-n {name} link set cable up"))?;
        ip(&format!("link set {name} up"))
    }

    /// What runs a program in there.
    pub fn wrapper(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    /// Where this machine is, seen from there.
    pub fn here(&self) -> IpAddr {
        self.here.into()
    }

    /// Where the other machine is.
    pub fn there(&self) -> IpAddr {
        self.there.into()
    }

    /// Pulls the cable, or plugs it in again.
    pub fn set_connected(&self, connected: bool) -> Result<()> {
        let state = if connected { "up" } else { "down" };
        ip(&format!("link set {} {state}", self.name))
    }

    /// Lets nothing through in one direction, or everything again.
    pub fn set_black_hole(&self, direction: Direction, is_there: bool) -> Result<()> {
        let action = if is_there { "add" } else { "del" };
        match direction {
            Direction::There => ip(&format!("route {action} blackhole {}/32", self.there)),
            Direction::Here => ip(&format!(
                "-n {} route {action} blackhole {}/32",
                self.name, self.here
            )),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The cable goes with the namespace. Nothing can be done if it does not.
        let _ = ip(&format!("netns del {}", self.name));
        let _ = ip(&format!("link del {}", self.name));
    }
}

fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .context("cannot run ip: install iproute2")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip {arguments}: {}", said.trim());
    }
    Ok(())
}
