//! gamq deliveries: no panic, no memory, the same bodies however the bytes are cut, and bodies that are
//! written again are read as the same bodies.

#![no_main]

use hivewire_fuzz::{Pieces, within_bytes};
use libfuzzer_sys::fuzz_target;
use wire::gamq::{DecodeError, DeliveryDecoder, encode_delivery};

/// Small, so that the limit is met.
const BODY_BYTES_MAX: usize = 64;

fn read(input: &[u8], ends: impl Iterator<Item = usize>) -> (Vec<Vec<u8>>, Option<DecodeError>) {
    let mut decoder = DeliveryDecoder::new(BODY_BYTES_MAX);
    let mut bodies = Vec::new();
    let mut start = 0;
    for end in ends {
        loop {
            // The decoder reads in place.
            match within_bytes(0, || decoder.decode(&input[start..end])) {
                Ok(None) => break,
                Ok(Some(delivered)) => {
                    bodies.push(delivered.body.to_vec());
                    start += delivered.consumed;
                }
                Err(error) => return (bodies, Some(error)),
            }
        }
    }
    (bodies, None)
}

fuzz_target!(|data: &[u8]| {
    let Some(pieces) = Pieces::new(data) else {
        return;
    };
    let input = pieces.all;
    let whole = read(input, std::iter::once(input.len()));
    assert_eq!(read(input, pieces), whole);
    let mut written = Vec::new();
    for body in &whole.0 {
        encode_delivery(&mut written, body);
    }
    assert_eq!(
        read(&written, std::iter::once(written.len())),
        (whole.0, None)
    );
});
