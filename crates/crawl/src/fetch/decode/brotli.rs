//! The format brotli.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{DecodeError, Output};

type State = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// So much is decompressed at once.
const STEP_BYTES: usize = 16 << 10;

/// Decompresses brotli.
pub(super) struct Brotli {
    state: Box<State>,
    /// Written to before it is known how much there is to write.
    step: Box<[u8]>,
    is_whole: bool,
}

impl Brotli {
    pub fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: Box::new(BrotliState::new(alloc(), alloc(), alloc())),
            step: vec![0; STEP_BYTES].into(),
            is_whole: false,
        }
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub fn push(&mut self, input: &[u8], output: &mut Output) -> Result<(), DecodeError> {
        let (mut in_left, mut in_at) = (input.len(), 0);
        while !self.is_whole {
            output.make_room()?;
            let (mut out_left, mut out_at) = (output.spare().min(STEP_BYTES), 0);
            let mut written = 0;
            let result = BrotliDecompressStream(
                &mut in_left,
                &mut in_at,
                input,
                &mut out_left,
                &mut out_at,
                &mut self.step,
                &mut written,
                &mut self.state,
            );
            output.bytes.extend_from_slice(&self.step[..out_at]);
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
