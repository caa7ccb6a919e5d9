//! Patterns over whole addresses.

use regex::{Regex, RegexSet, RegexSetBuilder};

use super::shown;
use crate::wrong::WrongParameter;

const PATTERNS_MAX: usize = 1_000;
const PATTERN_BYTES_MAX: usize = 1_000;
const COMPILED_BYTES_MAX: usize = 16 << 20;

/// What a pattern begins with that is a regular expression.
const EXPRESSION: &str = "re:";

/// Patterns that are tried together, in a time that grows only with the length of the address.
#[derive(Debug)]
pub(super) struct Patterns {
    set: RegexSet,
    texts: Vec<Box<str>>,
}

impl Patterns {
    pub fn new(field: &str, texts: &[String]) -> Result<Self, WrongParameter> {
        if texts.len() > PATTERNS_MAX {
            let reason = format!("has {} patterns, and may have {PATTERNS_MAX}", texts.len());
            return Err(WrongParameter::new(field, reason));
        }
        let mut expressions = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let wrong = |reason| WrongParameter::new(format!("{field}[{index}]"), reason);
            expressions.push(expression(text).map_err(wrong)?);
        }
        let set = RegexSetBuilder::new(&expressions)
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| WrongParameter::new(field, format!("together: {error}")))?;
        Ok(Self {
            set,
            texts: texts.iter().map(|text| text.as_str().into()).collect(),
        })
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub fn any_fits(&self, url: &str) -> bool {
        self.set.is_match(url)
    }

    pub fn first_fitting(&self, url: &str) -> Option<&str> {
        if self.is_empty() || !self.set.is_match(url) {
            return None;
        }
        let first = self.set.matches(url).iter().next()?;
        Some(&self.texts[first])
    }

    pub fn shown(&self) -> String {
        shown(&self.texts)
    }
}

/// The regular expression that a pattern stands for.
fn expression(text: &str) -> Result<String, String> {
    if text.is_empty() || text == EXPRESSION {
        return Err("is empty and would fit nothing or everything: remove it".to_owned());
    }
    if text.len() > PATTERN_BYTES_MAX {
        return Err(format!("is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    match text.strip_prefix(EXPRESSION) {
        Some(expression) => {
            Regex::new(expression).map_err(|error| error.to_string())?;
            Ok(expression.to_owned())
        }
        None => Ok(of_wildcards(text)),
    }
}

fn of_wildcards(text: &str) -> String {
    let mut expression = String::from(r"(?s)\A");
    let mut literal = [0; 4];
    for character in text.chars() {
        match character {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            other => expression.push_str(&regex::escape(other.encode_utf8(&mut literal))),
        }
    }
    expression.push_str(r"\z");
    expression
}
