//! Bodies are decompressed as they come, and never into more than they may become.

mod brotli;
mod gzip;
mod inflate;
mod zstandard;

use hyper::header::{CONTENT_ENCODING, HeaderMap};

use brotli::Brotli;
use gzip::Gzip;
use inflate::Deflate;
use zstandard::Zstandard;

/// Below this size a body may have grown as much as it likes.
const RATIO_COUNTS_FROM_BYTES: usize = 1 << 20;
/// So much is decompressed at once, so that the ratio is known well enough.
const PIECE_BYTES: usize = 4 << 10;
/// With less room than this it is worth making more.
const ROOM_BYTES_LEAST: usize = 4 << 10;
/// At most this much room is made at once.
const ROOM_BYTES_MOST: usize = 1 << 20;

/// Why a body was given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// It is too long.
    TooLarge,
    /// It grows beyond measure.
    Bomb {
        wire_bytes: usize,
        decoded_bytes: usize,
    },
    /// It cannot be decompressed.
    Broken(String),
}

impl DecodeError {
    fn broken(error: impl ToString) -> Self {
        Self::Broken(error.to_string())
    }
}

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstandard,
}

impl Encoding {
    /// What the headers say. Words that nobody knows are taken for nothing, as browsers do: servers write all sorts of things there.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, DecodeError> {
        let values = headers.get_all(CONTENT_ENCODING).into_iter();
        let words = values
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(','));
        let mut known = words.filter_map(|word| Self::named(word.trim()));
        let first = known.next();
        match known.next() {
            None => Ok(first),
            Some(_) => Err(DecodeError::broken("it is compressed more than once")),
        }
    }

    fn named(word: &str) -> Option<Self> {
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        match () {
            () if is("gzip") || is("x-gzip") => Some(Self::Gzip),
            () if is("deflate") => Some(Self::Deflate),
            () if is("br") => Some(Self::Brotli),
            () if is("zstd") => Some(Self::Zstandard),
            () => None,
        }
    }
}

/// Decompresses a body.
pub(super) struct Decoder {
    kind: Kind,
    output: Output,
}

enum Kind {
    Gzip(Gzip),
    Deflate(Deflate),
    Brotli(Brotli),
    Zstandard(Zstandard),
}

impl Decoder {
    /// Decompresses what came like that, into at most so many bytes, and so many times its size.
    pub fn new(
        encoding: Encoding,
        bytes_max: usize,
        ratio_max: usize,
    ) -> Result<Self, DecodeError> {
        let kind = match encoding {
            Encoding::Gzip => Kind::Gzip(Gzip::new()),
            Encoding::Deflate => Kind::Deflate(Deflate::new()),
            Encoding::Brotli => Kind::Brotli(Brotli::new()),
            Encoding::Zstandard => Kind::Zstandard(Zstandard::new()?),
        };
        Ok(Self {
            kind,
            output: Output {
                bytes: Vec::new(),
                wire_bytes: 0,
                bytes_max,
                ratio_max,
            },
        })
    }

    /// More has come.
    pub fn push(&mut self, input: &[u8]) -> Result<(), DecodeError> {
        for piece in input.chunks(PIECE_BYTES) {
            self.output.wire_bytes += piece.len();
            match &mut self.kind {
                Kind::Gzip(gzip) => gzip.push(piece, &mut self.output)?,
                Kind::Deflate(deflate) => deflate.push(piece, &mut self.output)?,
                Kind::Brotli(brotli) => brotli.push(piece, &mut self.output)?,
                Kind::Zstandard(zstandard) => zstandard.push(piece, &mut self.output)?,
            }
            self.output.check()?;
        }
        Ok(())
    }

    /// Nothing more will come.
    pub fn finish(self) -> Result<Vec<u8>, DecodeError> {
        let is_whole = match &self.kind {
            Kind::Gzip(gzip) => gzip.is_whole(),
            Kind::Deflate(deflate) => deflate.is_whole(),
            Kind::Brotli(brotli) => brotli.is_whole(),
            Kind::Zstandard(zstandard) => zstandard.is_whole(),
        };
        // Many servers name a compression for a body that is not there.
        match is_whole || self.output.wire_bytes == 0 {
            true => Ok(self.output.bytes),
            false => Err(DecodeError::broken(
                "it ends in the middle of compressed data",
            )),
        }
    }
}

/// What a body has become so far.
struct Output {
    bytes: Vec<u8>,
    wire_bytes: usize,
    bytes_max: usize,
    ratio_max: usize,
}

impl Output {
    fn check(&self) -> Result<(), DecodeError> {
        let decoded_bytes = self.bytes.len();
        let is_grown = decoded_bytes > RATIO_COUNTS_FROM_BYTES
            && decoded_bytes / self.ratio_max > self.wire_bytes;
        if is_grown {
            return Err(DecodeError::Bomb {
                wire_bytes: self.wire_bytes,
                decoded_bytes,
            });
        }
        match decoded_bytes > self.bytes_max {
            true => Err(DecodeError::TooLarge),
            false => Ok(()),
        }
    }

    /// Makes room for more, but no more than may come.
    fn make_room(&mut self) -> Result<(), DecodeError> {
        self.check()?;
        if self.spare() < ROOM_BYTES_LEAST {
            let wanted = self
                .bytes
                .len()
                .clamp(4 * ROOM_BYTES_LEAST, ROOM_BYTES_MOST);
            // One more than may come shows that it is too long.
            let left = self.bytes_max - self.bytes.len() + 1;
            self.bytes.reserve_exact(wanted.min(left));
        }
        Ok(())
    }

    fn spare(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }
}

#[cfg(test)]
mod tests;
