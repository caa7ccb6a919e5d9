//! Servers that are busy, away, broken, or have never heard of a page.

use std::time::Duration;

use super::{Trap, page};

/// How long a server is busy, and what it asks for.
const BUSY_FOR: Duration = Duration::from_secs(1);
/// How long another one is away.
const AWAY_FOR: Duration = Duration::from_millis(1_500);

/// Too many requests for a second; it says how long to wait.
pub(super) const BUSY: Trap = Trap {
    name: "busy",
    links: &["/traps/busy"],
    answer: |state, _, request, reply| {
        if state.since_first(&request.path) < BUSY_FOR {
            return reply.whole(429, &[("Retry-After", "1")], b"");
        }
        reply.html(page("No longer busy", &[]))
    },
};

/// Unavailable for a while; it does not say how long.
pub(super) const AWAY_FOR_A_WHILE: Trap = Trap {
    name: "away",
    links: &["/traps/away"],
    answer: |state, _, request, reply| {
        if state.since_first(&request.path) < AWAY_FOR {
            return reply.whole(503, &[], b"");
        }
        reply.html(page("Back again", &[]))
    },
};

/// Broken for good.
pub(super) const BROKEN: Trap = Trap {
    name: "broken",
    links: &["/traps/broken"],
    answer: |_, _, _, reply| reply.whole(500, &[], b"<p>It broke.</p>"),
};

/// Never there, or there no longer.
pub(super) const GONE: Trap = Trap {
    name: "gone",
    links: &["/traps/gone/"],
    answer: |_, _, request, reply| {
        if request.below("/traps/gone").is_empty() {
            let links = ["/traps/gone/404", "/traps/gone/410", "/page/1"].map(str::to_owned);
            return reply.html(page("Some of them are gone", &links));
        }
        let status = request.below("/traps/gone").parse().unwrap_or(404);
        reply.whole(status, &[("Content-Type", "text/html")], b"<p>Gone.</p>")
    },
};
