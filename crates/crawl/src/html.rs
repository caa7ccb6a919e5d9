//! Tokens of HTML: what links, text and character sets are found by.
//!
//! It follows the tokenizer of the HTML standard, without a tree: tags with their attributes, texts, and nothing of
//! comments. What is between the tags of a script or a title is text, whatever it looks like. Nothing is copied and
//! nothing is an error; the time is linear in the length, whatever is in it.

mod attributes;
mod entities;
mod foreign;
mod name;
mod tokens;

pub(crate) use attributes::Attributes;
pub(crate) use entities::{decode_attribute_into, decode_text_into};
pub(crate) use name::Name;
pub(crate) use tokens::{Syntax, Tag, Token, Tokens};

/// Whether a byte is white space in HTML.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// Adds bytes that should be UTF-8; what is not becomes U+FFFD.
pub(crate) fn push_lossy(out: &mut String, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => out.push_str(text),
        Err(_) => out.push_str(&String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests;
