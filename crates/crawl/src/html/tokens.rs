//! Tags and texts, one after another.

use memchr::{memchr, memchr_iter, memchr2};

use super::attributes::{Attributes, End};
use super::foreign::Foreign;
use super::{Name, is_space};

/// A piece of a document.
#[derive(Clone, Debug)]
pub(crate) enum Token<'a> {
    /// A text, as it is written.
    Text {
        raw: &'a [u8],
        /// Whether `&amp;` and the like are references in it.
        has_references: bool,
    },
    /// A start tag.
    Start(Tag<'a>),
    /// An end tag.
    End(Name),
}

/// A start tag.
#[derive(Clone, Debug)]
pub(crate) struct Tag<'a> {
    pub name: Name,
    /// Its attributes, as they are written.
    pub attributes: Attributes<'a>,
    /// Whether it ends with `/>`. Only XHTML, SVG and MathML care.
    pub is_self_closed: bool,
}

impl<'a> Tag<'a> {
    /// The value of an attribute, as it is written.
    pub fn attribute(&self, name: Name) -> Option<&'a [u8]> {
        self.attributes.clone().value_of(name)
    }
}

/// By which rules a document is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// HTML.
    #[default]
    Html,
    /// XHTML: `<script/>` is closed, and `<![CDATA[` is known everywhere.
    Xhtml,
}

/// Reads a document.
#[derive(Clone, Debug)]
pub(crate) struct Tokens<'a> {
    html: &'a [u8],
    at: usize,
    syntax: Syntax,
    foreign: Foreign,
    /// The element whose raw text comes next.
    raw_in: Option<Name>,
}

impl<'a> Tokens<'a> {
    pub fn new(html: &'a [u8], syntax: Syntax) -> Self {
        Self {
            html,
            at: 0,
            syntax,
            foreign: Foreign::default(),
            raw_in: None,
        }
    }

    /// A text from here to there, if there is one; reading goes on behind it.
    fn text(&mut self, end: usize, has_references: bool) -> Option<Token<'a>> {
        let raw = &self.html[self.at..end];
        self.at = end;
        (!raw.is_empty()).then_some(Token::Text {
            raw,
            has_references,
        })
    }

    /// Reads what begins with `<` here. Nothing comes of comments.
    fn markup(&mut self) -> Option<Token<'a>> {
        let html = self.html;
        match html.get(self.at + 1) {
            Some(b'!') => self.declaration(),
            Some(b'/') if html.get(self.at + 2).is_some_and(u8::is_ascii_alphabetic) => {
                let (name, _, end) = self.tag(self.at + 2)?;
                self.foreign.end(name);
                (end != End::Open).then_some(Token::End(name))
            }
            Some(b'/' | b'?') => {
                self.skip_past_bracket(self.at + 2);
                None
            }
            _ => self.start_tag(),
        }
    }

    fn start_tag(&mut self) -> Option<Token<'a>> {
        let (name, attributes, end) = self.tag(self.at + 1)?;
        if end == End::Open {
            return None;
        }
        let is_self_closed = end == End::SelfClosed;
        let is_closed =
            is_self_closed && (self.syntax == Syntax::Xhtml || self.foreign.is_inside());
        if !self.foreign.is_inside() && !is_closed && holds_raw_text(name) {
            self.raw_in = Some(name);
        }
        if !is_self_closed {
            self.foreign.start(name);
        }
        Some(Token::Start(Tag {
            name,
            attributes,
            is_self_closed,
        }))
    }

    /// Reads the name that begins there, and goes to the end of the tag. The attributes are still to be read.
    fn tag(&mut self, start: usize) -> Option<(Name, Attributes<'a>, End)> {
        let rest = &self.html[start..];
        let len = rest.iter().position(|&byte| ends_tag_name(byte));
        let Some(len) = len else {
            self.at = self.html.len();
            return None;
        };
        let attributes = Attributes::new(self.html, start + len);
        let mut skipped = attributes.clone();
        skipped.by_ref().for_each(drop);
        self.at = match skipped.end() {
            End::Open => self.html.len(),
            _ => skipped.at(),
        };
        Some((Name::of(&rest[..len]), attributes, skipped.end()))
    }

    /// Reads what begins with `<!`.
    fn declaration(&mut self) -> Option<Token<'a>> {
        let after = self.at + 2;
        let rest = &self.html[after..];
        if rest.starts_with(b"--") {
            self.at = comment_end(self.html, after + 2);
            return None;
        }
        let knows_sections = self.syntax == Syntax::Xhtml || self.foreign.is_inside();
        if knows_sections && rest.starts_with(b"[CDATA[") {
            self.at = after + 7;
            let len = memchr::memmem::find(&self.html[self.at..], b"]]>");
            let end = len.map_or(self.html.len(), |len| self.at + len);
            let text = self.text(end, false);
            self.at = self.html.len().min(end + 3);
            return text;
        }
        self.skip_past_bracket(after);
        None
    }

    fn skip_past_bracket(&mut self, from: usize) {
        let rest = self.html.get(from..).unwrap_or_default();
        self.at = memchr(b'>', rest).map_or(self.html.len(), |len| from + len + 1);
    }

    /// The text of an element that holds nothing else, up to its end tag.
    fn raw_text(&mut self, name: Name) -> Option<Token<'a>> {
        let end = match name {
            Name::PLAINTEXT => self.html.len(),
            Name::SCRIPT => script_end(self.html, self.at),
            _ => raw_end(self.html, self.at, name),
        };
        self.text(end, matches!(name, Name::TITLE | Name::TEXTAREA))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some(name) = self.raw_in.take()
            && let Some(text) = self.raw_text(name)
        {
            return Some(text);
        }
        let mut from = self.at;
        while let Some(len) = memchr(b'<', &self.html[from..]) {
            let bracket = from + len;
            if !begins_markup(self.html, bracket) {
                from = bracket + 1;
                continue;
            }
            if let Some(text) = self.text(bracket, true) {
                return Some(text);
            }
            if let Some(token) = self.markup() {
                return Some(token);
            }
            from = self.at;
        }
        self.text(self.html.len(), true)
    }
}

