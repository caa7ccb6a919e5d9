//! A frame and its headers, borrowed from the bytes they were read from.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use memchr::memchr;

use super::Command;

/// One frame. Its body and, unless they hold escapes, its headers are slices of the input.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// What the frame asks for or tells.
    pub command: Command,
    /// The body, without the final NUL.
    pub body: &'a [u8],
    pub(super) headers: HeaderBlock<'a>,
}

impl<'a> Frame<'a> {
    /// The value of the first header of that name; the protocol says that the first one counts.
    #[inline]
    pub fn header(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut cursor = Cursor::default();
        while let Some(line) = self.headers.next_line(&mut cursor) {
            if self.headers.is_named(line.name.clone(), name) {
                return Some(self.headers.text(line.value));
            }
        }
        None
    }

    /// All headers as (name, value), in the order in which they were sent.
    pub fn headers(&self) -> Headers<'a> {
        Headers {
            block: self.headers,
            cursor: Cursor::default(),
        }
    }
}

impl fmt::Debug for Frame<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Frame")
            .field("command", &self.command)
            .field("headers", &self.headers().collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// The header lines of a frame as they stand on the wire. The decoder has checked that each line
/// has a colon and that every escape is a defined one.
#[derive(Clone, Copy)]
pub(super) struct HeaderBlock<'a> {
    pub(super) bytes: &'a [u8],
    /// The same bytes as text. `None`: not UTF-8, which only 1.0 allows; then each byte is taken as
    /// a character of Latin-1, so that different values stay different.
    pub(super) text: Option<&'a str>,
    /// Some line holds an escape.
    pub(super) escaped: bool,
    /// Lines may end in CR LF.
    pub(super) carriage_returns: bool,
    /// Where the first lines stand.
    pub(super) index: HeaderIndex,
}

/// As many lines as this are found without searching; few frames have more.
const INDEXED_LINES_MAX: usize = 8;

/// Where the first lines of a block stand, so that looking a header up takes no search and a frame
/// no allocation. Offsets count from the start of the block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeaderIndex {
    lines: [IndexedLine; INDEXED_LINES_MAX],
    count: u8,
    /// Some line came too late, or too far from the start, to be noted.
    full: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct IndexedLine {
    start: u16,
    colon: u16,
    /// Where the value ends, before the line end.
    end: u16,
}

impl HeaderIndex {
    /// Notes a line if there is room; lines are noted from the first on, without gaps.
    #[inline]
    pub(super) fn note(&mut self, start: usize, colon: usize, end: usize) {
        let slot = self.lines.get_mut(usize::from(self.count));
        match (slot, u16::try_from(end)) {
            (Some(slot), Ok(end)) if !self.full => {
                // Both are smaller than the end, which fits.
                let (start, colon) = (start as u16, colon as u16);
                *slot = IndexedLine { start, colon, end };
                self.count += 1;
            }
            _ => self.full = true,
        }
    }

    #[inline]
    fn noted(&self) -> &[IndexedLine] {
        &self.lines[..usize::from(self.count)]
    }
}

/// Which line comes next: the number of a noted one, or where one starts that was not noted.
#[derive(Clone, Copy, Default)]
struct Cursor {
    number: usize,
    position: Option<usize>,
}

/// Where the parts of a header line stand in the block.
struct Line {
    name: Range<usize>,
    value: Range<usize>,
}

impl HeaderBlock<'_> {
    #[inline]
    fn next_line(&self, cursor: &mut Cursor) -> Option<Line> {
        if let Some(line) = self.index.noted().get(cursor.number) {
            cursor.number += 1;
            let (start, colon, end) = (line.start.into(), line.colon.into(), line.end.into());
            return Some(Line {
                name: start..colon,
                value: colon + 1..end,
            });
        }
        if self.index.full {
            return self.search_line(cursor);
        }
        None
    }

    fn search_line(&self, cursor: &mut Cursor) -> Option<Line> {
        let start = cursor.position.unwrap_or_else(|| self.after_noted());
        let line_feed = start + memchr(b'\n', &self.bytes[start..])?;
        cursor.position = Some(line_feed + 1);
        let line = &self.bytes[start..line_feed];
        let end = match line {
            [.., b'\r'] if self.carriage_returns => line_feed - 1,
            _ => line_feed,
        };
        let colon = start + memchr(b':', line)?;
        Some(Line {
            name: start..colon,
            value: colon + 1..end,
        })
    }

    /// Where the first line starts that was not noted.
    fn after_noted(&self) -> usize {
        let Some(last) = self.index.noted().last() else {
            return 0;
        };
        let end = usize::from(last.end);
        memchr(b'\n', &self.bytes[end..]).map_or(self.bytes.len(), |found| end + found + 1)
    }
}

impl<'a> HeaderBlock<'a> {
    #[inline]
    fn is_named(&self, range: Range<usize>, name: &str) -> bool {
        let raw = &self.bytes[range.clone()];
        let escaped = self.escaped && raw.contains(&b'\\');
        if escaped || self.text.is_none() {
            return self.text(range) == name;
        }
        raw == name.as_bytes()
    }

    #[inline]
    fn text(&self, range: Range<usize>) -> Cow<'a, str> {
        match self.text {
            Some(text) if self.escaped => unescape(&text[range]),
            Some(text) => Cow::Borrowed(&text[range]),
            None => Cow::Owned(self.bytes[range].iter().copied().map(char::from).collect()),
        }
    }
}

fn unescape(text: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'\\', text.as_bytes()) else {
        return Cow::Borrowed(text);
    };
    let mut plain = String::with_capacity(text.len());
    plain.push_str(&text[..first]);
    let mut characters = text[first..].chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => characters.next().map_or('\\', unescaped),
            other => other,
        });
    }
    Cow::Owned(plain)
}

fn unescaped(escape: char) -> char {
    match escape {
        'n' => '\n',
        'c' => ':',
        'r' => '\r',
        // The decoder let nothing else through than a backslash.
        other => other,
    }
}

/// The headers of a frame, one by one.
#[derive(Clone)]
pub struct Headers<'a> {
    block: HeaderBlock<'a>,
    cursor: Cursor,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (Cow<'a, str>, Cow<'a, str>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let line = self.block.next_line(&mut self.cursor)?;
        Some((self.block.text(line.name), self.block.text(line.value)))
    }
}
