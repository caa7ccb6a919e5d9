//! gamq commands on a stream: no panic, no memory, the same commands however the bytes are cut.

#![no_main]

use hivewire_fuzz::{Pieces, within_bytes};
use libfuzzer_sys::fuzz_target;
use wire::gamq::{Command, DecodeError, Decoded, Decoder, Limits};

/// Small, so that every limit is met.
const LIMITS: Limits = Limits {
    line_bytes_max: 32,
    name_bytes_max: 12,
    body_bytes_max: 64,
};

/// Reads commands, as text that does not borrow, from input whose ends are given one after the other.
fn read(input: &[u8], ends: impl Iterator<Item = usize>) -> (Vec<String>, Option<DecodeError>) {
    let mut decoder = Decoder::new(LIMITS);
    let mut commands = Vec::new();
    let mut start = 0;
    for end in ends {
        loop {
            // The decoder reads in place.
            match within_bytes(0, || decoder.decode(&input[start..end])) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Command { command, consumed }) => {
                    check(command);
                    commands.push(format!("{command:?}"));
                    start += consumed;
                }
                Err(error) => return (commands, Some(error)),
            }
        }
    }
    (commands, None)
}

fn check(command: Command<'_>) {
    if let Command::Publish { name, body } = command {
        assert!(!name.is_empty() && name.len() <= LIMITS.name_bytes_max);
        assert!(body.len() <= LIMITS.body_bytes_max);
        assert!(body.is_empty() || body.ends_with(b"\n"));
        assert!(!wire::gamq::holds_end_line(body), "{body:?} ended too late");
    }
}

fuzz_target!(|data: &[u8]| {
    let Some(pieces) = Pieces::new(data) else {
        return;
    };
    let input = pieces.all;
    let whole = read(input, std::iter::once(input.len()));
    assert_eq!(read(input, pieces), whole);
});
