//! What was found on a page.

use std::ops::Range;

use memchr::{memchr, memchr3};

use super::{LinkKind, RobotsRules, Rules};
use crate::html::decode_attribute_into;

/// What a page says. It can be used for one page after another without allocating again.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All addresses, one behind another.
    texts: String,
    links: Vec<Place>,
    base: Option<Range<usize>>,
    canonical: Option<Range<usize>>,
    /// What `<meta name=robots>` says.
    pub robots: RobotsRules,
    /// How many links were left out: too long, or leading nowhere.
    pub left_out: usize,
    /// Whether there were more links than allowed.
    pub is_cut: bool,
}

#[derive(Clone, Debug)]
struct Place {
    range: Range<usize>,
    kind: LinkKind,
    is_nofollow: bool,
}

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link<'a> {
    /// Where it leads, as the page has it: perhaps relative, never empty.
    pub address: &'a str,
    /// What it is.
    pub kind: LinkKind,
    /// Whether its `rel` says nofollow, ugc or sponsored.
    pub is_nofollow: bool,
}

impl Found {
    /// The links, in the order of the page. The same address may come more than once.
    pub fn links(&self) -> impl ExactSizeIterator<Item = Link<'_>> {
        self.links.iter().map(|place| Link {
            address: &self.texts[place.range.clone()],
            kind: place.kind,
            is_nofollow: place.is_nofollow,
        })
    }

    /// What `<base href>` says: the first one counts, for all links.
    pub fn base(&self) -> Option<&str> {
        self.base.clone().map(|range| &self.texts[range])
    }

    /// What the first `<link rel=canonical>` says.
    pub fn canonical(&self) -> Option<&str> {
        self.canonical.clone().map(|range| &self.texts[range])
    }

    /// The feeds that the page names, if they were asked for.
    pub fn feeds(&self) -> impl Iterator<Item = &str> {
        self.of_kind(LinkKind::Feed)
    }

    /// The sitemaps that the page names, if they were asked for.
    pub fn sitemaps(&self) -> impl Iterator<Item = &str> {
        self.of_kind(LinkKind::Sitemap)
    }

    fn of_kind(&self, kind: LinkKind) -> impl Iterator<Item = &str> {
        let links = self.links().filter(move |link| link.kind == kind);
        links.map(|link| link.address)
    }

    pub(super) fn clear(&mut self) {
        self.texts.clear();
        self.links.clear();
        self.base = None;
        self.canonical = None;
        self.robots = RobotsRules::default();
        self.left_out = 0;
        self.is_cut = false;
    }

    pub(super) fn add(&mut self, raw: &[u8], kind: LinkKind, is_nofollow: bool, rules: &Rules) {
        if self.links.len() >= rules.links_max {
            self.is_cut = true;
            return;
        }
        let start = self.texts.len();
        let range = self.push(raw, rules);
        match range.filter(|range| leads_somewhere(&self.texts[range.clone()])) {
            Some(range) => self.links.push(Place {
                range,
                kind,
                is_nofollow,
            }),
            None => {
                self.texts.truncate(start);
                self.left_out += 1;
            }
        }
    }

    pub(super) fn set_base(&mut self, raw: &[u8], rules: &Rules) {
        if self.base.is_none() {
            self.base = self.push(raw, rules);
        }
    }

    pub(super) fn set_canonical(&mut self, raw: &[u8], rules: &Rules) {
        if self.canonical.is_none() {
            let range = self.push(raw, rules);
            self.canonical = range.filter(|range| !range.is_empty());
        }
    }

    /// Adds an address to the texts, decoded and trimmed; nothing if it is too long.
    fn push(&mut self, raw: &[u8], rules: &Rules) -> Option<Range<usize>> {
        let raw = trim(raw);
        if raw.len() > rules.address_bytes_max {
            return None;
        }
        let start = self.texts.len();
        if memchr(b'&', raw).is_none() && memchr3(b'\t', b'\n', b'\r', raw).is_none() {
            crate::html::push_lossy(&mut self.texts, raw);
            return Some(start..self.texts.len());
        }
        let mut decoded = String::with_capacity(raw.len());
        decode_attribute_into(raw, &mut decoded);
        let trimmed = decoded.trim_matches(|character| character <= ' ');
        let is_kept = |character: &char| !matches!(character, '\t' | '\n' | '\r');
        self.texts.extend(trimmed.chars().filter(is_kept));
        Some(start..self.texts.len())
    }
}

/// Without spaces and control characters at both ends, as browsers do it.
fn trim(raw: &[u8]) -> &[u8] {
    let is_kept = |byte: &u8| *byte > b' ';
    let start = raw.iter().position(is_kept).unwrap_or(raw.len());
    let end = raw.iter().rposition(is_kept).map_or(start, |last| last + 1);
    &raw[start..end]
}

/// Whether an address may lead to another page: it is relative, or of the web.
fn leads_somewhere(address: &str) -> bool {
    let bytes = address.as_bytes();
    match bytes.first() {
        None | Some(b'#') => return false,
        Some(first) if !first.is_ascii_alphabetic() => return true,
        _ => (),
    }
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    match bytes.iter().position(|byte| !is_part(byte)) {
        Some(colon) if bytes[colon] == b':' => {
            let scheme = &bytes[..colon];
            scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"http")
        }
        _ => true,
    }
}
