//! What comes after the last event.

use bytes::Bytes;
use kernel::worker::Value;

/// There are no more events.
#[derive(Debug)]
pub struct End;

impl Value for End {
    fn encode(&self) -> Bytes {
        Bytes::from_static(b"null")
    }

    fn len_bytes(&self) -> usize {
        0
    }
}
