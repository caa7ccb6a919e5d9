//! Readable text of pages, with title, description and language.
//!
//! Text is what stands in headings, paragraphs, lists and tables, with white space folded: one line for each of them, and a
//! tab between the cells of a row. What is around the content is left out where the page says which that is: `<nav>`,
//! `<aside>`, `<footer>`, a `<header>` outside of `<main>` and `<article>`, their `role`s, controls of forms, and what is
//! hidden. If too little is left then, everything is taken.
//!
//! ```
//! use crawl::text::{Rules, read};
//!
//! let page = b"<html lang=en-GB><title>Bees</title><nav>Home</nav><h1>Bees</h1><p>They  fly &amp; hum.";
//! let readable = read(page, &Rules { text_bytes_least: 0, ..Rules::default() });
//! assert_eq!(readable.text, "Bees\nThey fly & hum.");
//! assert_eq!(readable.title.as_deref(), Some("Bees"));
//! assert_eq!(readable.language.as_deref(), Some("en"));
//! ```

mod folded;
mod language;
mod page;

use crate::html::Syntax;

/// What is taken, and how much of it.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How long the text may become; the rest is cut off.
    pub text_bytes_max: usize,
    /// How long title and description may become.
    pub title_bytes_max: usize,
    /// If less is left without what surrounds the content, everything is taken.
    pub text_bytes_least: usize,
    /// Whether everything is taken in any case.
    pub keeps_surroundings: bool,
    /// Whether the language is guessed from the text where the page does not say it.
    pub guesses_language: bool,
    /// Whether the page is XHTML by its type.
    pub is_xhtml: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            text_bytes_max: 1_000_000,
            title_bytes_max: 1_000,
            text_bytes_least: 250,
            keeps_surroundings: false,
            guesses_language: true,
            is_xhtml: false,
        }
    }
}

/// What people read on a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// What `<title>` says, or else `og:title`, or else the first `<h1>`.
    pub title: Option<String>,
    /// What `<meta name=description>` says, or else `og:description`.
    pub description: Option<String>,
    /// The language, such as `en`, by the `lang` of the page or else by its text. Regions are not kept.
    pub language: Option<String>,
    /// The text.
    pub text: String,
    /// Whether the text was longer than allowed.
    pub is_cut: bool,
    /// Whether what surrounds the content was taken, too.
    pub has_surroundings: bool,
}

/// Reads a page, which should be UTF-8.
pub fn read(html: &[u8], rules: &Rules) -> Readable {
    let syntax = match rules.is_xhtml {
        true => Syntax::Xhtml,
        false => Syntax::Html,
    };
    let mut readable = page::read(html, syntax, rules, rules.keeps_surroundings);
    if readable.has_left_out && readable.readable.text.len() < rules.text_bytes_least {
        let whole = page::read(html, syntax, rules, true);
        if whole.readable.text.len() > readable.readable.text.len() {
            readable = whole;
        }
    }
    let mut readable = readable.readable;
    if readable.language.is_none() && rules.guesses_language {
        readable.language = language::guess(&readable.text).map(str::to_owned);
    }
    readable
}

/// Cuts a plain text as [`read`] does: white space folded in each line, no empty lines, bounded, its language guessed.
pub fn read_plain(text: &[u8], rules: &Rules) -> Readable {
    let mut folded = folded::Folded::new(rules.text_bytes_max);
    for line in text.split(|&byte| byte == b'\n') {
        folded.push(line);
        folded.gap(folded::Gap::Line);
    }
    let (text, is_cut) = folded.finish();
    let guessed = rules.guesses_language.then(|| language::guess(&text));
    Readable {
        language: guessed.flatten().map(str::to_owned),
        text,
        is_cut,
        ..Readable::default()
    }
}

#[cfg(test)]
mod tests;
