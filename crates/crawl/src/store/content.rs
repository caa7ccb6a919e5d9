//! How bodies are kept.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

use super::StoreError;

/// How long a body may be that a reader asks for, unless it says otherwise.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Level 1 takes a third of the time of the usual one, and pages become hardly longer.
const LEVEL: i32 = 1;

/// Makes bodies short, one after another.
pub(super) struct Packer(Compressor<'static>);

impl Packer {
    pub fn new() -> std::io::Result<Self> {
        Compressor::new(LEVEL).map(Self)
    }

    pub fn pack(&mut self, body: &[u8]) -> std::io::Result<Vec<u8>> {
        self.0.compress(body)
    }
}

/// The body that was kept so.
pub(super) fn body_of(
    kept: &[u8],
    url: &str,
    body_bytes_max: usize,
) -> Result<Vec<u8>, StoreError> {
    let damaged = |problem: &str| StoreError::Damaged {
        place: format!("of {url}"),
        problem: problem.to_owned(),
    };
    let length = match zstd_safe::get_frame_content_size(kept) {
        Ok(Some(length)) => length,
        _ => return Err(damaged("its body does not begin as it should")),
    };
    let capacity = usize::try_from(length)
        .ok()
        .filter(|length| *length <= body_bytes_max);
    let Some(capacity) = capacity else {
        return Err(StoreError::TooLong {
            url: url.to_owned(),
            bytes: length,
            bytes_max: body_bytes_max,
        });
    };
    let body = Decompressor::new().and_then(|mut unpack| unpack.decompress(kept, capacity));
    body.map_err(|error| damaged(&format!("its body cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_come_back_unless_they_are_too_long_or_damaged() {
        let body = "<p>page</p>".repeat(1_000).into_bytes();
        let mut kept = Packer::new().unwrap().pack(&body).unwrap();
        assert!(kept.len() < 200);
        assert_eq!(body_of(&kept, "u", body.len()).unwrap(), body);
        assert!(matches!(
            body_of(&kept, "u", body.len() - 1),
            Err(StoreError::TooLong { bytes: 11_000, .. })
        ));
        let middle = kept.len() / 2;
        kept.truncate(middle);
        assert!(matches!(
            body_of(&kept, "u", 1 << 20),
            Err(StoreError::Damaged { .. })
        ));
        assert!(matches!(
            body_of(b"", "u", 1 << 20),
            Err(StoreError::Damaged { .. })
        ));
    }
}
