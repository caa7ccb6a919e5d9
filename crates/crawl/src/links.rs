//! Links of HTML and XHTML pages, and what a page says about being followed and indexed.
//!
//! ```
//! use crawl::links::{Found, LinkKind, Rules, extract};
//!
//! let mut found = Found::default();
//! extract(br#"<base href="/b/"><a href=" c?x=1&amp;y=2 " rel=nofollow>"#, &Rules::default(), &mut found);
//! assert_eq!(found.base(), Some("/b/"));
//! let link = found.links().next().unwrap();
//! assert_eq!((link.address, link.kind, link.is_nofollow), ("c?x=1&y=2", LinkKind::Anchor, true));
//! ```
//!
//! What it does not do: it resolves nothing. Addresses are as the page has them, decoded and trimmed as browsers do; those
//! that cannot lead to another page (`javascript:`, `mailto:`, `#part`, nothing at all) are left out.

mod found;
mod kind;
mod refresh;
mod robots;
mod srcset;

use crate::html::{Name, Syntax, Tag, Token, Tokens, is_space};

pub use found::{Found, Link};
pub use kind::{Kinds, LinkKind};
pub use robots::RobotsRules;

/// What is looked for, and how much of it.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Which kinds of links.
    pub kinds: Kinds,
    /// How many links of a page; [`Found::is_cut`] tells if there were more.
    pub links_max: usize,
    /// How long an address may be, as the page has it. Longer ones are left out.
    pub address_bytes_max: usize,
    /// The name under which `<meta name=…>` speaks to this crawler alone, besides `robots`.
    pub robot: String,
    /// Whether the page is XHTML by its type.
    pub is_xhtml: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            kinds: Kinds::default(),
            links_max: 10_000,
            address_bytes_max: 2_048,
            robot: "hivewire".to_owned(),
            is_xhtml: false,
        }
    }
}

/// Puts what a page says into `found`, in place of what was there. The page should be UTF-8.
pub fn extract(html: &[u8], rules: &Rules, found: &mut Found) {
    found.clear();
    let syntax = match rules.is_xhtml {
        true => Syntax::Xhtml,
        false => Syntax::Html,
    };
    let mut page = Page { rules, found };
    for token in Tokens::new(html, syntax) {
        if let Token::Start(tag) = token {
            page.take(&tag);
        }
    }
}

struct Page<'a> {
    rules: &'a Rules,
    found: &'a mut Found,
}

impl Page<'_> {
    fn take(&mut self, tag: &Tag<'_>) {
        match tag.name {
            Name::A => self.anchor(tag, LinkKind::Anchor),
            Name::AREA => self.anchor(tag, LinkKind::Area),
            Name::LINK => self.link(tag),
            Name::META => self.meta(tag),
            Name::BASE => {
                if let Some(base) = tag.attribute(Name::HREF) {
                    self.found.set_base(base, self.rules);
                }
            }
            Name::IFRAME | Name::FRAME => self.attribute(tag, Name::SRC, LinkKind::Frame),
            Name::SCRIPT => self.attribute(tag, Name::SRC, LinkKind::Script),
            Name::IMG => self.image(tag, LinkKind::Image),
            Name::SOURCE => self.image(tag, LinkKind::Media),
            Name::VIDEO => {
                self.attribute(tag, Name::SRC, LinkKind::Media);
                self.attribute(tag, Name::POSTER, LinkKind::Image);
            }
            Name::AUDIO | Name::TRACK | Name::EMBED => {
                self.attribute(tag, Name::SRC, LinkKind::Media);
            }
            Name::OBJECT => self.attribute(tag, Name::DATA, LinkKind::Media),
            _ => (),
        }
    }

    fn wants(&self, kind: LinkKind) -> bool {
        self.rules.kinds.has(kind)
    }

    fn anchor(&mut self, tag: &Tag<'_>, kind: LinkKind) {
        if !self.wants(kind) {
            return;
        }
        let (mut href, mut rel) = (None, None);
        for attribute in tag.attributes.clone() {
            match attribute.named() {
                Name::HREF if href.is_none() => href = Some(attribute.value),
                Name::REL if rel.is_none() => rel = Some(attribute.value),
                _ => (),
            }
        }
        if let Some(href) = href {
            let is_nofollow = rel.is_some_and(says_nofollow);
            self.found.add(href, kind, is_nofollow, self.rules);
        }
    }

    fn attribute(&mut self, tag: &Tag<'_>, name: Name, kind: LinkKind) {
        if self.wants(kind)
            && let Some(address) = tag.attribute(name)
        {
            self.found.add(address, kind, false, self.rules);
        }
    }

    /// What has `src` and `srcset`. The sources of a picture have only the latter.
    fn image(&mut self, tag: &Tag<'_>, kind: LinkKind) {
        self.attribute(tag, Name::SRC, kind);
        if self.wants(LinkKind::Image)
            && let Some(srcset) = tag.attribute(Name::SRCSET)
        {
            for address in srcset::addresses(srcset) {
                self.found.add(address, LinkKind::Image, false, self.rules);
            }
        }
    }

    fn link(&mut self, tag: &Tag<'_>) {
        let (mut href, mut rel, mut mime) = (None, None, None);
        for attribute in tag.attributes.clone() {
            let place = match attribute.named() {
                Name::HREF => &mut href,
                Name::REL => &mut rel,
                Name::TYPE => &mut mime,
                _ => continue,
            };
            *place = place.or(Some(attribute.value));
        }
        let (Some(href), Some(rel)) = (href, rel) else {
            return;
        };
        let Some(kind) = kind::of_relation(rel, mime.unwrap_or_default()) else {
            return;
        };
        if kind == LinkKind::Canonical {
            self.found.set_canonical(href, self.rules);
        }
        if self.wants(kind) {
            self.found.add(href, kind, says_nofollow(rel), self.rules);
        }
    }

    fn meta(&mut self, tag: &Tag<'_>) {
        let (mut name, mut content, mut equivalent) = (None, None, None);
        for attribute in tag.attributes.clone() {
            let place = match attribute.named() {
                Name::NAME => &mut name,
                Name::CONTENT => &mut content,
                Name::HTTP_EQUIV => &mut equivalent,
                _ => continue,
            };
            *place = place.or(Some(attribute.value));
        }
        let Some(content) = content else {
            return;
        };
        if name.is_some_and(|name| self.is_spoken_to(name)) {
            self.found.robots.add(content);
        }
        let is_refresh =
            equivalent.is_some_and(|header| header.trim_ascii().eq_ignore_ascii_case(b"refresh"));
        if is_refresh
            && self.wants(LinkKind::Refresh)
            && let Some(address) = refresh::address(content)
        {
            self.found
                .add(address, LinkKind::Refresh, false, self.rules);
        }
    }

    fn is_spoken_to(&self, name: &[u8]) -> bool {
        let name = name.trim_ascii();
        let robot = self.rules.robot.as_bytes();
        name.eq_ignore_ascii_case(b"robots")
            || !robot.is_empty() && name.eq_ignore_ascii_case(robot)
    }
}

fn says_nofollow(rel: &[u8]) -> bool {
    words(rel).any(|word| {
        [&b"nofollow"[..], b"ugc", b"sponsored"]
            .iter()
            .any(|other| word.eq_ignore_ascii_case(other))
    })
}

/// The words of a list that is separated by white space.
fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|&byte| is_space(byte))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
