//! How many workers each stage of a crawl has, as time goes by.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::ours::Server;
use super::served::Served;
use crate::peers::Result;
use crate::peers::hivewire::Hivewire;

/// Workers of each stage, one number for each look.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Seconds between two looks.
    pub every: f64,
    /// Of each stage, in the order of the looks.
    pub workers: BTreeMap<String, Vec<u32>>,
    /// Pages fetched at each look.
    pub fetched: Vec<u64>,
}

const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Seen {
    /// The stage with the most workers at any time, and how many it had.
    pub fn most(&self) -> (String, u32) {
        let most = |counts: &Vec<u32>| counts.iter().max().copied().unwrap_or_default();
        let all = self
            .workers
            .iter()
            .map(|(stage, counts)| (stage.clone(), most(counts)));
        all.max_by_key(|(_, most)| *most).unwrap_or_default()
    }

    /// How many hundredths of all workers a stage had when it had most.
    pub fn share(&self, stage: &str) -> f64 {
        let Some(counts) = self.workers.get(stage) else {
            return 0.0;
        };
        let looks = counts.iter().enumerate();
        let Some((look, most)) = looks.max_by_key(|(_, count)| **count) else {
            return 0.0;
        };
        let all: u32 = self
            .workers
            .values()
            .filter_map(|counts| counts.get(look))
            .sum();
        100.0 * f64::from(*most) / f64::from(all.max(1))
    }

    /// How many workers a stage had on average.
    pub fn average(&self, stage: &str) -> f64 {
        let counts = self.workers.get(stage).map_or(&[][..], Vec::as_slice);
        let sum: u32 = counts.iter().sum();
        f64::from(sum) / counts.len().max(1) as f64
    }
}

/// Crawls all hosts of a site and looks at the stages meanwhile. Every stage that scales itself begins with one worker.
pub fn crawl(site: &Served) -> Result<Seen> {
    let node = Hivewire::start()?;
    let server = Server::of(&node)?;
    let mut seen = Seen {
        every: LOOK_EVERY.as_secs_f64(),
        ..Seen::default()
    };
    site.crawled_by("hivewire", |site| {
        let mut document = server.document(&site.urls(), &[])?;
        for stage in document["stages"].as_object_mut().into_iter().flatten() {
            if stage.1["scale"].is_object() {
                stage.1["scale"]["min"] = json!(1);
            }
        }
        let began = Instant::now();
        server.apply(&document)?;
        let mut next = Duration::ZERO;
        let elapsed = server.wait_until_over(began, |now| {
            if began.elapsed() < next {
                return;
            }
            next = began.elapsed() + LOOK_EVERY;
            seen.fetched.push(now.fetched);
            for stage in &now.stages {
                let counts = seen.workers.entry(stage.stage.clone()).or_default();
                // One that was not there before had none.
                counts.resize(seen.fetched.len() - 1, 0);
                counts.push(stage.workers);
            }
        })?;
        super::ours::all_stored(&server, site, elapsed, Duration::ZERO)
    })?;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_and_average_are_found() {
        let seen = Seen {
            every: 1.0,
            workers: BTreeMap::from([
                ("download".to_owned(), vec![2, 10, 6]),
                ("links".to_owned(), vec![1, 1, 1]),
            ]),
            fetched: vec![0, 1, 2],
        };
        assert_eq!(seen.most(), ("download".to_owned(), 10));
        assert_eq!(seen.average("download"), 6.0);
        assert_eq!((seen.average("nobody"), seen.share("nobody")), (0.0, 0.0));
        assert_eq!(seen.share("download"), 1_000.0 / 11.0);
    }
}
