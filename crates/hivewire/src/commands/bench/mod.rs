//! `hivewire bench`: producers and consumers on connections of their own, against a node that runs.

mod gamq;
mod link;
mod load;
mod stomp;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use self::load::{Endpoints, Load};
use super::Global;
use super::output::{json_line, line};
use crate::client::{Client, encode};
use crate::exit::Exit;

#[derive(Args)]
pub(super) struct Bench {
    /// The protocol to speak
    #[arg(long, value_enum, default_value_t)]
    protocol: Protocol,
    /// Store each message and wait until it is on disk (STOMP only)
    #[arg(long)]
    durable: bool,
    /// How many messages, over all producers
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    /// Bytes of each body; the first 16 say when it was sent
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(17..=16 << 20))]
    size: u32,
    /// How many connections publish
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    producers: u32,
    /// How many connections consume
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    consumers: u32,
    /// How many messages a producer sends before it waits for a confirmation
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    window: u32,
    /// The login, if the node has users (STOMP only)
    #[arg(long, value_name = "NAME", requires = "passcode")]
    login: Option<String>,
    /// The passcode that belongs to it
    #[arg(
        long,
        value_name = "PASSCODE",
        env = "HIVEWIRE_PASSCODE",
        hide_env_values = true
    )]
    passcode: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Protocol {
    #[default]
    Stomp,
    Gamq,
}

impl Protocol {
    const fn name(self) -> &'static str {
        match self {
            Self::Stomp => "stomp",
            Self::Gamq => "gamq",
        }
    }
}

impl Bench {
    pub fn run(&self, global: &Global) -> anyhow::Result<Exit> {
        ensure!(
            !(self.durable && self.protocol == Protocol::Gamq),
            "gamq cannot ask for a message to be stored: use --protocol stomp"
        );
        let client = global.client()?;
        let before = client.get("/api/v1/node")?;
        let queue = format!("hivewire.bench.{}", std::process::id());
        let load = Load {
            messages: self.messages,
            body_bytes: self.size as usize,
            producers: self.producers as usize,
            consumers: self.consumers as usize,
            window: self.window as usize,
        };
        let outcome = load.run(&self.endpoints(&before, &queue)?, !global.json);
        // Also after a failure: what is left there is of no use to anybody.
        let removed = client.delete(&format!("/api/v1/queues/{}", encode(&queue)));
        let outcome = outcome?;
        removed.context("cannot remove the queue of the benchmark")?;
        self.report(global, &client, &before, &outcome)?;
        Ok(Exit::Done)
    }

    fn endpoints(&self, node: &Value, queue: &str) -> anyhow::Result<Endpoints> {
        let address = listener_address(node, self.protocol)?;
        Ok(match self.protocol {
            Protocol::Gamq => gamq::endpoints(address, queue),
            Protocol::Stomp => stomp::endpoints(stomp::Session {
                address,
                queue: queue.to_owned(),
                durable: self.durable,
                window: self.window as usize,
                login: self.login.clone().zip(self.passcode.clone()),
            }),
        })
    }

    fn report(
        &self,
        global: &Global,
        client: &Client,
        before: &Value,
        outcome: &Outcome,
    ) -> anyhow::Result<()> {
        let after = client.get("/api/v1/node")?;
        let count = |key: &str| {
            let number = |node: &Value| node["journal"][key].as_u64().unwrap_or_default();
            number(&after).saturating_sub(number(before))
        };
        let seconds = outcome.elapsed.as_secs_f64();
        let per_second = self.messages as f64 / seconds;
        let microseconds = |quantile| outcome.latency_us.value_at_quantile(quantile);
        let syncs = count("syncs");
        if global.json {
            return json_line(&json!({
                "protocol": self.protocol.name(),
                "durable": self.durable,
                "messages": self.messages,
                "body_bytes": self.size,
                "producers": self.producers,
                "consumers": self.consumers,
                "window": self.window,
                "seconds": seconds,
                "messages_per_second": per_second,
                "bytes_per_second": per_second * f64::from(self.size),
                "latency_us": {
                    "p50": microseconds(0.5),
                    "p90": microseconds(0.9),
                    "p99": microseconds(0.99),
                    "p99_9": microseconds(0.999),
                    "max": outcome.latency_us.max(),
                },
                "syncs": syncs,
            }));
        }
        line(&format!(
            "{} messages of {} bytes over {} in {seconds:.2} s: {per_second:.0} messages/s, {:.1} MB/s",
            self.messages,
            self.size,
            self.protocol.name(),
            per_second * f64::from(self.size) / 1e6,
        ))?;
        line(&format!(
            "latency p50 {}, p90 {}, p99 {}, p99.9 {}, max {}",
            shown(microseconds(0.5)),
            shown(microseconds(0.9)),
            shown(microseconds(0.99)),
            shown(microseconds(0.999)),
            shown(outcome.latency_us.max()),
        ))?;
        if self.durable {
            let per_sync = self.messages as f64 / syncs.max(1) as f64;
            let syncs_per_second = syncs as f64 / seconds;
            line(&format!(
                "{syncs_per_second:.0} syncs/s, {per_sync:.1} messages per sync"
            ))?;
        }
        Ok(())
    }
}

fn shown(microseconds: u64) -> String {
    match microseconds {
        0..1_000 => format!("{microseconds} µs"),
        1_000..1_000_000 => format!("{:.2} ms", microseconds as f64 / 1e3),
        _ => format!("{:.2} s", microseconds as f64 / 1e6),
    }
}

fn listener_address(node: &Value, protocol: Protocol) -> anyhow::Result<SocketAddr> {
    let listeners = node["listeners"].as_array().into_iter().flatten();
    let mut fitting = listeners.filter(|listener| {
        listener["protocol"] == protocol.name() && listener["transport"] == "tcp"
    });
    let listener = fitting.next().with_context(|| {
        format!(
            "the node does not listen for {}: start it with that listener on",
            protocol.name()
        )
    })?;
    let address = listener["address"].as_str().unwrap_or_default();
    let mut address: SocketAddr = address.parse().context("the node named no address")?;
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    Ok(address)
}

/// What was measured.
struct Outcome {
    /// From the first send to the last receipt.
    elapsed: Duration,
    latency_us: Histogram<u64>,
}
