//! Pages per second of one site.

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::crawls::served::Served;
use crate::crawls::{Crawled, ours, scrapy, spider};
use crate::peers;

const UNIT: &str = "pages/s";
const SIZE: Size = Size::Fixed {
    messages: 10_000,
    quick_messages: 1_000,
};

type Crawl = fn(&Served) -> peers::Result<Crawled>;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "crawl-site",
        description: "A site of 10,000 pages of 7 to 12 KB with 20 to 30 links each, served by nginx on the same machine. Ours \
                      keeps its frontier and what it has seen on disk, and stores each page with its body and text in SQLite; \
                      Scrapy keeps and stores nothing. Both obey robots.txt, wait for nothing, and must have had every page.",
        peer_name: "Scrapy",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target: Target::AtLeast(15.0),
        size: SIZE,
        measure: |systems, side, pages| beside(systems, "Scrapy", scrapy::crawl, side, pages),
    },
    Case {
        name: "crawl-site-spider",
        description: "As before, beside the spider crate as a program of a few lines that counts pages and stores nothing.",
        peer_name: "spider",
        peer: PeerFigure::Measured,
        unit: UNIT,
        target: Target::AtLeast(0.5),
        size: SIZE,
        measure: |systems, side, pages| beside(systems, "spider", spider::crawl, side, pages),
    },
    Case {
        name: "crawl-site-processor",
        description: "As before: what our node uses of processors for each page, all threads together.",
        peer_name: "what we allow",
        peer: PeerFigure::Published(0.5),
        unit: "ms",
        target: Target::AtMost(1.0),
        size: SIZE,
        measure: |systems, _, pages| {
            let crawled = crawled_by(systems, "hivewire", ours::crawl, pages)?;
            Ok(Measurement {
                value: crawled.processor_ms(),
                note: format!("at {:.0} pages/s", crawled.rate()),
            })
        },
    },
];

fn beside(
    systems: &mut Systems,
    name: &str,
    peer: Crawl,
    side: Side,
    pages: u32,
) -> Result<Measurement> {
    let crawled = match side {
        Side::Ours => crawled_by(systems, "hivewire", ours::crawl, pages)?,
        Side::Peer => crawled_by(systems, name, peer, pages)?,
    };
    Ok(Measurement {
        value: crawled.rate(),
        note: format!(
            "{:.2} ms of a processor for each page",
            crawled.processor_ms()
        ),
    })
}

fn crawled_by(systems: &mut Systems, name: &str, crawl: Crawl, pages: u32) -> Result<Crawled> {
    Ok(systems.site(pages)?.crawled_by(name, crawl)?)
}
