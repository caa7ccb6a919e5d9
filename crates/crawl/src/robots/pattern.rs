//! Patterns of paths, and how paths are compared with them.
//!
//! RFC 9309 compares octets after percent-encoding: `%62` and `b` are the same, `/` and `%2F` are not, `ツ` and `%E3%83%84` are the
//! same. So both sides are written in one way first: an octet that stands for itself is one byte, and one that is escaped is two
//! bytes above 127, of which the first can never be the second of another. So a plain search finds no half of an escape.

use memchr::memmem;

/// What stands for `*` in a pattern: no byte of a path is this one.
const ANY: u8 = 0;

/// The path of an address, with the query, written to be compared.
pub(super) struct Path {
    exact: Vec<u8>,
    /// If that differs: with `:`, `/` and the like in the query as if they were not escaped.
    lenient: Option<Vec<u8>>,
}

impl Path {
    pub fn new(text: &str) -> Self {
        let exact = written(text.as_bytes(), Read::Path);
        let escapes = text.contains('%');
        let lenient = escapes.then(|| written(text.as_bytes(), Read::PathLeniently));
        Self {
            lenient: lenient.filter(|lenient| *lenient != exact),
            exact,
        }
    }
}

/// What a line allows or disallows.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    exact: Wildcards,
    lenient: Option<Wildcards>,
    octets: usize,
}

impl Pattern {
    pub fn new(text: &[u8]) -> Self {
        let (text, ends) = match text.strip_suffix(b"$") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let exact = written(text, Read::Pattern);
        let lenient = Some(written(text, Read::PatternLeniently));
        let lenient = lenient.filter(|lenient| *lenient != exact);
        // A `$` within a pattern means itself and is not escaped there.
        let dollars = memchr::memchr_iter(b'$', text).count();
        Self {
            octets: octets(&exact) - 2 * dollars + usize::from(ends),
            exact: Wildcards::new(exact, ends),
            lenient: lenient.map(|lenient| Wildcards::new(lenient, ends)),
        }
    }

    /// How long it is, percent-encoded: the longest one that fits decides.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// Whether a path fits. The RFC says that `?u=https://` and `?u=https%3A%2F%2F` are the same; in a pattern that begins with `*`,
    /// however, nobody knows where the query begins. So both readings count.
    pub fn fits(&self, path: &Path) -> bool {
        let exactly = self.exact.fit(&path.exact);
        if exactly || (self.lenient.is_none() && path.lenient.is_none()) {
            return exactly;
        }
        let pattern = self.lenient.as_ref().unwrap_or(&self.exact);
        pattern.fit(path.lenient.as_ref().unwrap_or(&path.exact))
    }
}

/// Bytes with [`ANY`] between them.
#[derive(Clone, Debug)]
struct Wildcards {
    bytes: Box<[u8]>,
    /// Whether the path has to end where the pattern ends.
    ends: bool,
}

impl Wildcards {
    fn new(mut bytes: Vec<u8>, ends: bool) -> Self {
        bytes.dedup_by(|next, previous| *next == ANY && *previous == ANY);
        Self {
            bytes: bytes.into(),
            ends,
        }
    }

    /// Takes each piece where it occurs first: if any way to place the pieces fits, this one does. So the time grows with the
    /// lengths of path and pattern, and not with their product.
    fn fit(&self, path: &[u8]) -> bool {
        let mut pieces = self.bytes.split(|byte| *byte == ANY);
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let Some(last) = pieces.next_back() else {
            return !self.ends || rest.is_empty();
        };
        for piece in pieces {
            match memmem::find(rest, piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        match self.ends {
            true => rest.ends_with(last),
            false => memmem::find(rest, last).is_some(),
        }
    }
}

/// What is written, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Path,
    PathLeniently,
    Pattern,
    PatternLeniently,
}

fn written(text: &[u8], read: Read) -> Vec<u8> {
    let leniently = matches!(read, Read::PathLeniently | Read::PatternLeniently);
    let pattern = matches!(read, Read::Pattern | Read::PatternLeniently);
    let mut out = Vec::with_capacity(text.len());
    let mut in_query = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escape = escaped(&text[at..]);
        at += if escape.is_some() { 3 } else { 1 };
        match (byte, escape) {
            (b'*', _) if pattern => out.push(ANY),
            (_, Some(octet)) => {
                let plain =
                    is_unreserved(octet) || (leniently && in_query && is_plain_in_query(octet));
                push(&mut out, octet, plain);
            }
            (byte, None) => {
                in_query |= byte == b'?';
                push(&mut out, byte, is_unreserved(byte) || is_reserved(byte));
            }
        }
    }
    out
}

fn push(out: &mut Vec<u8>, octet: u8, plain: bool) {
    match plain {
        true => out.push(octet),
        false => out.extend([0x80 | octet >> 4, 0x90 | octet & 15]),
    }
}

/// How many octets it has, percent-encoded.
fn octets(written: &[u8]) -> usize {
    let octets = |byte: &u8| match byte {
        0x80..=0x8f => 3,
        0x90..=0x9f => 0,
        _ => 1,
    };
    written.iter().map(octets).sum()
}

fn escaped(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match bytes {
        [b'%', high, low, ..] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    }
}

/// RFC 3986, section 2.3.
fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986, section 2.2, without `*` and `$`: a pattern can only mean those themselves if they are escaped there, so that they
/// count as escaped everywhere.
fn is_reserved(octet: u8) -> bool {
    is_plain_in_query(octet)
        || matches!(
            octet,
            b'#' | b'!' | b'&' | b'\'' | b'(' | b')' | b'+' | b',' | b';' | b'='
        )
}

/// What separates nothing within a query.
fn is_plain_in_query(octet: u8) -> bool {
    matches!(octet, b':' | b'/' | b'?' | b'@' | b'[' | b']')
}
