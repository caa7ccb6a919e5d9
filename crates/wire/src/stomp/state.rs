//! What the frames of a node carry in their bodies: changes of state, pairs of keys and values,
//! documents.
//!
//! A body is a list of entries, one after the other, without anything in between. Lengths are 4 bytes
//! and revisions 8, big-endian. An empty body is an empty list.
//!
//! | list of | each entry |
//! |---|---|
//! | writes | 1 byte (1: set, 0: remove), length of the key, key; if set: length of the value, value |
//! | pairs | length of the key, key, length of the value, value |
//! | documents | 1 byte (1: there, 0: removed), length of the name, name, revision; if there: length of the content, content |
//!
//! ```
//! use wire::stomp::state::{Write, decode_writes, encode_write};
//!
//! let mut body = Vec::new();
//! encode_write(&mut body, Write::Set { key: b"count", value: b"7" });
//! encode_write(&mut body, Write::Remove { key: b"old" });
//!
//! let writes: Result<Vec<_>, _> = decode_writes(&body).collect();
//! assert_eq!(writes.unwrap()[1], Write::Remove { key: b"old" });
//! assert!(decode_writes(&body[..3]).next().unwrap().is_err());
//! ```
//!
//! Nothing is copied or allocated: what is read borrows from the body.

use thiserror::Error;

const REMOVED: u8 = 0;
const THERE: u8 = 1;

/// A change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write<'a> {
    /// The key gets this value.
    Set {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// The key is removed.
    Remove {
        /// The key.
        key: &'a [u8],
    },
}

/// A document in a list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    /// Its name.
    pub name: &'a str,
    /// How often it was changed.
    pub revision: u64,
    /// What it holds; `None` if it was removed.
    pub content: Option<&'a [u8]>,
}

/// Why a body is no list of entries. Offsets count from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadBody {
    /// The body ends in the middle of an entry.
    #[error(
        "byte {offset} of the body: {wanted} bytes have to stand here and {left} are left; lengths are 4 bytes, big-endian"
    )]
    Cut {
        /// Where something is missing.
        offset: usize,
        /// How many bytes belong there.
        wanted: usize,
        /// How many there are.
        left: usize,
    },
    /// An entry begins with a byte that means nothing.
    #[error("byte {offset} of the body: an entry begins with 1 or 0, not with {found}")]
    UnknownKind {
        /// Where the entry begins.
        offset: usize,
        /// The byte that stands there.
        found: u8,
    },
    /// The name of a document is not UTF-8.
    #[error("byte {offset} of the body: the name of a document is not UTF-8")]
    NotUtf8 {
        /// Where the length of the name stands.
        offset: usize,
    },
}

/// Appends one change. Key and value are shorter than 4 GiB, as every body is.
pub fn encode_write(out: &mut Vec<u8>, write: Write<'_>) {
    match write {
        Write::Set { key, value } => {
            out.push(THERE);
            encode_pair(out, key, value);
        }
        Write::Remove { key } => {
            out.push(REMOVED);
            push_bytes(out, key);
        }
    }
}

/// Reads changes one by one, in order. What cannot be read is the last that comes.
pub fn decode_writes(body: &[u8]) -> impl Iterator<Item = Result<Write<'_>, BadBody>> + Clone {
    entries(body, Reader::write)
}

/// Appends one pair. Key and value are shorter than 4 GiB, as every body is.
pub fn encode_pair(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    push_bytes(out, key);
    push_bytes(out, value);
}

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Reads pairs one by one, in order. What cannot be read is the last that comes.
pub fn decode_pairs(body: &[u8]) -> impl Iterator<Item = Result<Pair<'_>, BadBody>> + Clone {
    entries(body, Reader::pair)
}

/// Appends one document. Its content is shorter than 4 GiB, as every body is.
pub fn encode_document(out: &mut Vec<u8>, document: Document<'_>) {
    let kind = document.content.map_or(REMOVED, |_| THERE);
    out.push(kind);
    push_bytes(out, document.name.as_bytes());
    out.extend_from_slice(&document.revision.to_be_bytes());
    if let Some(content) = document.content {
        push_bytes(out, content);
    }
}

/// Reads documents one by one, in order. What cannot be read is the last that comes.
pub fn decode_documents(
    body: &[u8],
) -> impl Iterator<Item = Result<Document<'_>, BadBody>> + Clone {
    entries(body, Reader::document)
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() + 4);
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// How one entry is read.
type Read<'a, T> = fn(&mut Reader<'a>) -> Result<T, BadBody>;

fn entries<'a, T>(
    body: &'a [u8],
    read: Read<'a, T>,
) -> impl Iterator<Item = Result<T, BadBody>> + Clone {
    let mut reader = Reader { body, offset: 0 };
    std::iter::from_fn(move || {
        if reader.offset == reader.body.len() {
            return None;
        }
        let entry = read(&mut reader);
        if entry.is_err() {
            reader.offset = reader.body.len();
        }
        Some(entry)
    })
}

#[derive(Clone)]
struct Reader<'a> {
    body: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    fn write(&mut self) -> Result<Write<'a>, BadBody> {
        if self.is_there()? {
            let (key, value) = self.pair()?;
            return Ok(Write::Set { key, value });
        }
        let key = self.bytes()?;
        Ok(Write::Remove { key })
    }

    fn pair(&mut self) -> Result<Pair<'a>, BadBody> {
        Ok((self.bytes()?, self.bytes()?))
    }

    fn document(&mut self) -> Result<Document<'a>, BadBody> {
        let is_there = self.is_there()?;
        let offset = self.offset;
        let name = str::from_utf8(self.bytes()?).map_err(|_| BadBody::NotUtf8 { offset })?;
        let revision = u64::from_be_bytes(self.chunk()?);
        let content = if is_there { Some(self.bytes()?) } else { None };
        Ok(Document {
            name,
            revision,
            content,
        })
    }

    fn is_there(&mut self) -> Result<bool, BadBody> {
        let offset = self.offset;
        match self.chunk()? {
            [THERE] => Ok(true),
            [REMOVED] => Ok(false),
            [found] => Err(BadBody::UnknownKind { offset, found }),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], BadBody> {
        let length = u32::from_be_bytes(self.chunk()?);
        self.take(length as usize)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], BadBody> {
        let taken = self.take(N)?;
        let mut chunk = [0; N];
        chunk.copy_from_slice(taken);
        Ok(chunk)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], BadBody> {
        let rest = &self.body[self.offset..];
        let taken = rest.get(..count).ok_or(BadBody::Cut {
            offset: self.offset,
            wanted: count,
            left: rest.len(),
        })?;
        self.offset += count;
        Ok(taken)
    }
}
