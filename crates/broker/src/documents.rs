//! Documents that change by compare-and-swap: whoever changes one names the revision that he knows,
//! and if another was faster, nothing happens.
//!
//! They are state of one bucket, which nobody else can write, so a restart reads them back like all
//! state. A removal is a revision, too: what is left keeps its number, and whoever knows only an
//! older one cannot bring the document back by mistake.

use std::ops::Bound;

use bytes::Bytes;
use journal::Position;
use kernel::Name;

use crate::broker::Broker;
use crate::commit::{Commit, StateCommit};
use crate::error::CommitError;
use crate::state::StateWrite;

/// The bucket that holds the documents.
pub const DOCUMENTS: &str = "hivewire.documents";

/// What one document may hold.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Nobody owns this bucket, so its epoch is never raised.
const EPOCH: u64 = 0;

/// Before the content: the revision, little-endian, and whether there is a content.
const HEAD_BYTES: usize = 9;

/// A document as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// How often it was changed; 0 if it never was there.
    pub revision: u64,
    /// What it holds; `None` if it was removed or never was there.
    pub content: Option<Bytes>,
    /// This revision is permanent once the journal is synced up to here.
    pub stored: Option<Position>,
}

/// Why a document was not changed.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It has another revision than the one that was named.
    #[error(
        "document {name} is at revision {}, and this change was meant for {expected}: read it again", .current.revision
    )]
    Conflict {
        /// Its name.
        name: Name,
        /// The revision that was named.
        expected: u64,
        /// The document as it stands.
        current: Document,
    },
    /// There is nothing to remove.
    #[error("there is no document {name} to remove")]
    Missing {
        /// Its name.
        name: Name,
    },
    /// It is too long.
    #[error(
        "document {name} would hold {bytes} bytes, and at most {DOCUMENT_BYTES_MAX} are allowed: split it"
    )]
    TooLarge {
        /// Its name.
        name: Name,
        /// The length of the new content.
        bytes: usize,
    },
    /// It could not be stored.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl Broker {
    /// The document with this name.
    pub fn document(&self, name: &Name) -> Document {
        let Some(bucket) = self.find_bucket(&bucket_name()) else {
            return Document::default();
        };
        let key = name.as_str().as_bytes();
        let bucket = bucket.lock();
        let first = bucket.range(Bound::Included(key)).next();
        match first {
            Some((found, value, stored)) if found == key => from_value(value, stored),
            _ => Document::default(),
        }
    }

    /// Documents whose name begins with `prefix`, by name, from the first after `after`; removed
    /// ones are among them.
    pub fn documents(
        &self,
        prefix: &str,
        after: Option<&str>,
        documents_max: usize,
    ) -> Vec<(Name, Document)> {
        let Some(bucket) = self.find_bucket(&bucket_name()) else {
            return Vec::new();
        };
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.as_bytes()),
            _ => Bound::Included(prefix.as_bytes()),
        };
        let bucket = bucket.lock();
        bucket
            .range(start)
            .take_while(|(key, ..)| key.starts_with(prefix.as_bytes()))
            .filter_map(|(key, value, stored)| {
                let name = Name::new(str::from_utf8(key).ok()?).ok()?;
                Some((name, from_value(value, stored)))
            })
            .take(documents_max)
            .collect()
    }

    /// Gives a document a new content, or removes it, if it is at the revision `expected`; 0 means
    /// that there never was one. Gives the new revision and where it stands: it is permanent once
    /// the journal is synced up to there.
    pub fn change_document(
        &self,
        name: &Name,
        expected: u64,
        content: Option<Bytes>,
    ) -> Result<(u64, Option<Position>), DocumentError> {
        let _one_at_a_time = self.documents.lock();
        let current = self.document(name);
        if current.revision != expected {
            return Err(DocumentError::Conflict {
                name: name.clone(),
                expected,
                current,
            });
        }
        let bytes = content.as_ref().map_or(0, Bytes::len);
        if bytes > DOCUMENT_BYTES_MAX {
            let name = name.clone();
            return Err(DocumentError::TooLarge { name, bytes });
        }
        if content.is_none() && current.content.is_none() {
            return Err(DocumentError::Missing { name: name.clone() });
        }
        let revision = expected + 1;
        let write = StateWrite::Set {
            key: Bytes::copy_from_slice(name.as_str().as_bytes()),
            value: to_value(revision, content.as_deref()),
        };
        let state = StateCommit {
            bucket: bucket_name(),
            epoch: EPOCH,
            writes: vec![write],
        };
        let stored = self.commit_to_any_bucket(Commit {
            state: Some(state),
            ..Commit::default()
        })?;
        Ok((revision, stored))
    }
}

/// Refuses the bucket of the documents to everybody else.
pub(crate) fn check_not_reserved(bucket: &Name) -> Result<(), CommitError> {
    if is_reserved(bucket) {
        return Err(CommitError::Reserved {
            bucket: bucket.clone(),
        });
    }
    Ok(())
}

/// Whether this is the bucket of the documents.
pub(crate) fn is_reserved(bucket: &Name) -> bool {
    bucket.as_str() == DOCUMENTS
}

fn bucket_name() -> Name {
    Name::new(DOCUMENTS).expect("it is a name")
}

fn to_value(revision: u64, content: Option<&[u8]>) -> Bytes {
    let mut value = Vec::with_capacity(HEAD_BYTES + content.map_or(0, <[u8]>::len));
    value.extend_from_slice(&revision.to_le_bytes());
    value.push(u8::from(content.is_some()));
    value.extend_from_slice(content.unwrap_or_default());
    value.into()
}

fn from_value(value: &Bytes, stored: Position) -> Document {
    let Some((revision, rest)) = value.split_first_chunk() else {
        return Document::default();
    };
    let is_there = rest.first() == Some(&1);
    Document {
        revision: u64::from_le_bytes(*revision),
        content: is_there.then(|| value.slice(HEAD_BYTES..)),
        stored: Some(stored),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        for (revision, content) in [(1, Some(&b"{}"[..])), (u64::MAX, None), (7, Some(b""))] {
            let read = from_value(&to_value(revision, content), Position::ZERO);
            assert_eq!(read.revision, revision);
            assert_eq!(read.content.as_deref(), content);
        }
    }
}
