//! Names of elements and attributes, compared as numbers.

/// A name in lower case, packed into a number. Names of more than 15 bytes are all the same, which is none that
/// anybody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(u128);

const BYTES_MAX: usize = 15;

impl Name {
    pub const fn of(name: &[u8]) -> Self {
        if name.len() > BYTES_MAX {
            return Self(0);
        }
        // The one in front keeps names apart that begin with zero bytes.
        let mut packed = 1;
        let mut at = 0;
        while at < name.len() {
            packed = packed << 8 | name[at].to_ascii_lowercase() as u128;
            at += 1;
        }
        Self(packed)
    }
}

/// Names as constants, so that they can be matched.
macro_rules! names {
    ($($constant:ident = $name:literal),+ $(,)?) => {
        impl Name { $(pub const $constant: Self = Self::of($name.as_bytes());)+ }
    };
}

// Elements.
names! {
    A = "a", ADDRESS = "address", AREA = "area", ARTICLE = "article", ASIDE = "aside", AUDIO = "audio", B = "b", BASE = "base",
    BIG = "big", BLOCKQUOTE = "blockquote", BODY = "body", BR = "br", BUTTON = "button", CAPTION = "caption", CENTER = "center",
    CODE = "code", DD = "dd", DESC = "desc", DETAILS = "details", DIALOG = "dialog", DIV = "div", DL = "dl", DT = "dt", EM = "em",
    EMBED = "embed", FIELDSET = "fieldset", FIGCAPTION = "figcaption", FIGURE = "figure", FOOTER = "footer",
    FOREIGN_OBJECT = "foreignobject", FORM = "form", FRAME = "frame", H1 = "h1", H2 = "h2", H3 = "h3", H4 = "h4", H5 = "h5",
    H6 = "h6", HEAD = "head", HEADER = "header", HR = "hr", HTML = "html", I = "i", IFRAME = "iframe", IMG = "img", INPUT = "input",
    LEGEND = "legend", LI = "li", LINK = "link", LISTING = "listing", MAIN = "main", MATH = "math", MENU = "menu", META = "meta",
    NAV = "nav", NOBR = "nobr", NOEMBED = "noembed", NOFRAMES = "noframes", NOSCRIPT = "noscript", OBJECT = "object", OL = "ol",
    OPTION = "option", P = "p", PLAINTEXT = "plaintext", PRE = "pre", RUBY = "ruby", S = "s", SCRIPT = "script", SECTION = "section",
    SELECT = "select", SMALL = "small", SOURCE = "source", SPAN = "span", STRIKE = "strike", STRONG = "strong", STYLE = "style",
    SUB = "sub", SUMMARY = "summary", SUP = "sup", SVG = "svg", TABLE = "table", TBODY = "tbody", TD = "td", TEMPLATE = "template",
    TEXTAREA = "textarea", TFOOT = "tfoot", TH = "th", THEAD = "thead", TITLE = "title", TR = "tr", TRACK = "track", TT = "tt",
    U = "u", UL = "ul", VAR = "var", VIDEO = "video", XMP = "xmp",
}

// Attributes.
names! {
    ARIA_HIDDEN = "aria-hidden", CHARSET = "charset", CONTENT = "content", DATA = "data", HIDDEN = "hidden", HREF = "href",
    HTTP_EQUIV = "http-equiv", LANG = "lang", NAME = "name", POSTER = "poster", PROPERTY = "property", REL = "rel", ROLE = "role",
    SRC = "src", SRCSET = "srcset", TYPE = "type", XML_LANG = "xml:lang",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_does_not_matter_and_length_does() {
        assert_eq!(Name::of(b"HREF"), Name::HREF);
        assert_ne!(Name::of(b"\0href"), Name::HREF);
        assert_ne!(Name::of(b"href\0"), Name::HREF);
        assert_ne!(Name::of(b"a-name-that-is-long"), Name::of(b""));
    }
}
