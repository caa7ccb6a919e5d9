//! Documents: definitions that several nodes change, each change by compare-and-swap.

use bytes::Bytes;

/// A document at one of its revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Counts its changes; zero if it never was there.
    pub revision: u64,
    /// Its content; none if it was deleted or never was there.
    pub body: Option<Bytes>,
}

/// What came of changing a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It was changed and has this revision now.
    Stored(u64),
    /// It had changed before and has this revision: read it again.
    Conflict(u64),
}
