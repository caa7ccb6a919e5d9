//! What a body is: by its `content-type`, and by its first bytes where that says nothing or cannot be right.
//!
//! The rules are those of the MIME sniffing standard in their main points. A declared type is believed, with three
//! exceptions: text that holds binary bytes, text that is in fact a well-known file such as a PDF, and HTML that is in
//! fact a feed.
//!
//! ```
//! use crawl::sniff::{Kind, sniff};
//!
//! assert_eq!(sniff(Some("Text/HTML; charset=UTF-8"), b"hello").kind, Kind::Html);
//! assert_eq!(sniff(None, b"  <!doctype html>").mime, "text/html");
//! assert_eq!(sniff(Some("text/html"), b"%PDF-1.7").mime, "application/pdf");
//! ```

mod allowed;
mod signatures;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use allowed::{Allowed, AllowedError};

/// What can be done with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// HTML.
    Html,
    /// HTML written as XML.
    Xhtml,
    /// Other XML: feeds, sitemaps.
    Xml,
    /// Other text.
    Text,
    /// Anything else.
    Other,
}

impl Kind {
    /// How it is named in parameters and events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Xhtml => "xhtml",
            Self::Xml => "xml",
            Self::Text => "text",
            Self::Other => "other",
        }
    }
}

/// What a body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sniffed {
    /// Its type, in lower case and without parameters, such as `text/html`.
    pub mime: String,
    /// What can be done with it.
    pub kind: Kind,
    /// The charset that the header names.
    pub charset: Option<String>,
}

/// How many bytes are looked at.
const SNIFFED_BYTES_MAX: usize = 1_445;

/// Tells what a body is from its `content-type` header and its first bytes.
pub fn sniff(header: Option<&str>, body: &[u8]) -> Sniffed {
    let head = &body[..body.len().min(SNIFFED_BYTES_MAX)];
    let (declared, charset) = header.map(parse).unwrap_or_default();
    let mime = match &*declared {
        "" | "unknown/unknown" | "application/unknown" | "*/*" => of_bytes(head).to_owned(),
        "text/html" => signatures::of_file(head)
            .or_else(|| signatures::feed(head))
            .map_or(declared, str::to_owned),
        "text/plain" => match signatures::of_file(head) {
            Some(file) => file.to_owned(),
            None if is_binary(head) => "application/octet-stream".to_owned(),
            None => declared,
        },
        _ => declared,
    };
    let kind = kind_of(&mime, head);
    Sniffed {
        mime,
        kind,
        charset,
    }
}

/// The type and the charset of a `content-type` header. The type is empty if it is not one.
fn parse(header: &str) -> (String, Option<String>) {
    let mut parts = header.split(';');
    let mime = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches(['"', '\'']).trim();
        (name.trim().eq_ignore_ascii_case("charset") && !value.is_empty()).then(|| value.to_owned())
    });
    let is_token =
        |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c == '/');
    match mime.split_once('/') {
        Some((first, second)) if is_token(first) && is_token(second) => (mime, charset),
        _ => (String::new(), charset),
    }
}

/// What bytes are that nobody said anything about.
fn of_bytes(head: &[u8]) -> &'static str {
    if let Some(mime) = signatures::feed(head).or_else(|| signatures::markup(head)) {
        return mime;
    }
    match signatures::of_file(head) {
        Some(mime) => mime,
        None if head.starts_with(&[0xfe, 0xff]) || head.starts_with(&[0xff, 0xfe]) => "text/plain",
        None if is_binary(head) => "application/octet-stream",
        None => "text/plain",
    }
}

/// Whether a text does not hold such bytes.
fn is_binary(head: &[u8]) -> bool {
    let has_mark = head.starts_with(&[0xfe, 0xff]) || head.starts_with(&[0xff, 0xfe]);
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    !has_mark && head.iter().any(is_control)
}

fn kind_of(mime: &str, head: &[u8]) -> Kind {
    match mime {
        "text/html" => Kind::Html,
        "application/xhtml+xml" => Kind::Xhtml,
        "text/xml" | "application/xml" if signatures::is_xhtml(head) => Kind::Xhtml,
        "text/xml" | "application/xml" => Kind::Xml,
        "image/svg+xml" => Kind::Other,
        _ if mime.ends_with("+xml") => Kind::Xml,
        "application/json" | "application/javascript" => Kind::Text,
        _ if mime.starts_with("text/") || mime.ends_with("+json") => Kind::Text,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests;
