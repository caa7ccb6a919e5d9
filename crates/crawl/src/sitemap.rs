//! Addresses in sitemaps, feeds and other XML.
//!
//! Sitemaps and indexes of sitemaps, also as plain text; RSS 0.9 to 2.0 and Atom; and of any other XML every `href`,
//! with a prefix such as `xlink:` or without. What is compressed is for the caller to unpack. Of entities only the five of XML
//! and references by number are known: a document that uses others in an address or a time ends there.
//!
//! ```
//! use crawl::sitemap::{Form, Limits, read_xml};
//!
//! let map = "<urlset><url><loc> https://a.example/?x=1&amp;y=2 </loc><lastmod>2024-02-29</lastmod></url></urlset>";
//! let listed = read_xml(map, &Limits::default());
//! assert_eq!(listed.form, Form::Pages);
//! assert_eq!(listed.entries[0].address, "https://a.example/?x=1&y=2");
//! assert_eq!(listed.entries[0].modified_ms, Some(1_709_164_800_000));
//! ```

mod time;
mod xml;

pub use xml::read_xml;

/// How much is read.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How many addresses.
    pub entries_max: usize,
    /// How many bytes of the document; 50 MB are what sitemaps may have.
    pub document_bytes_max: usize,
    /// How deep its elements may be nested.
    pub depth_max: usize,
    /// How long an address may be. Longer ones are left out.
    pub address_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entries_max: 50_000,
            document_bytes_max: 50 * 1_024 * 1_024,
            depth_max: 64,
            address_bytes_max: 2_048,
        }
    }
}

/// What form a document has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A sitemap of pages.
    Pages,
    /// An index of sitemaps.
    Index,
    /// An RSS feed.
    Rss,
    /// An Atom feed.
    Atom,
    /// Other XML.
    Xml,
    /// A sitemap in plain text.
    Text,
}

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A page.
    Page,
    /// Another sitemap.
    Sitemap,
    /// The next part of a feed.
    Feed,
}

/// An address in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As it is written, trimmed and decoded; perhaps relative.
    pub address: String,
    /// What it is.
    pub kind: EntryKind,
    /// When that changed, if it is said: milliseconds since 1970.
    pub modified_ms: Option<i64>,
}

/// What was found in a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What it is.
    pub form: Form,
    /// The addresses, in its order.
    pub entries: Vec<Entry>,
    /// Why it was not read to its end. What was found before counts.
    pub stopped: Option<Stopped>,
}

/// Why a document was not read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// It has too many addresses.
    #[error("there are more than {entries_max} addresses; the others were left out")]
    TooMany {
        /// How many may be.
        entries_max: usize,
    },
    /// It is too long.
    #[error("it is longer than {document_bytes_max} bytes; the rest was left out")]
    TooLong {
        /// How long it may be.
        document_bytes_max: usize,
    },
    /// It is nested too deep.
    #[error("its elements are nested deeper than {depth_max} levels")]
    TooDeep {
        /// How deep it may be.
        depth_max: usize,
    },
    /// It uses an entity that is none of XML.
    #[error("it uses the entity &{name}; at byte {at}, and entities of documents are refused")]
    Entity {
        /// The name of the entity.
        name: String,
        /// Where.
        at: u64,
    },
    /// It is not XML.
    #[error("it is broken at byte {at}: {reason}")]
    Broken {
        /// Where.
        at: u64,
        /// Why.
        reason: String,
    },
}

/// Reads a sitemap in plain text: one address a line. Lines that are no addresses of the web are left out.
pub fn read_text(text: &str, limits: &Limits) -> Listed {
    let (text, mut stopped) = bounded(text, limits);
    let mut entries = Vec::new();
    for line in text.lines().map(str::trim) {
        let is_address = ["http://", "https://"].iter().any(|start| {
            let beginning = line.get(..start.len());
            beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(start))
        });
        if !is_address || line.len() > limits.address_bytes_max {
            continue;
        }
        if entries.len() >= limits.entries_max {
            stopped = Some(Stopped::TooMany {
                entries_max: limits.entries_max,
            });
            break;
        }
        entries.push(Entry {
            address: line.to_owned(),
            kind: EntryKind::Page,
            modified_ms: None,
        });
    }
    Listed {
        form: Form::Text,
        entries,
        stopped,
    }
}

/// As much of a document as may be read, and whether that is not all.
fn bounded<'a>(text: &'a str, limits: &Limits) -> (&'a str, Option<Stopped>) {
    let document_bytes_max = limits.document_bytes_max;
    match text.len() <= document_bytes_max {
        true => (text, None),
        false => (
            &text[..text.floor_char_boundary(document_bytes_max)],
            Some(Stopped::TooLong { document_bytes_max }),
        ),
    }
}

#[cfg(test)]
mod tests;
