//! Goes through a page once and keeps what people read.

use memchr::memchr;

use super::folded::{Folded, Gap};
use super::{Readable, Rules, language};
use crate::html::{Name, Syntax, Tag, Token, Tokens, decode_attribute_into, decode_text_into};

/// What came of one reading.
pub(super) struct Reading {
    pub readable: Readable,
    /// Whether anything was left out that surrounds the content.
    pub has_left_out: bool,
}

struct Page<'a> {
    rules: &'a Rules,
    keeps_surroundings: bool,
    text: Folded,
    heading: Option<Folded>,
    is_in_heading: bool,
    title: Option<String>,
    is_in_title: bool,
    shared_title: Option<String>,
    description: Option<String>,
    shared_description: Option<String>,
    language: Option<String>,
    /// The element that is left out, and how many of its name are open.
    left_out: Option<(Name, usize)>,
    has_left_out: bool,
    /// How many elements are open that hold content.
    content_depth: usize,
    scratch: String,
}

pub(super) fn read(
    html: &[u8],
    syntax: Syntax,
    rules: &Rules,
    keeps_surroundings: bool,
) -> Reading {
    let mut page = Page {
        rules,
        keeps_surroundings,
        text: Folded::new(rules.text_bytes_max),
        heading: None,
        is_in_heading: false,
        title: None,
        is_in_title: false,
        shared_title: None,
        description: None,
        shared_description: None,
        language: None,
        left_out: None,
        has_left_out: false,
        content_depth: 0,
        scratch: String::new(),
    };
    for token in Tokens::new(html, syntax) {
        match token {
            Token::Start(tag) => page.start(&tag),
            Token::End(name) => page.end(name),
            Token::Text {
                raw,
                has_references,
            } => page.text(raw, has_references),
        }
    }
    page.finish(keeps_surroundings)
}

impl Page<'_> {
    fn finish(self, keeps_surroundings: bool) -> Reading {
        let (text, is_cut) = self.text.finish();
        let heading = self.heading.map(|heading| heading.finish().0);
        let is_there = |text: &String| !text.is_empty();
        let title = self.title.filter(is_there);
        let shared_title = self.shared_title.filter(is_there);
        let description = self.description.filter(is_there);
        let readable = Readable {
            title: title.or(shared_title).or(heading.filter(is_there)),
            description: description.or(self.shared_description.filter(is_there)),
            language: self.language,
            text,
            is_cut,
            has_surroundings: keeps_surroundings,
        };
        Reading {
            readable,
            has_left_out: self.has_left_out,
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        if let Some((name, depth)) = &mut self.left_out {
            match *name == tag.name {
                false => return,
                // The end tag of these may be missing.
                true if may_stay_open(tag.name) => self.left_out = None,
                true => {
                    *depth += usize::from(!tag.is_self_closed);
                    return;
                }
            }
        }
        if self.leaves_out(tag) {
            self.left_out = Some((tag.name, 1));
            self.text.gap(gap_of(tag.name));
            return;
        }
        match tag.name {
            Name::HTML => self.read_language(tag),
            Name::META => self.read_meta(tag),
            Name::TITLE => self.is_in_title = self.title.is_none(),
            Name::H1 if self.heading.is_none() => {
                self.heading = Some(Folded::new(self.rules.title_bytes_max));
                self.is_in_heading = true;
            }
            Name::MAIN | Name::ARTICLE => self.content_depth += 1,
            _ => (),
        }
        self.text.gap(gap_of(tag.name));
    }

    fn end(&mut self, name: Name) {
        if let Some((left_out, depth)) = &mut self.left_out {
            if *left_out == name {
                *depth -= 1;
                if *depth == 0 {
                    self.left_out = None;
                }
            }
            return;
        }
        match name {
            Name::TITLE => self.is_in_title = false,
            Name::H1 => self.is_in_heading = false,
            Name::MAIN | Name::ARTICLE => self.content_depth = self.content_depth.saturating_sub(1),
            _ => (),
        }
        self.text.gap(gap_of(name));
    }

    fn text(&mut self, raw: &[u8], has_references: bool) {
        if self.left_out.is_some() {
            return;
        }
        let mut text = raw;
        if has_references && memchr(b'&', raw).is_some() {
            self.scratch.clear();
            decode_text_into(raw, &mut self.scratch);
            text = self.scratch.as_bytes();
        }
        if self.is_in_title {
            self.title = Some(fold(text, self.rules));
            return;
        }
        if self.is_in_heading
            && let Some(heading) = &mut self.heading
        {
            heading.push(text);
        }
        self.text.push(text);
    }

    /// Whether an element and everything in it is not read.
    fn leaves_out(&mut self, tag: &Tag<'_>) -> bool {
        if tag.is_self_closed || is_void(tag.name) {
            return false;
        }
        if is_never_read(tag.name) {
            return true;
        }
        let surrounds = match tag.name {
            Name::NAV
            | Name::ASIDE
            | Name::FOOTER
            | Name::NOSCRIPT
            | Name::BUTTON
            | Name::DIALOG => true,
            Name::HEADER => self.content_depth == 0,
            // What holds all cannot surround anything.
            Name::HTML | Name::BODY | Name::MAIN | Name::ARTICLE => return false,
            _ => is_marked(tag),
        };
        self.has_left_out |= surrounds;
        surrounds && !self.keeps_surroundings
    }

    fn read_language(&mut self, tag: &Tag<'_>) {
        let lang = tag
            .attribute(Name::LANG)
            .or_else(|| tag.attribute(Name::XML_LANG));
        if self.language.is_none() {
            self.language = lang
                .map(String::from_utf8_lossy)
                .and_then(|lang| language::of_attribute(&lang));
        }
    }

    fn read_meta(&mut self, tag: &Tag<'_>) {
        let name = tag
            .attribute(Name::NAME)
            .or_else(|| tag.attribute(Name::PROPERTY));
        let (Some(name), Some(content)) = (name, tag.attribute(Name::CONTENT)) else {
            return;
        };
        let place = match &*name.trim_ascii().to_ascii_lowercase() {
            b"description" => &mut self.description,
            b"og:title" => &mut self.shared_title,
            b"og:description" => &mut self.shared_description,
            _ => return,
        };
        if place.is_none() {
            let mut decoded = String::new();
            decode_attribute_into(content, &mut decoded);
            *place = Some(fold(decoded.as_bytes(), self.rules));
        }
    }
}