fn ends_tag_name(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b'/' | b'>')
}

/// Whether the `<` here is more than text.
fn begins_markup(html: &[u8], bracket: usize) -> bool {
    match html.get(bracket + 1) {
        Some(b'!' | b'?') => true,
        Some(b'/') => bracket + 2 < html.len(),
        Some(byte) => byte.is_ascii_alphabetic(),
        None => false,
    }
}

fn holds_raw_text(name: Name) -> bool {
    matches!(
        name,
        Name::SCRIPT
            | Name::STYLE
            | Name::TITLE
            | Name::TEXTAREA
            | Name::IFRAME
            | Name::XMP
            | Name::NOEMBED
            | Name::NOFRAMES
            | Name::PLAINTEXT
    )
}

/// Behind the comment whose text begins here.
fn comment_end(html: &[u8], start: usize) -> usize {
    let rest = &html[start..];
    let ends = |bracket: &usize| {
        let text = &rest[..*bracket];
        text.is_empty() || text == b"-" || text.ends_with(b"--") || text.ends_with(b"--!")
    };
    let bracket = memchr_iter(b'>', rest).find(ends);
    bracket.map_or(html.len(), |bracket| start + bracket + 1)
}

/// Where the end tag of this element begins.
fn raw_end(html: &[u8], start: usize, name: Name) -> usize {
    let ends = |bracket: &usize| is_tag(html, start + bracket + 1, true, name);
    let bracket = memchr_iter(b'<', &html[start..]).find(ends);
    bracket.map_or(html.len(), |bracket| start + bracket)
}

/// Whether a start or end tag of this name stands behind the `<` here.
fn is_tag(html: &[u8], mut at: usize, is_end: bool, name: Name) -> bool {
    if is_end {
        if html.get(at) != Some(&b'/') {
            return false;
        }
        at += 1;
    }
    // The longest of these names has nine letters.
    let rest = &html[at..html.len().min(at + 10)];
    let len = rest.iter().position(|&byte| ends_tag_name(byte));
    len.is_some_and(|len| Name::of(&rest[..len]) == name)
}

/// Where the end tag of a script begins. A script may hold `<!-- <script> </script> -->` and go on.
fn script_end(html: &[u8], start: usize) -> usize {
    let mut at = start;
    // Where the text of the comment begins that is open within the script, counted from its dashes.
    let mut comment = None;
    let mut is_nested = false;
    loop {
        let rest = &html[at..];
        let found = match comment {
            None => memchr(b'<', rest),
            Some(_) => memchr2(b'<', b'>', rest),
        };
        let Some(len) = found else {
            return html.len();
        };
        let bracket = at + len;
        at = bracket + 1;
        if html[bracket] == b'>' {
            let ends = |dashes: &usize| html[*dashes..bracket].ends_with(b"--");
            if comment.take_if(|dashes| ends(dashes)).is_some() {
                is_nested = false;
            }
            continue;
        }
        match comment {
            None if html[at..].starts_with(b"!--") => {
                comment = Some(at + 1);
                at += 3;
            }
            Some(_) if is_tag(html, at, is_nested, Name::SCRIPT) => is_nested = !is_nested,
            _ if !is_nested && is_tag(html, at, true, Name::SCRIPT) => return bracket,
            _ => (),
        }
    }
}
