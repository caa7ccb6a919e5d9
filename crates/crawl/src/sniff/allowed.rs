//! Which bodies are wanted.

use super::{Kind, Sniffed};

/// Kinds and types that are wanted: `html`, `xhtml`, `xml`, `text`, `other`, or patterns of types such as
/// `application/pdf`, `image/*` and `*/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Kind(Kind),
    /// The part before the slash and the one behind it; none for any.
    Mime(Option<String>, Option<String>),
}

/// Why a list of kinds and types cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is neither a kind nor a pattern of types: write html, xhtml, xml, text, other, application/pdf, image/* or the like"
)]
pub struct AllowedError {
    /// What it says.
    pub text: String,
}

impl Allowed {
    /// Reads such a list.
    pub fn parse<T: AsRef<str>>(list: &[T]) -> Result<Self, AllowedError> {
        let rules = list.iter().map(|text| rule(text.as_ref()));
        Ok(Self {
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// Whether something like this is wanted.
    pub fn fits(&self, sniffed: &Sniffed) -> bool {
        let (first, second) = sniffed.mime.split_once('/').unwrap_or((&sniffed.mime, ""));
        let is = |pattern: &Option<String>, part: &str| {
            pattern.as_deref().is_none_or(|pattern| pattern == part)
        };
        self.rules.iter().any(|rule| match rule {
            Rule::Kind(kind) => *kind == sniffed.kind,
            Rule::Mime(before, behind) => is(before, first) && is(behind, second),
        })
    }
}

fn rule(text: &str) -> Result<Rule, AllowedError> {
    let lowered = text.trim().to_ascii_lowercase();
    let kinds = [Kind::Html, Kind::Xhtml, Kind::Xml, Kind::Text, Kind::Other];
    if let Some(kind) = kinds.into_iter().find(|kind| kind.name() == lowered) {
        return Ok(Rule::Kind(kind));
    }
    let part = |part: &str| (part != "*").then(|| part.to_owned());
    match lowered.split_once('/') {
        Some((before, behind)) if !before.is_empty() && !behind.is_empty() => {
            Ok(Rule::Mime(part(before), part(behind)))
        }
        _ => Err(AllowedError {
            text: text.to_owned(),
        }),
    }
}
