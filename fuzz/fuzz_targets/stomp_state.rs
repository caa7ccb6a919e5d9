//! Bodies of a node's frames: no panic, no memory, and a list that was read whole is written again as
//! the same bytes.

#![no_main]

use hivewire_fuzz::within_bytes;
use libfuzzer_sys::fuzz_target;
use wire::stomp::state::{
    BadBody, decode_documents, decode_pairs, decode_writes, encode_document, encode_pair,
    encode_write,
};

/// Reads all entries, without memory, and writes them again; nothing if one cannot be read.
fn again<'a, T: Copy>(
    entries: impl Iterator<Item = Result<T, BadBody>> + Clone + 'a,
    encode: impl Fn(&mut Vec<u8>, T),
) -> Option<Vec<u8>> {
    let is_whole = within_bytes(0, || entries.clone().all(|entry| entry.is_ok()));
    if !is_whole {
        let last = entries.last();
        assert!(last.is_some_and(|entry| entry.is_err()), "it goes on");
        return None;
    }
    let mut written = Vec::new();
    for entry in entries.flatten() {
        encode(&mut written, entry);
    }
    Some(written)
}

fuzz_target!(|data: &[u8]| {
    let writes = again(decode_writes(data), encode_write);
    let pairs = again(decode_pairs(data), |out, (key, value)| {
        encode_pair(out, key, value);
    });
    let documents = again(decode_documents(data), encode_document);
    for written in [writes, pairs, documents].into_iter().flatten() {
        assert_eq!(written, data);
    }
});
