//! Names of query parameters that are removed, found quickly.

use std::ops::Range;

/// A name, in lower case.
#[derive(Clone, Debug)]
pub(super) struct Name {
    text: Box<str>,
    /// Whether all that begin with it are meant.
    prefix: bool,
    /// How long the value must be at least. Some names are also used for something else, with short values.
    value_bytes_min: usize,
}

impl Name {
    /// The name that this text stands for: `utm_*` stands for all that begin with `utm_`.
    pub fn of(text: &str, value_bytes_min: usize) -> Self {
        let prefix = text.strip_suffix('*');
        Self {
            text: prefix.unwrap_or(text).to_ascii_lowercase().into(),
            prefix: prefix.is_some(),
            value_bytes_min,
        }
    }

    fn fits(&self, name: &[u8], value_bytes: usize) -> bool {
        let own = self.text.as_bytes();
        let compared = match self.prefix {
            true => name.get(..own.len()),
            false => Some(name),
        };
        value_bytes >= self.value_bytes_min
            && compared.is_some_and(|compared| compared.eq_ignore_ascii_case(own))
    }
}

/// Names, sorted by their first letter, because most parameters are told apart by it already.
#[derive(Debug)]
pub(super) struct Names {
    names: Vec<Name>,
    by_first: Box<[Range<u16>; 256]>,
}

impl Names {
    pub fn new(mut names: Vec<Name>) -> Self {
        names.retain(|name| !name.text.is_empty());
        names.sort_by(|one, other| one.text.cmp(&other.text));
        let mut by_first = Box::new([const { 0..0 }; 256]);
        for (index, name) in names.iter().enumerate() {
            let range = &mut by_first[usize::from(name.text.as_bytes()[0])];
            let index = index as u16;
            *range = match range.start == range.end {
                true => index..index + 1,
                false => range.start..index + 1,
            };
        }
        Self { names, by_first }
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether a parameter `name=value` is one of them.
    pub fn contain(&self, parameter: &[u8]) -> bool {
        let Some(first) = parameter.first() else {
            return false;
        };
        let range = &self.by_first[usize::from(first.to_ascii_lowercase())];
        if range.start == range.end {
            return false;
        }
        let (name, value_bytes) = match memchr::memchr(b'=', parameter) {
            Some(at) => (&parameter[..at], parameter.len() - at - 1),
            None => (parameter, 0),
        };
        self.names[usize::from(range.start)..usize::from(range.end)]
            .iter()
            .any(|candidate| candidate.fits(name, value_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_of_names_are_found_in_any_case() {
        let names = Names::new(vec![
            Name::of("utm_*", 0),
            Name::of("gclid", 0),
            Name::of("sid", 16),
        ]);
        for removed in [
            "utm_source=a",
            "UTM_x",
            "utm_=",
            "gclid=1",
            "GClid",
            "sid=0123456789abcdef",
        ] {
            assert!(names.contain(removed.as_bytes()), "{removed}");
        }
        for kept in [
            "utm",
            "utm=1",
            "gclid2=1",
            "sid=12",
            "side=0123456789abcdef",
            "",
            "=gclid",
        ] {
            assert!(!names.contain(kept.as_bytes()), "{kept}");
        }
    }
}
