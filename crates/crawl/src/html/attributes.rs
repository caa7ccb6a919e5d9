//! The attributes of a tag.

use memchr::memchr;

use super::{Name, is_space};

/// An attribute as it is written: names keep their case, and nothing is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl Attribute<'_> {
    pub fn named(&self) -> Name {
        Name::of(self.name)
    }
}

/// Reads attributes one after another, from behind the name of a tag to its `>`. An attribute that is written twice comes
/// twice; the first one counts.
#[derive(Clone, Debug)]
pub(crate) struct Attributes<'a> {
    html: &'a [u8],
    at: usize,
    end: End,
}

/// How a tag ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Not yet, or never: the document is over before.
    Open,
    /// With `>`.
    Closed,
    /// With `/>`.
    SelfClosed,
}

/// What ends the name of an attribute.
static ENDS_NAME: [bool; 256] = table(b"\t\n\x0c\r />=");
/// What ends a value without quotes.
static ENDS_VALUE: [bool; 256] = table(b"\t\n\x0c\r >");

const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
}

impl<'a> Attributes<'a> {
    pub fn new(html: &'a [u8], at: usize) -> Self {
        Self {
            html,
            at,
            end: End::Open,
        }
    }

    /// Where reading goes on: behind the `>` once it has ended.
    pub fn at(&self) -> usize {
        self.at
    }

    /// How the tag ended.
    pub fn end(&self) -> End {
        self.end
    }

    /// The first value of this attribute.
    pub fn value_of(self, name: Name) -> Option<&'a [u8]> {
        let mut attributes = self;
        attributes
            .find(|attribute| attribute.named() == name)
            .map(|attribute| attribute.value)
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) {
        while self.html.get(self.at).is_some_and(|&byte| is_skipped(byte)) {
            self.at += 1;
        }
    }

    fn close(&mut self, end: End) {
        self.at += 1;
        self.end = end;
    }

    /// The value behind a `=`.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.skip(is_space);
        match *self.html.get(self.at)? {
            quote @ (b'"' | b'\'') => {
                let start = self.at + 1;
                let len = memchr(quote, self.html.get(start..)?);
                let end = start + len.or_else(|| self.run_out())?;
                self.at = end + 1;
                Some(&self.html[start..end])
            }
            b'>' => Some(&[]),
            _ => {
                let start = self.at;
                self.skip(|byte| !ENDS_VALUE[usize::from(byte)]);
                Some(&self.html[start..self.at])
            }
        }
    }

    /// The document is over within a tag.
    fn run_out<T>(&mut self) -> Option<T> {
        self.at = self.html.len();
        None
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        if self.end != End::Open {
            return None;
        }
        let before = self.at;
        self.skip(|byte| is_space(byte) || byte == b'/');
        if *self.html.get(self.at)? == b'>' {
            let is_self_closed = self.html[before..self.at].ends_with(b"/");
            self.close(match is_self_closed {
                true => End::SelfClosed,
                false => End::Closed,
            });
            return None;
        }
        let start = self.at;
        // A `=` where a name should begin is part of the name.
        self.at += 1;
        self.skip(|byte| !ENDS_NAME[usize::from(byte)]);
        let name = &self.html[start..self.at];
        self.skip(is_space);
        let value: &[u8] = match self.html.get(self.at)? {
            b'=' => {
                self.at += 1;
                self.value()?
            }
            _ => &[],
        };
        Some(Attribute { name, value })
    }
}
