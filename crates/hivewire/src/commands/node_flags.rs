//! What `hivewire up` and `hivewire join` understand about being one node among several.

use clap::Args;

use crate::cluster::NodeSettings;

/// No `Debug`: addresses may hold passwords.
#[derive(Args)]
pub(super) struct NodeFlags {
    /// What this node is called among others that share its work [default for join: the name of the machine]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// What distinguishes this node; can be repeated
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,
    /// The bus that the nodes share, instead of a broker in this process: stomp:// of a Hivewire broker, ActiveMQ or RabbitMQ, or amqp:// of RabbitMQ; several are tried in turn
    #[arg(
        long,
        value_name = "URL[,URL…]",
        value_delimiter = ',',
        env = "HIVEWIRE_BUS",
        hide_env_values = true
    )]
    pub bus: Vec<String>,
    /// The store that the nodes share: postgres://…; not needed with a Hivewire broker
    #[arg(
        long,
        value_name = "URL",
        env = "HIVEWIRE_STATE",
        hide_env_values = true
    )]
    state: Option<String>,
    /// How many messages of one queue may be on their way through the workers of this node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub prefetch: Option<u32>,
}

impl NodeFlags {
    pub fn settings(&self) -> NodeSettings {
        NodeSettings {
            name: self.name.clone(),
            labels: self.labels.clone(),
            bus: self.bus.clone(),
            state: self.state.clone(),
            ..NodeSettings::default()
        }
    }
}
