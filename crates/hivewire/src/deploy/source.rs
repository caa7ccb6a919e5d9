//! Where a component comes from: a file, an http or https URI, a plug-in of a repository or one that is built in, or an upload.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use kernel::PluginId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use super::built_in;
use super::fetch::{self, Fetcher};
use super::plugins::{PluginError, PluginRef};

/// How an uploaded component shows where others show a path or URI.
const UPLOAD: &str = "upload";
/// How a plug-in is named where others name a path or URI.
const PLUGIN_PREFIX: &str = "plugin:";
/// How a plug-in that is built in is named.
const BUILT_IN_PREFIX: &str = "builtin:";
const URI_BYTES_MAX: usize = 2_048;

/// Where a component comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    /// A file that the node itself can read, by its absolute path.
    File(PathBuf),
    /// Something to be had over HTTP.
    Uri(Box<Url>),
    /// A plug-in of a repository. A version of it does not change.
    Plugin(PluginRef),
    /// A plug-in that is built in.
    BuiltIn(PluginId),
    /// Somebody sent the bytes. They cannot change by themselves.
    Upload,
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let bad = |reason: &'static str| SourceError::Form {
            text: shown(text),
            reason,
        };
        if text == UPLOAD {
            return Ok(Self::Upload);
        }
        if let Some(reference) = text.strip_prefix(PLUGIN_PREFIX) {
            return Ok(Self::Plugin(reference.parse().map_err(Box::new)?));
        }
        if let Some(id) = text.strip_prefix(BUILT_IN_PREFIX) {
            let id = id
                .parse()
                .map_err(|_| bad("name a built-in plug-in, such as builtin:map"));
            return Ok(Self::BuiltIn(id?));
        }
        if text.starts_with('/') {
            return Ok(Self::File(text.into()));
        }
        if text.len() > URI_BYTES_MAX {
            return Err(bad("it is too long"));
        }
        let url = Url::parse(text)
            .map_err(|_| bad("write an absolute path, a URI that begins with http or https, plugin:ID@VERSION or builtin:ID"))?;
        fetch::check(&url).map_err(bad)?;
        Ok(Self::Uri(Box::new(url)))
    }
}

/// What is too long for a line, or could hold a password, is not repeated.
fn shown(text: &str) -> String {
    match text.contains('@') {
        true => "(not shown)".to_owned(),
        false => text.chars().take(200).collect(),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Uri(url) => url.fmt(f),
            Self::Plugin(reference) => write!(f, "{PLUGIN_PREFIX}{reference}"),
            Self::BuiltIn(id) => write!(f, "{BUILT_IN_PREFIX}{id}"),
            Self::Upload => f.write_str(UPLOAD),
        }
    }
}

impl TryFrom<String> for Source {
    type Error = SourceError;

    fn try_from(text: String) -> Result<Self, SourceError> {
        text.parse()
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.to_string()
    }
}

/// Why a source gives no component.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It is neither a path nor a URI.
    #[error("{text:?} is no source: {reason}")]
    Form {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No plug-in can be called so.
    #[error(transparent)]
    Plugin(#[from] Box<PluginError>),
    /// The file cannot be read.
    #[error("the node cannot read {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The path leads to a folder, a pipe or the like.
    #[error("{} is no file", .path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Somebody keeps writing to the file.
    #[error("{} is still being written", .path.display())]
    Unsettled {
        /// The file.
        path: PathBuf,
    },
    /// It is larger than a component may be.
    #[error(
        "{from} has more than {bytes_max} bytes: raise `workers.components.component_bytes_max` if that is right"
    )]
    TooLarge {
        /// Which source.
        from: String,
        /// How many bytes there may be.
        bytes_max: u64,
    },
    /// The name leads into this machine or its network.
    #[error(
        "{host} is {address}, which is no public address: set `deploy.allow_private_sources` if components may come from there"
    )]
    Private {
        /// The host.
        host: String,
        /// Its address.
        address: std::net::IpAddr,
    },
    /// The server did not answer with a component.
    #[error("{uri} answered with status {status}")]
    Status {
        /// What was asked for.
        uri: String,
        /// The status.
        status: u16,
    },
    /// One redirect after another.
    #[error("{uri} leads on and on: {redirects_max} redirects are followed at most")]
    Redirects {
        /// Where it began.
        uri: String,
        /// How many are followed.
        redirects_max: usize,
    },
    /// A redirect leads where nothing may be fetched from.
    #[error("{uri} leads to a place that cannot be used: {reason}")]
    Redirect {
        /// The URI that redirects.
        uri: String,
        /// Why not there.
        reason: String,
    },
    /// Reading panicked, which is a bug.
    #[error("reading the source broke off: {0}")]
    Broken(String),
    /// Nothing came, or not all of it.
    #[error("cannot fetch {uri}: {reason}")]
    Network {
        /// The URI.
        uri: String,
        /// What went wrong.
        reason: String,
    },
}

