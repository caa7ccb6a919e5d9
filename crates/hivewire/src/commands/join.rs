//! `hivewire join`

use std::path::PathBuf;

use clap::Args;
use listeners::Address;

use super::Global;
use super::node_flags::NodeFlags;
use super::up::serve_until_signal;
use crate::cluster::machine_name;
use crate::config::{Config, Overrides};
use crate::exit::Exit;

#[derive(Args)]
pub(super) struct Join {
    #[command(flatten)]
    node: NodeFlags,
    /// The configuration [default: ./hivewire.toml if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where HTTP listens, or `off` [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<Address>,
    /// Where services listen once there is one, or `off` [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    services: Option<Address>,
    /// Allow addresses that other machines can reach, although nothing is encrypted
    #[arg(long)]
    allow_remote: bool,
}

impl Join {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let mut node = self.node.settings();
        let name = match &node.name {
            Some(name) => name.clone(),
            None => machine_name().unwrap_or_else(|| "node".to_owned()),
        };
        node.name = Some(name.clone());
        // Several may run on one machine, each with a folder and a port of its own.
        let data = global.data.clone();
        let overrides = Overrides {
            data: Some(data.unwrap_or_else(|| format!("hivewire-{name}").into())),
            http: Some(self.http.unwrap_or(Address::loopback(0))),
            services: Some(self.services.unwrap_or(Address::loopback(0))),
            allow_remote: self.allow_remote,
            node,
            prefetch: self.node.prefetch,
            log: global.log.clone(),
            ..Overrides::default()
        };
        let config = Config::load(self.config.as_deref(), &overrides)?;
        anyhow::ensure!(
            !config.node.bus.is_empty(),
            "name the bus to join with --bus URL, such as stomp://127.0.0.1:61613 of `hivewire up`"
        );
        serve_until_signal(config, global.json)
    }
}
