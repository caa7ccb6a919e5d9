//! Which stage of a crawl gets the most workers.

use std::time::Duration;

use super::{Case, Measurement, PeerFigure, Result, Side, Size, Systems, Target};
use crate::crawls::served::Served;
use crate::crawls::{plot, workers};
use crate::report;

const HOSTS: u8 = 200;
const DELAY: Duration = Duration::from_millis(50);
const PAGES: u32 = 10_000;
/// In the order of pages through a crawl.
const STAGES: &[&str] = &[
    "seed",
    "normalise",
    "seen",
    "frontier",
    "domains",
    "robots",
    "download",
    "content",
    "decode",
    "links",
    "text",
    "store",
];

pub(super) const CASES: &[Case] = &[Case {
    name: "crawl-workers",
    description: "The workers of the downloader at most, as a share of all workers then, while answers take 50 ms and so the \
                  downloader is the bottleneck. 200 hosts of 50 pages each; every stage begins with one worker, \
                  but for robots.txt, and scales itself as the document of the crawl says.",
    peer_name: "what we require",
    // More than all others together.
    peer: PeerFigure::Published(50.0),
    unit: "%",
    target: Target::AtLeast(1.0),
    size: Size::Fixed {
        messages: PAGES,
        quick_messages: 2_000,
    },
    measure: |_: &mut Systems, _: Side, pages| measure(pages),
}];

fn measure(pages: u32) -> Result<Measurement> {
    let site = Served::start(u64::from(pages) / u64::from(HOSTS), HOSTS, DELAY)?;
    let seen = workers::crawl(&site)?;
    if pages == PAGES {
        report::write_plot("crawl", &plot::draw(&seen, STAGES))?;
    }
    let (stage, most) = seen.most();
    Ok(Measurement {
        value: seen.share("download"),
        note: format!(
            "{stage} had the most, {most}; the downloader had {:.1} on average",
            seen.average("download")
        ),
    })
}
