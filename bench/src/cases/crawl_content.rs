//! Links and addresses on one core.

use super::worker_tell::rate;
use super::{Case, Measurement, PeerFigure, Side, Size, Systems, Target};
use crate::crawls::content;

const PEER_NAME: &str = "what we require";

pub(super) const CASES: &[Case] = &[
    Case {
        name: "crawl-links",
        description: "Links, and what a page says about itself, taken from pages of 7 to 12 KB with 20 to 30 links each that \
                      are in memory, on one core, in the process that measures.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(150.0),
        unit: "MB/s",
        target: Target::AtLeast(1.0),
        // Pages.
        size: Size::Fixed {
            messages: 60_000,
            quick_messages: 5_000,
        },
        measure: |_: &mut Systems, _: Side, pages| {
            let extracted = content::links(pages)?;
            Ok(Measurement {
                value: extracted.bytes as f64 / 1e6 / extracted.elapsed.as_secs_f64(),
                note: String::new(),
            })
        },
    },
    Case {
        name: "crawl-addresses",
        description: "Links of many kinds, relative and whole, written as addresses in one way, with their fingerprints, on one \
                      core, in the process that measures.",
        peer_name: PEER_NAME,
        peer: PeerFigure::Published(2_000_000.0),
        unit: "addresses/s",
        target: Target::AtLeast(1.0),
        size: Size::Timed {
            first_messages: 500_000,
        },
        measure: |_: &mut Systems, _: Side, links| rate(links, content::addresses),
    },
];
