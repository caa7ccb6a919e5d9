//! The format brotli.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{DecodeError, Output, ROOM_BYTES_MOST};

type State = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// So much is made ready to be written to at once.
const STEP_BYTES: usize = 64 << 10;

/// Decompresses brotli.
pub(super) struct Brotli {
    state: Box<State>,
    is_whole: bool,
}

impl Brotli {
    pub fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: Box::new(BrotliState::new(alloc(), alloc(), alloc())),
            is_whole: false,
        }
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub fn push(&mut self, input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
        const { assert!(STEP_BYTES <= ROOM_BYTES_MOST) };
        let (mut in_left, mut in_at) = (input.len(), 0);
        while !self.is_whole {
            output.make_room()?;
            let mut out_at = output.bytes.len();
            let mut out_left = output.spare().min(STEP_BYTES);
            output.bytes.resize(out_at + out_left, 0);
            let mut written = 0;
            let result = BrotliDecompressStream(
                &mut in_left,
                &mut in_at,
                input,
                &mut out_left,
                &mut out_at,
                &mut output.bytes,
                &mut written,
                &mut self.state,
            );
            output.bytes.truncate(out_at);
            match result {
                BrotliResult::ResultSuccess => self.is_whole = true,
                BrotliResult::NeedsMoreInput => break,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::ResultFailure => {
                    return Err(DecodeError::broken("its brotli data is wrong"));
                }
            }
        }
        Ok(())
    }
}
