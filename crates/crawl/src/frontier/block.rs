//! URLs of one host that came together, as they lie on disk.

use std::sync::Arc;

/// A URL that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The URL.
    pub url: Box<str>,
    /// How many links lead there from a seed.
    pub depth: u32,
    /// The page that it was found on; empty for a seed.
    pub from: Arc<str>,
    /// How many redirects in a row led to it.
    pub redirects: u32,
    /// How often it was asked for without success.
    pub tries: u32,
    /// When it may be asked for again, in milliseconds since 1970.
    pub not_before_ms: u64,
}

const FORMAT: u8 = 1;

/// Writes entries. Those that came the same way share how, and each URL is written from where it differs from the one before.
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut block = Vec::with_capacity(16 + entries.len() * 48);
    block.push(FORMAT);
    put_number(&mut block, entries.len() as u64);
    let mut before: Option<&Entry> = None;
    for entry in entries {
        let same = before.filter(|before| {
            (before.depth, before.redirects) == (entry.depth, entry.redirects)
                && before.from == entry.from
        });
        put_number(&mut block, u64::from(same.is_none()));
        if same.is_none() {
            put_number(&mut block, u64::from(entry.depth));
            put_number(&mut block, u64::from(entry.redirects));
            put_text(&mut block, &entry.from);
        }
        put_number(&mut block, u64::from(entry.tries));
        put_number(&mut block, entry.not_before_ms);
        let shared = before.map_or(0, |before| shared_prefix(&before.url, &entry.url));
        put_number(&mut block, shared as u64);
        put_text(&mut block, &entry.url[shared..]);
        before = Some(entry);
    }
    block
}

/// Reads what [`encode`] wrote; none if it is something else.
pub(crate) fn decode(block: &[u8]) -> Option<Vec<Entry>> {
    let (format, mut rest) = block.split_first()?;
    if *format != FORMAT {
        return None;
    }
    let count = usize::try_from(take_number(&mut rest)?).ok()?;
    let mut entries: Vec<Entry> = Vec::with_capacity(count.min(block.len()));
    for _ in 0..count {
        let before = entries.last();
        let (depth, redirects, from) = match take_number(&mut rest)? {
            0 => before.map(|before| (before.depth, before.redirects, before.from.clone()))?,
            _ => {
                let depth = u32::try_from(take_number(&mut rest)?).ok()?;
                let redirects = u32::try_from(take_number(&mut rest)?).ok()?;
                (depth, redirects, Arc::from(take_text(&mut rest)?))
            }
        };
        let tries = u32::try_from(take_number(&mut rest)?).ok()?;
        let not_before_ms = take_number(&mut rest)?;
        let shared = usize::try_from(take_number(&mut rest)?).ok()?;
        let start = match before {
            Some(before) => before.url.get(..shared)?,
            None if shared == 0 => "",
            None => return None,
        };
        let end = take_text(&mut rest)?;
        entries.push(Entry {
            url: [start, end].concat().into(),
            depth,
            from,
            redirects,
            tries,
            not_before_ms,
        });
    }
    rest.is_empty().then_some(entries)
}

/// How many bytes two texts begin with alike, up to the end of a character.
fn shared_prefix(a: &str, b: &str) -> usize {
    let alike = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    (0..=alike)
        .rev()
        .find(|at| a.is_char_boundary(*at))
        .unwrap_or(0)
}

pub(super) fn put_number(block: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        block.push(number as u8 | 0x80);
        number >>= 7;
    }
    block.push(number as u8);
}

pub(super) fn take_number(block: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = block.split_first()?;
        *block = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn put_text(block: &mut Vec<u8>, text: &str) {
    put_number(block, text.len() as u64);
    block.extend_from_slice(text.as_bytes());
}

fn take_text<'a>(block: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(take_number(block)?).ok()?;
    let (text, rest) = block.split_at_checked(length)?;
    *block = rest;
    str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(
            entries in proptest::collection::vec(("[a-cé/]{0,12}", 0_u32..3, "[ab]{0,2}", 0_u32..2, 0_u32..4, any::<u64>()), 0..40)
        ) {
            let entry = |(url, depth, from, redirects, tries, not_before_ms): (String, u32, String, u32, u32, u64)| Entry {
                url: url.into(),
                depth,
                from: from.into(),
                redirects,
                tries,
                not_before_ms,
            };
            let entries: Vec<Entry> = entries.into_iter().map(entry).collect();
            prop_assert_eq!(decode(&encode(&entries)), Some(entries));
        }

        #[test]
        fn anything_else_is_not(mut block in proptest::collection::vec(any::<u8>(), 0..60), format in any::<bool>()) {
            if let (true, Some(first)) = (format, block.first_mut()) {
                *first = FORMAT;
            }
            decode(&block);
        }
    }
}
