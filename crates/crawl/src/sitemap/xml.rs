//! Reads documents in XML.

use quick_xml::Reader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::{Entry, EntryKind, Form, Limits, Listed, Stopped, bounded, time};

/// Reads a document, whatever it turns out to be by its outermost element.
pub fn read_xml(text: &str, limits: &Limits) -> Listed {
    let (text, too_long) = bounded(text, limits);
    let mut document = Document {
        limits,
        form: Form::Xml,
        entries: Vec::new(),
        depth: 0,
        item: None,
        collecting: None,
        collected: String::new(),
    };
    let stopped = document.read(text).err();
    let Document { form, entries, .. } = document;
    Listed {
        form,
        entries,
        // What is cut off is broken, too, but that is not what is wrong with it.
        stopped: match stopped {
            Some(Stopped::Broken { .. }) | None if too_long.is_some() => too_long,
            other => other,
        },
    }
}

/// What an element has that stands for one address.
#[derive(Default)]
struct Item {
    depth: usize,
    address: Option<String>,
    /// An address that counts if there is no better one.
    fallback: Option<String>,
    modified_ms: Option<i64>,
}

/// An element whose text is collected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Collecting {
    Address,
    Fallback,
    Time,
}

struct Document<'a> {
    limits: &'a Limits,
    form: Form,
    entries: Vec<Entry>,
    depth: usize,
    item: Option<Item>,
    collecting: Option<Collecting>,
    collected: String,
}

