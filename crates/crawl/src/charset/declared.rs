//! What the beginning of a page says about its charset.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use memchr::{memchr, memmem};

use crate::html::{Attributes, Name, is_space};

/// How much of a page is looked at.
const PRESCAN_BYTES: usize = 1_024;

/// What `<meta charset>` says, or `<meta http-equiv=content-type content="…; charset=…">`. Scripts are not known here,
/// as the standard has it.
pub(super) fn in_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(PRESCAN_BYTES)];
    let mut at = 0;
    while let Some(len) = memchr(b'<', &head[at..]) {
        let bracket = at + len;
        at = bracket + 1;
        let rest = &head[at..];
        if rest.starts_with(b"!--") {
            // The dashes that open a comment may close it, too.
            at += 1 + memmem::find(&rest[1..], b"-->")? + 3;
        } else if matches!(rest.first(), Some(b'!' | b'?')) || is_odd_end(rest) {
            at += memchr(b'>', rest)? + 1;
        } else if let Some(name_len) = tag_name(rest) {
            let mut attributes = Attributes::new(head, at + name_len);
            if rest[..name_len].eq_ignore_ascii_case(b"meta")
                && let Some(encoding) = of_meta(&mut attributes)
            {
                return Some(encoding);
            }
            attributes.by_ref().for_each(drop);
            at = attributes.at();
        }
    }
    None
}

/// Whether it is a `</` that ends no element.
fn is_odd_end(rest: &[u8]) -> bool {
    rest.first() == Some(&b'/') && !rest.get(1).is_some_and(u8::is_ascii_alphabetic)
}

/// How long the name of the tag is that stands here, with its slash.
fn tag_name(rest: &[u8]) -> Option<usize> {
    let slash = usize::from(rest.first() == Some(&b'/'));
    if !rest.get(slash)?.is_ascii_alphabetic() {
        return None;
    }
    let name = &rest[slash..];
    let ends = |byte: &u8| is_space(*byte) || matches!(byte, b'/' | b'>');
    Some(slash + name.iter().position(ends)?)
}

fn of_meta(attributes: &mut Attributes<'_>) -> Option<&'static Encoding> {
    let (mut charset, mut content, mut is_content_type) = (None, None, None);
    for attribute in attributes.by_ref() {
        match attribute.named() {
            Name::CHARSET if charset.is_none() => charset = Some(attribute.value),
            Name::CONTENT if content.is_none() => content = Some(attribute.value),
            Name::HTTP_EQUIV if is_content_type.is_none() => {
                is_content_type = Some(attribute.value.eq_ignore_ascii_case(b"content-type"));
            }
            _ => (),
        }
    }
    let label = match (charset, content, is_content_type) {
        (Some(charset), ..) => charset,
        (None, Some(content), Some(true)) => of_content(content)?,
        _ => return None,
    };
    Encoding::for_label(label).map(as_declared)
}

/// A page whose beginning could be read byte by byte is not what these labels say.
fn as_declared(encoding: &'static Encoding) -> &'static Encoding {
    match encoding {
        _ if encoding == UTF_16BE || encoding == UTF_16LE => UTF_8,
        _ if encoding == X_USER_DEFINED => WINDOWS_1252,
        other => other,
    }
}

/// The charset in a content such as `text/html; charset=utf-8`.
fn of_content(content: &[u8]) -> Option<&[u8]> {
    const CHARSET: &[u8] = b"charset";
    let mut rest = content;
    loop {
        let start = rest
            .windows(CHARSET.len())
            .position(|word| word.eq_ignore_ascii_case(CHARSET))?;
        rest = rest[start + CHARSET.len()..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            return unquoted(value.trim_ascii_start());
        }
    }
}

fn unquoted(value: &[u8]) -> Option<&[u8]> {
    let end = match value.first()? {
        quote @ (b'"' | b'\'') => return value[1..].split(|byte| byte == quote).next(),
        _ => value
            .iter()
            .position(|&byte| is_space(byte) || byte == b';'),
    };
    Some(&value[..end.unwrap_or(value.len())])
}

/// What `<?xml … encoding="…"?>` says.
pub(super) fn in_xml(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(PRESCAN_BYTES)];
    let rest = head.strip_prefix(b"<?xml")?;
    let declaration = &rest[..memchr(b'>', rest)?];
    let start = memmem::find(declaration, b"encoding")? + b"encoding".len();
    let value = declaration[start..]
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    match value.first()? {
        b'"' | b'\'' => Encoding::for_label(unquoted(value)?).map(as_declared),
        _ => None,
    }
}
