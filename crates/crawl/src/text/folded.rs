//! Text with its white space folded.

use crate::html::{is_space, push_lossy};

/// What stands between two pieces of text: the largest of those that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    None,
    Space,
    Tab,
    Line,
}

/// A text that grows up to a bound.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    text: String,
    gap: Gap,
    bytes_max: usize,
    is_cut: bool,
}

impl Folded {
    pub fn new(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            gap: Gap::None,
            bytes_max,
            is_cut: false,
        }
    }

    /// At least this stands between what is there and what comes.
    pub fn gap(&mut self, gap: Gap) {
        self.gap = self.gap.max(gap);
    }

    /// Adds a text.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() && !self.is_cut {
            let spaces = spaces_at(bytes, at);
            if spaces > 0 {
                self.gap(Gap::Space);
                at += spaces;
                continue;
            }
            let start = at;
            at = run_end(bytes, start);
            self.push_run(&bytes[start..at]);
        }
    }

    /// Adds what has no white space but single spaces between words.
    fn push_run(&mut self, run: &[u8]) {
        match (self.text.is_empty(), self.gap) {
            (true, _) | (_, Gap::None) => (),
            (_, Gap::Space) => self.text.push(' '),
            (_, Gap::Tab) => self.text.push('\t'),
            (_, Gap::Line) => self.text.push('\n'),
        }
        self.gap = Gap::None;
        push_lossy(&mut self.text, run);
        if self.text.len() > self.bytes_max {
            self.is_cut = true;
            let end = self.text.floor_char_boundary(self.bytes_max);
            self.text.truncate(end);
            let kept = self.text.trim_end().len();
            self.text.truncate(kept);
        }
    }

    /// The text, and whether it was cut.
    pub fn finish(self) -> (String, bool) {
        (self.text, self.is_cut)
    }
}

/// How many bytes of white space stand here: one character. A space that does not break is one, too.
fn spaces_at(bytes: &[u8], at: usize) -> usize {
    match bytes[at] {
        byte if is_space(byte) => 1,
        0xc2 if bytes.get(at + 1) == Some(&0xa0) => 2,
        _ => 0,
    }
}

/// Where the white space begins that has to be folded.
fn run_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte > b' ' && byte != 0xc2 {
            at += 1;
            continue;
        }
        let is_single = byte == b' ' && at + 1 < bytes.len() && spaces_at(bytes, at + 1) == 0;
        if !is_single && spaces_at(bytes, at) > 0 {
            return at;
        }
        at += 1;
    }
    bytes.len()
}
