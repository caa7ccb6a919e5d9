//! The format deflate, and how HTTP uses it: wrapped as zlib, or not.

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::{DecodeError, Output};

/// Deflate without anything around it.
pub(super) struct Inflate {
    decompress: Decompress,
    is_whole: bool,
}

impl Inflate {
    pub fn new(is_zlib: bool) -> Self {
        Self {
            decompress: Decompress::new(is_zlib),
            is_whole: false,
        }
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Decompresses this up to its end, and says how much of it that was.
    pub fn push(
        &mut self,
        input: &[u8],
        output: &mut Output,
        mut check: Option<&mut Crc>,
    ) -> Result<usize, DecodeError> {
        let mut used = 0;
        while !self.is_whole {
            output.make_room()?;
            let (in_before, out_before) = (self.decompress.total_in(), output.bytes.len());
            let status = self
                .decompress
                .decompress_vec(&input[used..], &mut output.bytes, FlushDecompress::None)
                .map_err(DecodeError::broken)?;
            let taken = (self.decompress.total_in() - in_before) as usize;
            used += taken;
            if let Some(check) = &mut check {
                check.update(&output.bytes[out_before..]);
            }
            self.is_whole = status == Status::StreamEnd;
            let is_stuck = taken == 0 && output.bytes.len() == out_before;
            let is_drained = used == input.len() && output.spare() > 0;
            if is_stuck || is_drained {
                break;
            }
        }
        Ok(used)
    }
}

/// What HTTP calls `deflate`: zlib by the book, but some servers leave the wrapping out.
pub(super) struct Deflate(Option<Inflate>);

impl Deflate {
    pub fn new() -> Self {
        Self(None)
    }

    pub fn is_whole(&self) -> bool {
        self.0.as_ref().is_some_and(Inflate::is_whole)
    }

    pub fn push(&mut self, input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
        let Some(&first) = input.first() else {
            return Ok(());
        };
        // The first byte of zlib names the method 8 and a window of at most 32 KiB. Without the wrapping these
        // bits would begin a block without compression whose padding is not zero, which nobody writes.
        let is_zlib = first & 0x0f == 8 && first >> 4 <= 7;
        let inflate = self.0.get_or_insert_with(|| Inflate::new(is_zlib));
        inflate.push(input, output, None).map(drop)
    }
}
