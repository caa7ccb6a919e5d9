//! Whatever goes wrong on the web, each kind below a path of its own.
//!
//! `/traps` links to all of them. What never ends ends by itself after a minute, should a crawler wait for it.

mod bodies;
mod charsets;
mod connections;
mod documents;
mod endless;
mod private;
mod redirects;
mod statuses;

use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use charsets::{JAPANESE, LATIN};

use super::exchange::{Reply, Request, Then};

/// Where traps are.
const PREFIX: &str = "/traps/";
/// How long an answer goes on that does not end.
const ENDLESS: Duration = Duration::from_secs(60);

/// One kind of trap.
pub struct Trap {
    /// Its name, and the begin of its paths below `/traps/`.
    pub name: &'static str,
    /// Where `/traps` leads to.
    pub links: &'static [&'static str],
    /// Answers all requests below its path.
    pub(super) answer: Answer,
}

type Answer = fn(&State, &[String], &Request, &mut Reply<'_>) -> io::Result<Then>;

impl Trap {
    /// Whether a path is one of this trap.
    pub fn has(&self, path: &str) -> bool {
        let rest = path
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.strip_prefix(self.name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', ';']))
    }
}

/// All traps.
pub const TRAPS: &[Trap] = &[
    endless::CALENDAR,
    endless::SESSION,
    endless::DEEP,
    endless::LONG,
    redirects::LOOP,
    redirects::CHAIN,
    redirects::ENDLESS,
    redirects::AWAY,
    redirects::INWARDS,
    bodies::ENDLESS_BODY,
    bodies::BOMB,
    bodies::DRIP,
    bodies::SLOW_HEAD,
    bodies::HUGE,
    bodies::EMPTY,
    bodies::BINARY,
    connections::CLOSING,
    connections::CUT,
    connections::LENGTH,
    connections::CHUNKS,
    connections::SILENT,
    charsets::CHARSETS,
    statuses::BUSY,
    statuses::AWAY_FOR_A_WHILE,
    statuses::BROKEN,
    statuses::GONE,
    documents::BASE,
    documents::NO_FOLLOW,
    documents::META,
    documents::CANONICAL,
    documents::NEAR,
    private::PRIVATE,
];

/// What traps remember.
#[derive(Default)]
pub(super) struct State {
    first: Mutex<HashMap<String, Instant>>,
}

impl State {
    /// How long ago something was asked for first.
    fn since_first(&self, path: &str) -> Duration {
        let mut first = self.first.lock();
        first
            .entry(path.to_owned())
            .or_insert_with(Instant::now)
            .elapsed()
    }
}

/// The page that links to all traps.
pub(super) fn index() -> String {
    let mut html = String::from("<!DOCTYPE html><title>Traps</title>\n");
    for link in TRAPS.iter().flat_map(|trap| trap.links) {
        let _ = writeln!(html, "<a href=\"{link}\">trap</a>");
    }
    html
}

/// With the names of the first host and of the second.
fn on_hosts(text: &str, hosts: &[String]) -> String {
    let other = hosts.get(1).unwrap_or(&hosts[0]);
    text.replace("{host}", &hosts[0]).replace("{other}", other)
}

/// A small page with links.
fn page(title: &str, links: &[String]) -> String {
    let mut html = format!("<!DOCTYPE html><title>{title}</title><h1>{title}</h1>\n");
    for link in links {
        let _ = writeln!(html, "<a href=\"{link}\">{link}</a>");
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trap_has_names_and_paths_of_its_own() {
        for trap in TRAPS {
            let own = |link: &&&str| link.starts_with(PREFIX);
            for link in trap.links.iter().filter(own) {
                let of: Vec<&str> = TRAPS
                    .iter()
                    .filter(|other| other.has(link))
                    .map(|other| other.name)
                    .collect();
                assert_eq!(of, [trap.name], "{link}");
            }
        }
        assert!(index().contains("/traps/calendar"));
    }
}
