//! The control: a target with a bug that only somebody who follows the code finds. If the fuzzer does not
//! find it within seconds, it would not find others either.

#![no_main]

use std::hint::black_box;

use libfuzzer_sys::fuzz_target;
use wire::gamq::{Command, Decoded, Decoder, Limits};

fuzz_target!(|data: &[u8]| {
    let mut decoder = Decoder::new(Limits::default());
    let Ok(Decoded::Command { command, .. }) = decoder.decode(data) else {
        return;
    };
    let Command::Close { name } = command else {
        return;
    };
    // Byte by byte, so that each that fits is a step forward which the fuzzer sees.
    let wanted = b"bug";
    let fits = name
        .bytes()
        .zip(wanted)
        .take_while(|(byte, wanted)| black_box(*byte) == **wanted);
    assert!(fits.count() < wanted.len(), "the planted bug is found");
});