fn fold(text: &[u8], rules: &Rules) -> String {
    let mut folded = Folded::new(rules.title_bytes_max);
    folded.push(text);
    folded.finish().0
}

/// Elements whose text is not for reading.
fn is_never_read(name: Name) -> bool {
    matches!(
        name,
        Name::SCRIPT
            | Name::STYLE
            | Name::TEMPLATE
            | Name::SVG
            | Name::IFRAME
            | Name::NOEMBED
            | Name::NOFRAMES
            | Name::TEXTAREA
            | Name::SELECT
    )
}

fn is_void(name: Name) -> bool {
    matches!(
        name,
        Name::AREA
            | Name::BASE
            | Name::BR
            | Name::EMBED
            | Name::HR
            | Name::IMG
            | Name::INPUT
            | Name::LINK
            | Name::META
            | Name::SOURCE
            | Name::TRACK
    )
}

/// Elements whose end tag may be left out: the next one of them ends them.
fn may_stay_open(name: Name) -> bool {
    matches!(
        name,
        Name::P | Name::LI | Name::DT | Name::DD | Name::OPTION | Name::TR | Name::TD | Name::TH
    )
}

/// Whether attributes say that an element is hidden, or surrounds the content.
fn is_marked(tag: &Tag<'_>) -> bool {
    tag.attributes
        .clone()
        .any(|attribute| match attribute.named() {
            Name::HIDDEN => !attribute.value.eq_ignore_ascii_case(b"until-found"),
            Name::ARIA_HIDDEN => attribute.value.eq_ignore_ascii_case(b"true"),
            Name::ROLE => matches!(
                &*attribute.value.trim_ascii().to_ascii_lowercase(),
                b"navigation" | b"banner" | b"contentinfo" | b"complementary" | b"search"
            ),
            _ => false,
        })
}

/// What stands around an element.
fn gap_of(name: Name) -> Gap {
    match name {
        Name::TD | Name::TH => Gap::Tab,
        Name::ADDRESS
        | Name::ARTICLE
        | Name::ASIDE
        | Name::BLOCKQUOTE
        | Name::BODY
        | Name::BR
        | Name::CAPTION
        | Name::CENTER
        | Name::DD
        | Name::DETAILS
        | Name::DIALOG
        | Name::DIV
        | Name::DL
        | Name::DT
        | Name::FIELDSET
        | Name::FIGCAPTION
        | Name::FIGURE
        | Name::FOOTER
        | Name::FORM
        | Name::H1
        | Name::H2
        | Name::H3
        | Name::H4
        | Name::H5
        | Name::H6
        | Name::HEADER
        | Name::HR
        | Name::LEGEND
        | Name::LI
        | Name::MAIN
        | Name::MENU
        | Name::NAV
        | Name::OL
        | Name::OPTION
        | Name::P
        | Name::PRE
        | Name::SECTION
        | Name::SUMMARY
        | Name::TABLE
        | Name::TBODY
        | Name::TFOOT
        | Name::THEAD
        | Name::TITLE
        | Name::TR
        | Name::UL => Gap::Line,
        // Controls stand by themselves.
        Name::BUTTON | Name::INPUT | Name::SELECT | Name::TEXTAREA => Gap::Space,
        _ => Gap::None,
    }
}
