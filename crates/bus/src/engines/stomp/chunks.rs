//! Bytes on their way to the server, gathered until they can be written together.

use std::io::{self, IoSlice};

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Bodies from this size on are referred to instead of copied.
const LARGE_BODY_BYTES: usize = 8 * 1024;
/// Memory beyond this is given back once it was used.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// How many pieces are handed to the system in one call.
const PIECES_MAX: usize = 64;

/// Frames one after another. Small bodies stand among the headers, large ones beside them.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    bytes: Vec<u8>,
    /// Large bodies, each with its place among the bytes.
    large: Vec<(usize, Bytes)>,
    large_bytes: usize,
}

impl Chunks {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn len_bytes(&self) -> usize {
        self.bytes.len() + self.large_bytes
    }

    /// Where headers are appended.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the frame whose headers were appended: a blank line, the body, and NUL. What stands
    /// `before` the body counts as a part of it.
    pub fn finish(&mut self, before: &[u8], body: &Bytes) {
        self.bytes.push(b'\n');
        self.bytes.extend_from_slice(before);
        if body.len() < LARGE_BODY_BYTES {
            self.bytes.extend_from_slice(body);
        } else {
            self.large.push((self.bytes.len(), body.clone()));
            self.large_bytes += body.len();
        }
        self.bytes.push(0);
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.large.clear();
        self.large_bytes = 0;
    }

    /// Writes everything.
    pub async fn write_to<W: AsyncWrite + Unpin>(&self, writer: &mut W) -> io::Result<()> {
        let mut written = 0;
        for some in self.large.chunks(PIECES_MAX / 2) {
            let mut pieces = Vec::with_capacity(2 * some.len());
            for (place, body) in some {
                pieces.push(IoSlice::new(&self.bytes[written..*place]));
                pieces.push(IoSlice::new(body));
                written = *place;
            }
            write_pieces(writer, &mut pieces).await?;
        }
        writer.write_all(&self.bytes[written..]).await
    }
}

async fn write_pieces<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut pieces: &mut [IoSlice<'_>],
) -> io::Result<()> {
    // Empty ones at the start would make it look as if nothing could be written.
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        match writer.write_vectored(pieces).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut pieces, count),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_and_small_bodies_come_out_in_order() {
        let mut chunks = Chunks::default();
        let mut expected = Vec::new();
        for index in 0..200_u8 {
            let length = if index % 3 == 0 { LARGE_BODY_BYTES } else { 5 };
            let body = Bytes::from(vec![index; length]);
            chunks.bytes().extend_from_slice(b"SEND\n");
            chunks.finish(b"ab", &body);
            expected.extend_from_slice(b"SEND\n\nab");
            expected.extend_from_slice(&body);
            expected.push(0);
        }
        assert_eq!(chunks.len_bytes(), expected.len());
        let mut written = Vec::new();
        chunks.write_to(&mut written).await.unwrap();
        assert!(written == expected);
        chunks.clear();
        assert!(chunks.is_empty() && chunks.len_bytes() == 0);
    }
}
