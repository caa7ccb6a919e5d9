//! Bodies without end, without measure, or without sense.

use std::io::Write;
use std::sync::LazyLock;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::{ENDLESS, Trap};

const HTML: (&str, &str) = ("Content-Type", "text/html");
const BOMB_BYTES: usize = 256 << 20;
const HUGE_BYTES: usize = 24 << 20;

/// A page that says nothing of its length and goes on.
pub(super) const ENDLESS_BODY: Trap = Trap {
    name: "endless-body",
    links: &["/traps/endless-body"],
    answer: |_, _, _, reply| {
        reply.head(200, &[HTML, ("Connection", "close")])?;
        let part = "<p>and so on ".repeat(5_000);
        reply.repeat(part.as_bytes(), Duration::ZERO, ENDLESS)
    },
};

static BOMB_GZIP: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let part = vec![b' '; 1 << 20];
    for _ in 0..BOMB_BYTES >> 20 {
        encoder.write_all(&part).expect("memory takes all");
    }
    encoder.finish().expect("memory takes all")
});

/// A quarter of a gibibyte of spaces in about a thousandth of that.
pub(super) const BOMB: Trap = Trap {
    name: "bomb",
    links: &["/traps/bomb"],
    answer: |_, _, _, reply| reply.whole(200, &[HTML, ("Content-Encoding", "gzip")], &BOMB_GZIP),
};

/// A letter now and then.
pub(super) const DRIP: Trap = Trap {
    name: "drip",
    links: &["/traps/drip"],
    answer: |_, _, _, reply| {
        reply.head(200, &[HTML, ("Content-Length", "1000000")])?;
        reply.repeat(b"x", Duration::from_millis(200), ENDLESS)
    },
};

/// A header line now and then.
pub(super) const SLOW_HEAD: Trap = Trap {
    name: "slow-head",
    links: &["/traps/slow-head"],
    answer: |_, _, _, reply| {
        reply.bytes(b"HTTP/1.1 200 OK\r\n")?;
        reply.repeat(b"X-Wait: a little\r\n", Duration::from_millis(200), ENDLESS)
    },
};

/// A page that is far too large and says so.
pub(super) const HUGE: Trap = Trap {
    name: "huge",
    links: &["/traps/huge"],
    answer: |_, _, _, reply| reply.whole(200, &[HTML], &vec![b'h'; HUGE_BYTES]),
};

/// Nothing at all.
pub(super) const EMPTY: Trap = Trap {
    name: "empty",
    links: &["/traps/empty", "/traps/empty/204"],
    answer: |_, _, request, reply| match request.below("/traps/empty") {
        "204" => {
            reply.head(204, &[])?;
            Ok(super::Then::Stay)
        }
        _ => reply.whole(200, &[HTML], b""),
    },
};

/// A picture that calls itself a page.
pub(super) const BINARY: Trap = Trap {
    name: "binary",
    links: &["/traps/binary"],
    answer: |_, _, _, reply| {
        let mut picture = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        picture.extend((0..4_096_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
        reply.whole(200, &[HTML], &picture)
    },
};
