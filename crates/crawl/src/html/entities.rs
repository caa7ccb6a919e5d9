//! Character references, such as `&amp;` and `&#8364;`.

use html5ever::data::{C1_REPLACEMENTS, NAMED_ENTITIES};
use memchr::memchr;

use super::push_lossy;

/// Adds a text with its references decoded.
pub(crate) fn decode_text_into(raw: &[u8], out: &mut String) {
    decode(raw, false, out);
}

/// Adds the value of an attribute with its references decoded. There `&copy=2` is no reference.
pub(crate) fn decode_attribute_into(raw: &[u8], out: &mut String) {
    decode(raw, true, out);
}

fn decode(raw: &[u8], in_attribute: bool, out: &mut String) {
    let mut rest = raw;
    while let Some(ampersand) = memchr(b'&', rest) {
        push_lossy(out, &rest[..ampersand]);
        let after = &rest[ampersand + 1..];
        let used = match after.first() {
            Some(b'#') => numeric(after, out),
            Some(byte) if byte.is_ascii_alphanumeric() => named(after, in_attribute, out),
            _ => 0,
        };
        if used == 0 {
            out.push('&');
        }
        rest = &after[used..];
    }
    push_lossy(out, rest);
}

/// Adds what a reference by number stands for; gives how many bytes of it were used.
fn numeric(after: &[u8], out: &mut String) -> usize {
    let (radix, start) = match after.get(1) {
        Some(b'x' | b'X') => (16, 2),
        _ => (10, 1),
    };
    let mut end = start;
    let mut code = 0_u32;
    while let Some(digit) = after
        .get(end)
        .and_then(|&byte| char::from(byte).to_digit(radix))
    {
        code = code.saturating_mul(radix).saturating_add(digit);
        end += 1;
    }
    if end == start {
        return 0;
    }
    out.push(character(code));
    end + usize::from(after.get(end) == Some(&b';'))
}

fn character(code: u32) -> char {
    match code {
        0 => char::REPLACEMENT_CHARACTER,
        // Written as in the code page of old Windows.
        0x80..=0x9f => C1_REPLACEMENTS[(code - 0x80) as usize]
            .or(char::from_u32(code))
            .unwrap_or(char::REPLACEMENT_CHARACTER),
        _ => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

/// Adds what the longest name that is known stands for; gives how many bytes of it were used.
fn named(after: &[u8], in_attribute: bool, out: &mut String) -> usize {
    let mut longest = None;
    // The table holds the beginnings of names, too, and the longest of them is short.
    for len in 1..=after.len() {
        let Some(entity) = str::from_utf8(&after[..len])
            .ok()
            .and_then(|name| NAMED_ENTITIES.get(name))
        else {
            break;
        };
        if entity.0 != 0 {
            longest = Some((len, *entity));
        }
    }
    let Some((len, (first, second))) = longest else {
        return 0;
    };
    let goes_on = |byte: &u8| *byte == b'=' || byte.is_ascii_alphanumeric();
    if in_attribute && after[len - 1] != b';' && after.get(len).is_some_and(goes_on) {
        return 0;
    }
    out.extend(char::from_u32(first));
    out.extend((second != 0).then(|| char::from_u32(second)).flatten());
    len
}
