//! Connections that end too early, and lengths that are wrong.

use super::{ENDLESS, Then, Trap, page};

const HTML: (&str, &str) = ("Content-Type", "text/html");

/// Good pages, after each of which the connection is closed, which nobody is told.
pub(super) const CLOSING: Trap = Trap {
    name: "closing",
    links: &["/traps/closing/1"],
    answer: |_, _, request, reply| {
        let number: u32 = request.below("/traps/closing").parse().unwrap_or(0);
        let links: Vec<String> = (1..=2)
            .map(|step| number + step)
            .filter(|next| *next <= 8)
            .map(|next| format!("/traps/closing/{next}"))
            .collect();
        reply.html(page(&format!("Good-bye {number}"), &links))?;
        Ok(Then::Close)
    },
};

/// The connection ends in the middle of the page.
pub(super) const CUT: Trap = Trap {
    name: "cut",
    links: &["/traps/cut"],
    answer: |_, _, _, reply| {
        reply.head(200, &[HTML, ("Content-Length", "5000")])?;
        reply.bytes(b"<title>Cut</title><p>This is the begin of")?;
        Ok(Then::Close)
    },
};

/// More comes than the length says, so that the rest looks like another answer.
pub(super) const LENGTH: Trap = Trap {
    name: "length",
    links: &["/traps/length"],
    answer: |_, _, _, reply| {
        reply.head(200, &[HTML, ("Content-Length", "27")])?;
        reply.bytes(b"<title>Too short</title><p>\nand much more than it said it would be")?;
        Ok(Then::Close)
    },
};

/// Chunks whose lengths are no numbers.
pub(super) const CHUNKS: Trap = Trap {
    name: "chunks",
    links: &["/traps/chunks"],
    answer: |_, _, _, reply| {
        reply.head(200, &[HTML, ("Transfer-Encoding", "chunked")])?;
        reply.bytes(b"5\r\n<p>ab\r\nzebra\r\nthis is no chunk\r\n")?;
        Ok(Then::Close)
    },
};

/// Nobody answers.
pub(super) const SILENT: Trap = Trap {
    name: "silent",
    links: &["/traps/silent"],
    answer: |_, _, _, reply| {
        // Nothing to write only looks whether the time is over.
        reply.repeat(b"", std::time::Duration::from_millis(50), ENDLESS)
    },
};
