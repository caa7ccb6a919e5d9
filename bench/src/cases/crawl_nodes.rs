//! A crawl on two nodes beside the same on one.

use std::time::Duration;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::crawls::served::Served;
use crate::crawls::shared::{self, Shared};

/// How long each answer takes.
const DELAY: Duration = Duration::from_millis(50);
/// Pages of all hosts.
const SIZE: Size = Size::Fixed {
    messages: 10_000,
    quick_messages: 2_000,
};
const HOSTS: u8 = 200;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "crawl-nodes",
        description: "Two nodes that share a crawl, beside one, each with 32 connections; the broker is a process of its own, and \
                      the nodes have joined before. \
                      200 hosts are one nginx that answers after 50 ms; each has 50 pages.",
        peer_name: "one node",
        peer: PeerFigure::Measured,
        unit: "pages/s",
        target: Target::AtLeast(1.8),
        size: SIZE,
        measure: |_: &mut Systems, side, pages| {
            let nodes = match side {
                Side::Ours => 2,
                Side::Peer => 1,
            };
            Ok(Measurement {
                value: crawl(pages, nodes)?.crawled.rate(),
                note: String::new(),
            })
        },
    },
    Case {
        name: "crawl-nodes-shares",
        description: "As before, with two nodes: how many hundredths of all pages lie between the two. A host belongs to one \
                      node, and which one follows from its name.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(6.0),
        unit: "%",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |_: &mut Systems, _: Side, pages| {
            let shared = crawl(pages, 2)?;
            Ok(Measurement {
                value: shared.difference(),
                note: format!("{:?}", shared.by_node),
            })
        },
    },
];

fn crawl(pages: u32, nodes: usize) -> Result<Shared> {
    let site = Served::start(u64::from(pages) / u64::from(HOSTS), HOSTS, DELAY)?;
    Ok(shared::crawl(&site, nodes)?)
}
