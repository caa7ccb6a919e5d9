//! The format zstd.

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::{DecodeError, Output};

/// The largest window, as a power of two: what HTTP allows. It bounds the memory that a server can ask for.
const WINDOW_LOG_MAX: u32 = 23;

/// Decompresses zstd.
pub(super) struct Zstandard {
    decoder: Decoder<'static>,
    is_whole: bool,
}

impl Zstandard {
    pub fn new() -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new().map_err(DecodeError::broken)?;
        let window = DParameter::WindowLogMax(WINDOW_LOG_MAX);
        decoder.set_parameter(window).map_err(DecodeError::broken)?;
        Ok(Self {
            decoder,
            is_whole: false,
        })
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub fn push(&mut self, input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
        let mut from = InBuffer::around(input);
        loop {
            output.make_room()?;
            let at = output.bytes.len();
            let mut to = OutBuffer::around_pos(&mut output.bytes, at);
            let left = self.decoder.run(&mut from, &mut to);
            self.is_whole = left.map_err(DecodeError::broken)? == 0;
            let is_drained = self.is_whole || output.spare() > 0;
            if from.pos() == input.len() && is_drained {
                return Ok(());
            }
        }
    }
}
