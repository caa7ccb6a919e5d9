//! A crawl that knows ten million URLs.

use std::time::Duration;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::crawls::ours;
use crate::crawls::served::Served;

/// Pages of the sites that are crawled besides.
const PAGES: u64 = 5_000;
/// URLs that are known.
const SIZE: Size = Size::Fixed {
    messages: 10_000_000,
    quick_messages: 100_000,
};
const GIBIBYTE: f64 = 1_073_741_824.0;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "crawl-known",
        description: "Pages per second of sites of 5,000 pages, crawled by a flow that has seen ten million URLs of ten thousand \
                      hosts before, beside one that has seen none.",
        peer_name: "none known",
        peer: PeerFigure::Measured,
        unit: "pages/s",
        target: Target::AtLeast(0.7),
        size: SIZE,
        measure: |systems, side, urls| {
            // Another port each time, so that no page is known.
            let site = Served::start(PAGES, 1, Duration::ZERO)?;
            let (crawled, note) = match side {
                Side::Peer => (site.crawled_by("hivewire", ours::crawl)?, String::new()),
                Side::Ours => {
                    let known = systems.known(urls)?;
                    let rate = known.urls as f64 / known.learned_in.as_secs_f64();
                    let crawled = site.crawled_by("hivewire", |site| known.crawl(site))?;
                    (crawled, format!("URLs were learned at {rate:.0} a second"))
                }
            };
            Ok(Measurement {
                value: crawled.rate(),
                note,
            })
        },
    },
    Case {
        name: "crawl-known-memory",
        description: "As before: the most memory that the node has held.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(1.0),
        unit: "GiB",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |systems, _: Side, urls| {
            Ok(Measurement {
                value: systems.known(urls)?.resident_bytes_max()? as f64 / GIBIBYTE,
                note: String::new(),
            })
        },
    },
    Case {
        name: "crawl-known-resume",
        description: "As before. The node is stopped in good order while it crawls a site; how long it takes from the start of \
                      its process until it has fetched another page.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(2.0),
        unit: "s",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |systems, _: Side, urls| resume(systems, urls),
    },
];

fn resume(systems: &mut Systems, urls: u32) -> Result<Measurement> {
    let site = Served::start(PAGES, 1, Duration::ZERO)?;
    let resumed = systems.known(urls)?.resume(&site)?;
    Ok(Measurement {
        value: resumed.as_secs_f64(),
        note: String::new(),
    })
}