impl Document<'_> {
    fn read(&mut self, text: &str) -> Result<(), Stopped> {
        let mut reader = Reader::from_str(text);
        reader.config_mut().allow_dangling_amp = true;
        loop {
            let event = reader.read_event().map_err(|error| Stopped::Broken {
                at: reader.error_position(),
                reason: error.to_string(),
            })?;
            let at = reader.buffer_position();
            match event {
                Event::Start(element) => {
                    self.start(&element, at)?;
                    self.depth += 1;
                    if self.depth > self.limits.depth_max {
                        return Err(Stopped::TooDeep {
                            depth_max: self.limits.depth_max,
                        });
                    }
                }
                Event::Empty(element) => {
                    self.start(&element, at)?;
                    self.end()?;
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    self.end()?;
                }
                Event::Text(text) => self.collect(&text),
                Event::CData(text) => self.collect(&text),
                Event::GeneralRef(reference) => self.reference(&reference, at)?,
                Event::Eof => return Ok(()),
                _ => (),
            }
        }
    }

    fn start(&mut self, element: &BytesStart<'_>, at: u64) -> Result<(), Stopped> {
        let local = element.local_name();
        let name: &str = local.as_ref();
        if self.depth == 0 {
            self.form = match name {
                "urlset" => Form::Pages,
                "sitemapindex" => Form::Index,
                "rss" | "RDF" => Form::Rss,
                "feed" => Form::Atom,
                _ => Form::Xml,
            };
        }
        // Images and videos of a page are written with a prefix.
        let is_plain = element.name().prefix().is_none();
        match (self.form, name) {
            (Form::Xml, _) => return self.take_references(element, at),
            (Form::Pages, "url")
            | (Form::Index, "sitemap")
            | (Form::Rss, "item")
            | (Form::Atom, "entry") => {
                self.item = Some(Item {
                    depth: self.depth,
                    ..Item::default()
                });
            }
            (Form::Pages, "link") => return self.take_alternate(element, at),
            (Form::Pages | Form::Index, "loc") if is_plain => self.begin(Collecting::Address),
            (Form::Pages | Form::Index, "lastmod") => self.begin(Collecting::Time),
            (Form::Rss, "link") if is_plain => self.begin(Collecting::Address),
            (Form::Rss, "guid")
                if attribute(element, "isPermaLink", at)?.as_deref() != Some("false") =>
            {
                self.begin(Collecting::Fallback);
            }
            (Form::Rss, "pubDate" | "date") | (Form::Atom, "updated") => {
                self.begin(Collecting::Time)
            }
            (Form::Atom, "link") => return self.take_atom_link(element, at),
            _ => (),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stopped> {
        self.finish_collecting()?;
        match self.item.take_if(|item| item.depth == self.depth) {
            Some(item) => match item.address.or(item.fallback) {
                Some(address) => self.add(address, self.kind_of_items(), item.modified_ms),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    fn kind_of_items(&self) -> EntryKind {
        match self.form {
            Form::Index => EntryKind::Sitemap,
            _ => EntryKind::Page,
        }
    }

    fn begin(&mut self, what: Collecting) {
        self.collecting = Some(what);
        self.collected.clear();
    }

    fn collect(&mut self, text: &str) {
        // One byte more than allowed is kept, so that it is seen to be too long.
        let room = (self.limits.address_bytes_max + 64).saturating_sub(self.collected.len());
        if self.collecting.is_some() {
            self.collected
                .push_str(&text[..text.floor_char_boundary(room)]);
        }
    }

    fn reference(&mut self, reference: &BytesRef<'_>, at: u64) -> Result<(), Stopped> {
        if self.collecting.is_some() {
            let decoded = decode(&format!("&{};", &**reference), at)?;
            self.collect(&decoded);
        }
        Ok(())
    }

    fn finish_collecting(&mut self) -> Result<(), Stopped> {
        let Some(what) = self.collecting.take() else {
            return Ok(());
        };
        let text = self.collected.trim().to_owned();
        match (&mut self.item, what) {
            (Some(item), Collecting::Address) => item.address = item.address.take().or(Some(text)),
            (Some(item), Collecting::Fallback) => item.fallback = Some(text),
            (Some(item), Collecting::Time) => item.modified_ms = time::read(&text),
            // The page that a feed belongs to.
            (None, Collecting::Address) if self.form == Form::Rss => {
                return self.add(text, EntryKind::Page, None);
            }
            _ => (),
        }
        Ok(())
    }

    /// A page of a sitemap in another language.
    fn take_alternate(&mut self, element: &BytesStart<'_>, at: u64) -> Result<(), Stopped> {
        let relation = attribute(element, "rel", at)?;
        match attribute(element, "href", at)? {
            Some(address) if relation.as_deref() == Some("alternate") => {
                self.add(address, EntryKind::Page, None)
            }
            _ => Ok(()),
        }
    }

    fn take_atom_link(&mut self, element: &BytesStart<'_>, at: u64) -> Result<(), Stopped> {
        let relation = attribute(element, "rel", at)?;
        let Some(address) = attribute(element, "href", at)? else {
            return Ok(());
        };
        match (relation.as_deref(), &mut self.item) {
            (None | Some("alternate"), Some(item)) => {
                item.address.get_or_insert(address);
                Ok(())
            }
            (None | Some("alternate"), None) => self.add(address, EntryKind::Page, None),
            (Some("next" | "prev-archive" | "next-archive"), None) => {
                self.add(address, EntryKind::Feed, None)
            }
            _ => Ok(()),
        }
    }

    /// Every `href` of an element of XML that has no form we know.
    fn take_references(&mut self, element: &BytesStart<'_>, at: u64) -> Result<(), Stopped> {
        match attribute(element, "href", at)? {
            Some(address) => self.add(address, EntryKind::Page, None),
            None => Ok(()),
        }
    }

    fn add(
        &mut self,
        address: String,
        kind: EntryKind,
        modified_ms: Option<i64>,
    ) -> Result<(), Stopped> {
        let address = address.trim();
        if address.is_empty()
            || address.starts_with('#')
            || address.len() > self.limits.address_bytes_max
        {
            return Ok(());
        }
        if self.entries.len() >= self.limits.entries_max {
            return Err(Stopped::TooMany {
                entries_max: self.limits.entries_max,
            });
        }
        self.entries.push(Entry {
            address: address.to_owned(),
            kind,
            modified_ms,
        });
        Ok(())
    }
}

/// An attribute of an element, whatever prefix its name has. Those that are broken are passed over.
fn attribute(element: &BytesStart<'_>, name: &str, at: u64) -> Result<Option<String>, Stopped> {
    let mut attributes = element.attributes();
    attributes.with_checks(false);
    let found = attributes
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name);
    found
        .map(|attribute| decode(&attribute.value, at))
        .transpose()
}

/// Decodes what only XML itself knows.
fn decode(raw: &str, at: u64) -> Result<String, Stopped> {
    use quick_xml::escape::EscapeError;
    match unescape(raw) {
        Ok(text) => Ok(text.into_owned()),
        Err(EscapeError::UnrecognizedEntity(_, name)) => Err(Stopped::Entity { name, at }),
        // An ampersand that nobody escaped.
        Err(EscapeError::UnterminatedEntity(_)) => Ok(raw.to_owned()),
        Err(error) => Err(Stopped::Broken {
            at,
            reason: error.to_string(),
        }),
    }
}
