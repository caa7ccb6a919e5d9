//! Web archives: WARC 1.1, as libraries and archives read it.
//!
//! ```
//! # let folder = tempfile::tempdir().unwrap();
//! use crawl::warc::{Exchange, WarcReader, WarcSettings, WarcWriter};
//!
//! let mut writer = WarcWriter::new(WarcSettings::of(folder.path()));
//! let exchange = Exchange { url: "https://example.com/".to_owned(), status: 200, body: "hello".into(), ..Exchange::default() };
//! writer.write(&[exchange])?;
//! for file in writer.finish()? {
//!     let mut reader = WarcReader::open(&file)?;
//!     while let Some(record) = reader.next_record()? {
//!         println!("{} {:?}", record.kind(), record.target());
//!     }
//! }
//! # Ok::<(), crawl::warc::WarcError>(())
//! ```
//!
//! Each record is a gzip member of its own, so that a reader can begin at any of them. A file that is being written ends in
//! `.open`; one that a crash left so is made whole by [`repair`].
//!
//! Bodies are archived as they are kept: decoded. The headers that told how they came are kept with `x-orig-` before their
//! names, since readers would decode once more otherwise.

mod files;
mod pack;
mod reader;
mod record;
mod repair;
mod writer;

use std::path::{Path, PathBuf};

use bytes::Bytes;

pub use reader::{HttpMessage, WarcReader, WarcRecord};
pub use repair::{Repaired, repair};
pub use writer::WarcWriter;

/// What was asked and answered, to be archived.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// The URL that gave the answer: the last one, if there were redirects.
    pub url: String,
    /// When it was fetched, in milliseconds since 1970.
    pub fetched_at: i64,
    /// The headers of the request, if they are known.
    pub request_headers: Option<Vec<(String, String)>>,
    /// The status of the answer.
    pub status: u16,
    /// The headers of the answer.
    pub headers: Vec<(String, String)>,
    /// The body, decoded.
    pub body: Bytes,
    /// What else is known about it, such as the page that links to it.
    pub metadata: Vec<(String, String)>,
}

/// Where and how archives are written.
#[derive(Clone, Debug)]
pub struct WarcSettings {
    /// The folder of the files. It is made if need be.
    pub folder: PathBuf,
    /// What names of files begin with.
    pub prefix: String,
    /// How long a file may become before the next one is begun. One exchange is always whole in a file.
    pub file_bytes_max: u64,
    /// Of how many bodies is remembered that they are archived already, so that they are referred to and not written again.
    pub bodies_remembered_max: usize,
    /// What the beginning of each file says about where it comes from.
    pub about: Vec<(String, String)>,
}

impl WarcSettings {
    /// The usual for files in this folder.
    pub fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            prefix: "crawl".to_owned(),
            file_bytes_max: 1 << 30,
            bodies_remembered_max: 100_000,
            about: Vec::new(),
        }
    }
}

/// Why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum WarcError {
    /// The file system says so.
    #[error("the archive {} cannot be used: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
    /// What is read is no archive, or was damaged.
    #[error("the archive is broken at record {record}: {problem}")]
    Broken {
        /// How many records came before.
        record: u64,
        /// What was found.
        problem: String,
    },
}

impl WarcError {
    fn file(path: &Path, error: std::io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            error,
        }
    }
}
