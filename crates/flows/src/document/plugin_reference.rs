//! Which plug-in a stage runs, as documents name it.

use std::fmt;
use std::str::FromStr;

use kernel::PluginId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const REFERENCE_BYTES_MAX: usize = 2_048;
const FILE_PREFIX: &str = "file:";
const UPLOAD_PREFIX: &str = "sha256:";

/// The plug-in of a stage.
///
/// As text: the id of one that is built in, `ID` or `ID@VERSION` of one in a repository, `file:PATH` or a path that
/// begins with `/`, `./` or `../`, a URI of http or https, or `sha256:DIGEST` of a component that was uploaded.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum PluginReference {
    /// One that is built in or, if there is none of this id, the newest one in a repository.
    Id(PluginId),
    /// This version of one in a repository.
    Version(PluginId, String),
    /// A component in a file.
    File(String),
    /// A component to be had over HTTP.
    Uri(String),
    /// A component that was uploaded, by its digest.
    Upload(String),
}

/// Why a text names no plug-in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no plug-in: write the id of one, ID@VERSION, a path that begins with / or ./ or file:, or a URI of http or https"
)]
pub struct PluginReferenceError {
    text: String,
}

impl PluginReference {
    /// Whether it is a file whose path begins in the folder of the document.
    pub fn is_relative(&self) -> bool {
        matches!(self, Self::File(path) if !path.starts_with('/'))
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > REFERENCE_BYTES_MAX || text.chars().any(char::is_control) {
            return None;
        }
        if let Some(digest) = text.strip_prefix(UPLOAD_PREFIX) {
            let is_digest = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
            return is_digest.then(|| Self::Upload(digest.to_owned()));
        }
        if let Some(path) = text.strip_prefix(FILE_PREFIX) {
            // file:///path is the same as file:/path.
            let path = path.strip_prefix("//").unwrap_or(path);
            return (!path.is_empty()).then(|| Self::File(path.to_owned()));
        }
        if ["/", "./", "../"]
            .iter()
            .any(|start| text.starts_with(start))
        {
            return Some(Self::File(text.to_owned()));
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return Some(Self::Uri(text.to_owned()));
        }
        match text.split_once('@') {
            Some((_, "")) => None,
            Some((id, version)) => Some(Self::Version(id.parse().ok()?, version.to_owned())),
            None => text.parse().ok().map(Self::Id),
        }
    }
}

impl FromStr for PluginReference {
    type Err = PluginReferenceError;

    fn from_str(text: &str) -> Result<Self, PluginReferenceError> {
        Self::parse(text).ok_or_else(|| PluginReferenceError {
            text: text.chars().take(200).collect(),
        })
    }
}

impl fmt::Display for PluginReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Version(id, version) => write!(f, "{id}@{version}"),
            Self::Uri(uri) => f.write_str(uri),
            Self::Upload(digest) => write!(f, "{UPLOAD_PREFIX}{digest}"),
            Self::File(path)
                if path.starts_with(['/', '.']) && Self::parse(path).as_ref() == Some(self) =>
            {
                f.write_str(path)
            }
            Self::File(path) => write!(f, "{FILE_PREFIX}{path}"),
        }
    }
}

impl TryFrom<String> for PluginReference {
    type Error = PluginReferenceError;

    fn try_from(text: String) -> Result<Self, PluginReferenceError> {
        text.parse()
    }
}

impl From<PluginReference> for String {
    fn from(reference: PluginReference) -> Self {
        reference.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_named_in_four_ways() {
        let id = |text: &str| text.parse::<PluginId>().unwrap();
        for (text, expected) in [
            ("map", PluginReference::Id(id("map"))),
            ("shop/filter", PluginReference::Id(id("shop/filter"))),
            (
                "shop/filter@1.2.0",
                PluginReference::Version(id("shop/filter"), "1.2.0".to_owned()),
            ),
            ("/a/b.wasm", PluginReference::File("/a/b.wasm".to_owned())),
            ("./b.wasm", PluginReference::File("./b.wasm".to_owned())),
            ("file:b.wasm", PluginReference::File("b.wasm".to_owned())),
            (
                "https://x.org/w.wasm",
                PluginReference::Uri("https://x.org/w.wasm".to_owned()),
            ),
        ] {
            let read: PluginReference = text.parse().unwrap();
            assert_eq!(read, expected);
            assert_eq!(read.to_string(), text);
        }
        let file: PluginReference = "file:///a.wasm".parse().unwrap();
        assert_eq!(file.to_string(), "/a.wasm");
        assert!(!file.is_relative());
        for text in ["", "a b", "a@", "@1", "a/b/c", "file:", "ftp://x/y"] {
            assert!(text.parse::<PluginReference>().is_err(), "{text}");
        }
    }
}
