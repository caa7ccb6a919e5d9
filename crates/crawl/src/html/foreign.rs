//! Where SVG and MathML are: there no element holds raw text, and `<![CDATA[` is known.

use super::Name;

/// Which elements are open that lead into SVG or MathML, or back to HTML within them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Foreign {
    /// One bit for each of them, the innermost one last: set where it leads away from HTML.
    stack: u64,
    depth: u8,
}

const DEPTH_MAX: u8 = 64;

impl Foreign {
    /// Whether the text here belongs to SVG or MathML.
    pub fn is_inside(self) -> bool {
        self.stack & 1 == 1
    }

    /// A start tag that is not closed by itself.
    pub fn start(&mut self, name: Name) {
        match name {
            Name::SVG | Name::MATH => self.push(1),
            _ if !self.is_inside() => (),
            Name::FOREIGN_OBJECT | Name::DESC | Name::TITLE => self.push(0),
            _ if leads_out(name) => *self = Self::default(),
            _ => (),
        }
    }

    /// An end tag.
    pub fn end(&mut self, name: Name) {
        match name {
            _ if self.depth == 0 => (),
            Name::SVG | Name::MATH => {
                if !self.is_inside() {
                    self.pop();
                }
                self.pop();
            }
            Name::FOREIGN_OBJECT | Name::DESC | Name::TITLE if !self.is_inside() => self.pop(),
            _ => (),
        }
    }

    fn push(&mut self, bit: u64) {
        if self.depth < DEPTH_MAX {
            self.stack = self.stack << 1 | bit;
            self.depth += 1;
        }
    }

    fn pop(&mut self) {
        self.stack >>= 1;
        self.depth = self.depth.saturating_sub(1);
    }
}

/// Elements of HTML that close whatever SVG or MathML is open.
fn leads_out(name: Name) -> bool {
    matches!(
        name,
        Name::B
            | Name::BIG
            | Name::BLOCKQUOTE
            | Name::BODY
            | Name::BR
            | Name::CENTER
            | Name::CODE
            | Name::DD
            | Name::DIV
            | Name::DL
            | Name::DT
            | Name::EM
            | Name::EMBED
            | Name::H1
            | Name::H2
            | Name::H3
            | Name::H4
            | Name::H5
            | Name::H6
            | Name::HEAD
            | Name::HR
            | Name::I
            | Name::IMG
            | Name::LI
            | Name::LISTING
            | Name::MENU
            | Name::META
            | Name::NOBR
            | Name::OL
            | Name::P
            | Name::PRE
            | Name::RUBY
            | Name::S
            | Name::SMALL
            | Name::SPAN
            | Name::STRONG
            | Name::STRIKE
            | Name::SUB
            | Name::SUP
            | Name::TABLE
            | Name::TT
            | Name::U
            | Name::UL
            | Name::VAR
    )
}
