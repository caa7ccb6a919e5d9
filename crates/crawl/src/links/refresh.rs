//! `<meta http-equiv=refresh content="5; url=…">`.

use crate::html::is_space;

/// Where such a content leads, as it is written there.
pub(super) fn address(content: &[u8]) -> Option<&[u8]> {
    let rest = skip(content, is_space);
    let after = skip(rest, |byte| byte.is_ascii_digit() || byte == b'.');
    let separator = *after.first()?;
    if after.len() == rest.len() || !(is_space(separator) || matches!(separator, b';' | b',')) {
        return None;
    }
    let mut rest = skip(after, is_space);
    if let [b';' | b',', behind @ ..] = rest {
        rest = skip(behind, is_space);
    }
    rest = without_url(rest).unwrap_or(rest);
    let address = match rest {
        [quote @ (b'"' | b'\''), quoted @ ..] => quoted
            .split(|byte| byte == quote)
            .next()
            .unwrap_or_default(),
        _ => rest,
    };
    (!address.is_empty()).then_some(address)
}

/// What stands behind `url=`.
fn without_url(text: &[u8]) -> Option<&[u8]> {
    let (word, rest) = text.split_at_checked(3)?;
    if !word.eq_ignore_ascii_case(b"url") {
        return None;
    }
    let rest = skip(rest, is_space).strip_prefix(b"=")?;
    Some(skip(rest, is_space))
}

fn skip(text: &[u8], is_skipped: impl Fn(u8) -> bool) -> &[u8] {
    let start = text.iter().position(|&byte| !is_skipped(byte));
    &text[start.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_as_the_standard_says() {
        let check = |content: &str, expected: Option<&str>| {
            let found = address(content.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{content}");
        };
        check("5; url=/next", Some("/next"));
        check("0;URL='/next?a=1' trailing", Some("/next?a=1"));
        check(" 3 , /plain", Some("/plain"));
        check("1.5 url = \"/x", Some("/x"));
        check("0; urls/list", Some("urls/list"));
        check("5", None);
        check("5;", None);
        check("x; url=/next", None);
        check("5x; url=/next", None);
        check("", None);
    }
}
