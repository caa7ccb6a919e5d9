//! Who asked a site for what, and when: proof of politeness, of single fetches and of coverage.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Asked for before anything else, and as often as a crawler likes.
pub const ROBOTS: &str = "/robots.txt";

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// When the whole head of the request was there, since the site began.
    pub started: Duration,
    /// When the last byte of the answer was handed to the system, or nobody took it any more.
    pub ended: Option<Duration>,
    /// The host that was asked for, with the port.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The port of whoever asked: each connection has its own.
    pub port: u16,
}

impl Visit {
    /// Whether it is a page, and not the file that says which pages may be read.
    pub fn is_page(&self) -> bool {
        self.path != ROBOTS
    }
}

/// All requests so far; clones share them.
#[derive(Clone, Debug)]
pub struct Log {
    began: Instant,
    visits: Arc<Mutex<Vec<Visit>>>,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            visits: Arc::default(),
        }
    }
}

impl Log {
    /// The time as visits have it.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Writes the begin of a visit down; gives its number.
    pub(super) fn begin(&self, host: &str, path: &str, port: u16) -> usize {
        let mut visits = self.visits.lock();
        visits.push(Visit {
            started: self.began.elapsed(),
            ended: None,
            host: host.to_owned(),
            path: path.to_owned(),
            port,
        });
        visits.len() - 1
    }

    /// Writes its end down.
    pub(super) fn end(&self, number: usize) {
        self.visits.lock()[number].ended = Some(self.began.elapsed());
    }

    /// All visits, by the time of their start.
    pub fn visits(&self) -> Vec<Visit> {
        self.visits.lock().clone()
    }

    /// How many requests for pages there were.
    pub fn pages(&self) -> usize {
        let visits = self.visits.lock();
        visits.iter().filter(|visit| visit.is_page()).count()
    }

    /// Visits of pages of a host.
    pub fn pages_of(&self, host: &str) -> Vec<Visit> {
        let mut visits = self.visits();
        visits.retain(|visit| visit.host == host && visit.is_page());
        visits
    }

    /// How often each page was asked for, as `host/path`.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for visit in self.visits.lock().iter().filter(|visit| visit.is_page()) {
            *counts
                .entry(format!("{}{}", visit.host, visit.path))
                .or_default() += 1;
        }
        counts
    }

    /// How often something with this path was asked for, on any host.
    pub fn times(&self, path: &str) -> usize {
        let visits = self.visits.lock();
        visits.iter().filter(|visit| visit.path == path).count()
    }

    /// How often something whose path begins so was asked for.
    pub fn times_below(&self, path: &str) -> usize {
        let visits = self.visits.lock();
        visits
            .iter()
            .filter(|visit| visit.path.starts_with(path))
            .count()
    }

    /// Hosts that were asked for pages.
    pub fn hosts(&self) -> BTreeSet<String> {
        let visits = self.visits.lock();
        let pages = visits.iter().filter(|visit| visit.is_page());
        pages.map(|visit| visit.host.clone()).collect()
    }

    /// The shortest time between the begins of two requests for pages of a host; nothing if there were fewer.
    pub fn closest_two_requests(&self, host: &str) -> Option<Duration> {
        closest(&self.pages_of(host))
    }

    /// How many requests for pages of a host were under way at the same time, at most.
    pub fn most_at_once(&self, host: &str) -> usize {
        most_at_once(&self.pages_of(host))
    }
}

fn closest(visits: &[Visit]) -> Option<Duration> {
    let gaps = visits.windows(2).map(|two| two[1].started - two[0].started);
    gaps.min()
}

fn most_at_once(visits: &[Visit]) -> usize {
    let is_under_way = |visit: &Visit, at: Duration| {
        visit.started <= at && visit.ended.is_none_or(|ended| ended > at)
    };
    // There are most when one has just begun.
    let at_begin = visits.iter().enumerate().map(|(number, begun)| {
        let earlier = visits[..=number].iter();
        earlier
            .filter(|visit| is_under_way(visit, begun.started))
            .count()
    });
    at_begin.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(started: u64, ended: u64) -> Visit {
        Visit {
            started: Duration::from_millis(started),
            ended: Some(Duration::from_millis(ended)),
            host: "a".to_owned(),
            path: "/".to_owned(),
            port: 1,
        }
    }

    #[test]
    fn haste_and_crowds_are_found() {
        let visits = [visit(0, 30), visit(100, 130), visit(150, 180)];
        assert_eq!(closest(&visits), Some(Duration::from_millis(50)));
        assert_eq!(closest(&visits[..1]), None);
        assert_eq!(most_at_once(&visits), 1);
        let crowd = [visit(0, 30), visit(10, 200), visit(20, 25), visit(40, 50)];
        assert_eq!(most_at_once(&crowd), 3);
        assert_eq!(most_at_once(&[]), 0);
    }
}
