//! `hivewire up`

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use control::Ended;
use listeners::Address;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::Global;
use super::node_flags::NodeFlags;
use super::output::{json_line, line};
use crate::config::{Config, Overrides};
use crate::exit::Exit;
use crate::node::{Node, StartError};

/// How long a start that was interrupted may take to come to where it can be stopped.
const START_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(super) struct Up {
    /// The configuration [default: ./hivewire.toml if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where HTTP listens, or `off` [default: 127.0.0.1:8000]
    #[arg(long, value_name = "ADDRESS")]
    http: Option<Address>,
    /// Where services listen once there is one, or `off` [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    services: Option<Address>,
    /// Where STOMP listens, or `off` [default: 127.0.0.1:61613]
    #[arg(long, value_name = "ADDRESS")]
    stomp: Option<Address>,
    /// Where gamq listens, on TCP and UDP, or `off` [default: 127.0.0.1:48879]
    #[arg(long, value_name = "ADDRESS")]
    gamq: Option<Address>,
    /// Allow addresses that other machines can reach, although nothing is encrypted
    #[arg(long)]
    allow_remote: bool,
    #[command(flatten)]
    node: NodeFlags,
}

impl Up {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        let overrides = Overrides {
            data: global.data.clone(),
            http: self.http,
            services: self.services,
            stomp: self.stomp,
            gamq: self.gamq,
            allow_remote: self.allow_remote,
            node: self.node.settings(),
            prefetch: self.node.prefetch,
            log: global.log.clone(),
        };
        let config = Config::load(self.config.as_deref(), &overrides)?;
        if config.journal.sync == journal::Sync::Off {
            tracing::warn!(
                "SYNCING IS OFF: loss of power loses messages that were acknowledged. This is for tests only"
            );
        }
        serve_until_signal(config, global.json)
    }
}

/// Runs a node until a signal comes, or until it has to end by itself.
pub(super) fn serve_until_signal(config: Config, json: bool) -> anyhow::Result<Exit> {
    let runtime = Runtime::new().context("cannot start the runtime")?;
    let exit = runtime.block_on(serve(config, json));
    // After a second signal nothing is waited for.
    runtime.shutdown_background();
    exit
}

async fn serve(config: Config, json: bool) -> anyhow::Result<Exit> {
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let mut starting = std::pin::pin!(Node::start(config));
    let node = tokio::select! {
        node = starting.as_mut() => node?,
        () = signals.next() => return stop_starting(starting, signals).await,
    };
    log_recovery(&node);
    announce(&node, json)?;
    let ended = tokio::select! {
        () = signals.next() => None,
        ended = node.ended() => Some(ended),
    };
    match ended {
        None | Some(Ended::Stopped) => {
            tracing::info!("draining; a second signal ends at once");
            drain(node, signals).await
        }
        // What it holds belongs to the other one: everything here is refused from now on.
        Some(Ended::NameTaken) => anyhow::bail!(
            "another node with the name of this one has started, so this one ends: give each node a name of its own with --name"
        ),
    }
}

/// A start cannot be cut off at any point, but soon comes to its end; and whatever the journal
/// is doing is safe against being killed.
async fn stop_starting(
    starting: impl Future<Output = Result<Node, StartError>>,
    mut signals: Signals,
) -> anyhow::Result<Exit> {
    tracing::info!("stopping while starting; a second signal ends at once");
    let started = tokio::select! {
        started = timeout(START_PATIENCE, starting) => started,
        () = signals.next() => return Ok(Exit::Interrupted),
    };
    match started {
        Ok(node) => drain(node?, signals).await,
        Err(_) => Ok(Exit::Done),
    }
}

async fn drain(node: Node, mut signals: Signals) -> anyhow::Result<Exit> {
    let patience = node.drain_patience();
    tokio::select! {
        drained = node.drain(patience) => drained?,
        () = signals.next() => return Ok(Exit::Interrupted),
    }
    tracing::info!("drained");
    Ok(Exit::Done)
}

/// Ctrl-C and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Says what listens where. The address with the token is for whoever started the node.
fn announce(node: &Node, as_json: bool) -> anyhow::Result<()> {
    let http = node.bound().iter().find(|bound| bound.protocol == "http");
    // What stands behind # is sent to no server, and stands in no log.
    let address =
        http.map(|http| format!("http://{}/#token={}", http.address, node.token().reveal()));
    if as_json {
        let listeners: Vec<_> = node
            .bound()
            .iter()
            .map(|b| json!({ "protocol": b.protocol, "transport": b.transport, "address": b.address.to_string() }))
            .collect();
        return json_line(&json!({ "status": "ready", "listeners": listeners, "studio": address }));
    }
    for bound in node.bound() {
        let (protocol, transport) = (bound.protocol, bound.transport);
        line(&format!("{protocol:<5} on {transport} {}", bound.address))?;
    }
    if let Some(address) = address {
        line(&format!("studio at {address}"))?;
    }
    line("ready")?;
    Ok(std::io::stdout().flush()?)
}

fn log_recovery(node: &Node) {
    let Some(recovery) = node.recovery() else {
        return;
    };
    if let Some(torn) = &recovery.torn_tail {
        tracing::warn!(
            file = torn.file,
            bytes = torn.bytes,
            "a crash cut the last write short; it was never acknowledged and was dropped"
        );
    }
    tracing::info!(
        records = recovery.records,
        segments = recovery.segments,
        clean_shutdown = recovery.clean_shutdown,
        "journal read"
    );
}