/// The bytes of a component, as they came.
#[derive(Clone, Debug)]
pub struct Component {
    /// All of it.
    pub bytes: Bytes,
    /// SHA-256 of it in hexadecimal digits.
    pub digest: String,
    /// What the server calls this version.
    pub etag: Option<String>,
}

impl Component {
    /// These bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self {
            digest: digest_of(&bytes),
            bytes,
            etag: None,
        }
    }
}

/// SHA-256 in hexadecimal digits.
pub fn digest_of(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What tells versions of a file apart without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    bytes: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The stamp that a file has now.
pub fn stamp(path: &Path) -> Result<Stamp, SourceError> {
    let failed = |source| SourceError::File {
        path: path.to_path_buf(),
        source,
    };
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() {
        return Err(SourceError::NoFile {
            path: path.to_path_buf(),
        });
    }
    Ok(Stamp {
        bytes: found.len(),
        inode: found.ino(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

/// Reads a file whole. Blocks.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> Result<Component, SourceError> {
    let too_large = || SourceError::TooLarge {
        from: path.display().to_string(),
        bytes_max,
    };
    let failed = |source| SourceError::File {
        path: path.to_path_buf(),
        source,
    };
    if stamp(path)?.bytes > bytes_max {
        return Err(too_large());
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_large());
    }
    Ok(Component::new(bytes))
}

/// How long a file must stay as it is before it is read.
const SETTLED_AFTER: Duration = Duration::from_millis(100);
const SETTLE_TRIES: usize = 50;

/// Reads a file that nobody is writing to at the moment. Blocks.
pub fn read_settled(path: &Path, bytes_max: u64) -> Result<(Stamp, Component), SourceError> {
    let mut before = stamp(path)?;
    for _ in 0..SETTLE_TRIES {
        std::thread::sleep(SETTLED_AFTER);
        let now = stamp(path)?;
        if now == before {
            let component = read_file(path, bytes_max)?;
            before = stamp(path)?;
            if now == before {
                return Ok((now, component));
            }
        }
        before = now;
    }
    Err(SourceError::Unsettled {
        path: path.to_path_buf(),
    })
}

/// Reads a source for the first time. Blocks.
pub fn read(source: &Source, fetcher: &Fetcher) -> Result<Component, SourceError> {
    match source {
        Source::File(path) => {
            let before = stamp(path)?;
            let component = read_file(path, fetcher.settings().component_bytes_max)?;
            match stamp(path)? == before {
                true => Ok(component),
                false => Ok(read_settled(path, fetcher.settings().component_bytes_max)?.1),
            }
        }
        Source::Uri(url) => match fetcher.fetch(url, None)? {
            fetch::Fetched::Component(component) => Ok(component),
            fetch::Fetched::Same => Err(SourceError::Status {
                uri: url.to_string(),
                status: 304,
            }),
        },
        Source::Plugin(reference) => Err(SourceError::Form {
            text: reference.to_string(),
            reason: "a plug-in is looked for in repositories",
        }),
        Source::BuiltIn(id) => built_in::component(id.as_str()),
        Source::Upload => Err(SourceError::Form {
            text: UPLOAD.to_owned(),
            reason: "send the component, and name its digest",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_paths_and_http_uris() {
        for text in [
            "/a/b.wasm",
            "https://hive.example/w.wasm",
            "upload",
            "plugin:shop/filter",
            "plugin:filter@1.2.0",
        ] {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.to_string(), text);
        }
        for text in [
            "",
            "b.wasm",
            "ftp://hive.example/w.wasm",
            "file:///etc/passwd",
            "http://",
            "plugin:",
            "plugin:filter@1",
            "https://alice:secret@hive.example/w.wasm",
        ] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn digests_are_those_of_sha_256() {
        assert_eq!(
            digest_of(b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_file_beyond_the_limit_and_what_is_no_file_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.wasm");
        std::fs::write(&path, [0; 10]).unwrap();
        assert_eq!(read_file(&path, 10).unwrap().bytes.len(), 10);
        assert!(matches!(
            read_file(&path, 9),
            Err(SourceError::TooLarge { .. })
        ));
        assert!(matches!(
            read_file(folder.path(), 9),
            Err(SourceError::NoFile { .. })
        ));
    }

    /// The negative control: without waiting, half a file is read.
    #[test]
    fn a_file_is_read_when_its_writer_is_done() {
        use std::io::Write;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.wasm");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"first").unwrap();
        let half = read_file(&path, 1_000).unwrap();
        let writer = std::thread::spawn(move || {
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(30));
                file.write_all(b"+").unwrap();
            }
        });
        let (_, whole) = read_settled(&path, 1_000).unwrap();
        writer.join().unwrap();
        assert_eq!(&half.bytes[..], b"first");
        assert_eq!(&whole.bytes[..], b"first++++++++++");
    }
}
