//! gamq commands in datagrams: no panic, never more held than the limits allow, and what was refused
//! leaves nothing behind.

#![no_main]

use hivewire_fuzz::{Pieces, within_bytes};
use libfuzzer_sys::fuzz_target;
use wire::gamq::{Command, DatagramDecoder, Limits};

/// Small, so that every limit is met.
const LIMITS: Limits = Limits {
    line_bytes_max: 32,
    name_bytes_max: 12,
    body_bytes_max: 64,
};
/// A datagram is never longer than this here.
const DATAGRAM_BYTES_MAX: usize = 256;
/// What may be pending: a line, a body, and the end of it.
const PENDING_BYTES_MAX: usize = LIMITS.line_bytes_max + LIMITS.body_bytes_max + 8;

fuzz_target!(|data: &[u8]| {
    let Some(pieces) = Pieces::new(data) else {
        return;
    };
    let input = pieces.all;
    let mut decoder = DatagramDecoder::new(LIMITS);
    let mut start = 0;
    for end in pieces {
        let datagram = &input[start..end];
        start = end;
        // A vector may grow to twice of what it holds, while the old one is still there.
        let bytes_max = 3 * (PENDING_BYTES_MAX + DATAGRAM_BYTES_MAX);
        let fed = within_bytes(bytes_max, || {
            decoder.feed(datagram, |command| {
                if let Command::Publish { name, body } = command {
                    assert!(!name.is_empty() && name.len() <= LIMITS.name_bytes_max);
                    assert!(body.len() <= LIMITS.body_bytes_max);
                }
            })
        });
        assert!(decoder.pending_bytes() <= PENDING_BYTES_MAX);
        assert_eq!(decoder.is_idle(), decoder.pending_bytes() == 0);
        if fed.is_err() {
            assert!(decoder.is_idle(), "what was refused is still there");
        }
    }
});
