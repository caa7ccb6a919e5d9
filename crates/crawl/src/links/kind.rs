//! Kinds of links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::words;

/// What a link is, by the element it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// `<a href>`.
    Anchor,
    /// `<area href>`, in a map of an image.
    Area,
    /// `<iframe src>` and `<frame src>`.
    Frame,
    /// `<meta http-equiv=refresh>`.
    Refresh,
    /// `<link rel=canonical>`: under which address the page wants to be known.
    Canonical,
    /// `<link rel=next>`.
    Next,
    /// `<link rel=prev>`.
    Previous,
    /// `<link rel=alternate>` that is no feed: the page in another language or form.
    Alternate,
    /// `<link rel=alternate>` to an RSS, Atom or JSON feed.
    Feed,
    /// `<link rel=sitemap>`.
    Sitemap,
    /// Other `<link>` elements that lead to pages: author, help, license, first, last, up, amphtml and the like.
    Related,
    /// `<link rel=stylesheet>`.
    Stylesheet,
    /// `<link rel=icon>` and its variants.
    Icon,
    /// `<img src>`, every candidate of `srcset`, and the poster of a video.
    Image,
    /// `<video>`, `<audio>`, `<source>`, `<track>`, `<embed>` and `<object>`.
    Media,
    /// `<script src>`.
    Script,
}

/// A set of kinds. The default is what leads to pages, feeds and sitemaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// What leads to pages.
    pub const PAGES: Self = Self::of(&[
        LinkKind::Anchor,
        LinkKind::Area,
        LinkKind::Frame,
        LinkKind::Refresh,
        LinkKind::Canonical,
        LinkKind::Next,
        LinkKind::Previous,
        LinkKind::Alternate,
        LinkKind::Related,
    ]);

    /// These kinds.
    pub const fn of(kinds: &[LinkKind]) -> Self {
        let mut set = 0;
        let mut at = 0;
        while at < kinds.len() {
            set |= 1 << kinds[at] as u32;
            at += 1;
        }
        Self(set)
    }

    /// Those of either set.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether this kind is in it.
    pub const fn has(self, kind: LinkKind) -> bool {
        self.0 & (1 << kind as u32) != 0
    }
}

impl Default for Kinds {
    fn default() -> Self {
        Self::PAGES.and(Self::of(&[LinkKind::Feed, LinkKind::Sitemap]))
    }
}

/// What `<link rel=…>` means. A sheet of style that is an alternate one is a sheet of style.
pub(super) fn of_relation(rel: &[u8], mime: &[u8]) -> Option<LinkKind> {
    let kinds = words(rel).filter_map(|word| of_word(word, mime));
    kinds.min_by_key(|kind| match kind {
        LinkKind::Canonical => 0,
        LinkKind::Stylesheet => 1,
        LinkKind::Icon => 2,
        LinkKind::Sitemap => 3,
        LinkKind::Next | LinkKind::Previous => 4,
        LinkKind::Feed | LinkKind::Alternate => 5,
        _ => 6,
    })
}

fn of_word(word: &[u8], mime: &[u8]) -> Option<LinkKind> {
    Some(match &*word.to_ascii_lowercase() {
        b"canonical" => LinkKind::Canonical,
        b"next" => LinkKind::Next,
        b"prev" | b"previous" => LinkKind::Previous,
        b"alternate" if is_feed(mime) => LinkKind::Feed,
        b"alternate" => LinkKind::Alternate,
        b"feed" => LinkKind::Feed,
        b"sitemap" => LinkKind::Sitemap,
        b"stylesheet" => LinkKind::Stylesheet,
        b"icon" | b"apple-touch-icon" | b"mask-icon" => LinkKind::Icon,
        b"amphtml" | b"author" | b"bookmark" | b"chapter" | b"contents" | b"first"
        | b"glossary" | b"help" | b"index" | b"last" | b"license" | b"privacy-policy"
        | b"section" | b"start" | b"terms-of-service" | b"toc" | b"up" => LinkKind::Related,
        _ => return None,
    })
}

fn is_feed(mime: &[u8]) -> bool {
    let essence = mime.split(|&byte| byte == b';').next();
    let essence = essence
        .unwrap_or_default()
        .trim_ascii()
        .to_ascii_lowercase();
    matches!(
        &*essence,
        b"application/rss+xml"
            | b"application/atom+xml"
            | b"application/feed+json"
            | b"application/rdf+xml"
    )
}
