//! `srcset`: several addresses of one image.

use crate::html::is_space;

/// All addresses of it, as they are written.
pub(super) fn addresses(srcset: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = srcset;
    std::iter::from_fn(move || {
        let start = rest
            .iter()
            .position(|&byte| !is_space(byte) && byte != b',')?;
        rest = &rest[start..];
        let end = rest.iter().position(|&byte| is_space(byte));
        let (mut address, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind;
        if address.ends_with(b",") {
            while let Some(shorter) = address.strip_suffix(b",") {
                address = shorter;
            }
        } else {
            rest = behind_descriptor(rest);
        }
        Some(address)
    })
}

/// Behind the `2x` or `300w` of a candidate.
fn behind_descriptor(text: &[u8]) -> &[u8] {
    let mut is_in_parentheses = false;
    let comma = text.iter().position(|byte| {
        match byte {
            b'(' => is_in_parentheses = true,
            b')' => is_in_parentheses = false,
            _ => (),
        }
        *byte == b',' && !is_in_parentheses
    });
    &text[comma.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_found() {
        let check = |srcset: &str, expected: &[&str]| {
            let found: Vec<_> = addresses(srcset.as_bytes()).collect();
            let expected: Vec<_> = expected.iter().map(|text| text.as_bytes()).collect();
            assert_eq!(found, expected, "{srcset}");
        };
        check("a.png 1x, b.png 2x", &["a.png", "b.png"]);
        check("a.png, b.png", &["a.png", "b.png"]);
        check("a,b.png 100w,c.png 200w", &["a,b.png", "c.png"]);
        check(" ,, a.png,,", &["a.png"]);
        check("a.png (x, y), b.png", &["a.png", "b.png"]);
        check("", &[]);
        check(",", &[]);
    }
}
