//! The control: a target with a bug that only somebody who follows the code finds. If the fuzzer does not
//! find it within seconds, it would not find others either.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::gamq::{Command, Decoded, Decoder, Limits};

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new(Limits::default());
    let Ok(Decoded::Command { command, .. }) = decoder.decode(data) else {
        return;
    };
    // One name of four thousand million: the fuzzer has to learn from the comparison.
    if let Command::Close { name } = command
        && let Some(start) = name.as_bytes().first_chunk()
    {
        assert_ne!(
            u32::from_le_bytes(*start),
            0x2167_7562,
            "the planted bug is found"
        );
    }
});
