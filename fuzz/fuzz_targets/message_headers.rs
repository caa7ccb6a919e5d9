//! Headers as they stand in the journal: bytes that are no headers are refused, and headers that were
//! accepted can be read through and written again.

#![no_main]

use bytes::Bytes;
use hivewire_fuzz::within_bytes;
use kernel::Headers;
use libfuzzer_sys::fuzz_target;

/// Errors may hold a few words.
const READER_BYTES_MAX: usize = 1024;

fuzz_target!(|data: &[u8]| {
    let encoded = Bytes::copy_from_slice(data);
    let bytes_max = data.len() + READER_BYTES_MAX;
    let Ok(headers) = within_bytes(bytes_max, || Headers::from_encoded(encoded)) else {
        return;
    };
    assert_eq!(headers.as_encoded(), data);
    // The journal may hold a name that is longer than a new one may be.
    if let Ok(again) = Headers::from_pairs(headers.iter()) {
        assert_eq!(again.as_encoded(), data);
    }
    if let Some((name, _)) = headers.iter().next() {
        assert!(headers.get(name).is_some());
        assert!(headers.without(|n| n == name).get(name).is_none());
    }
});
