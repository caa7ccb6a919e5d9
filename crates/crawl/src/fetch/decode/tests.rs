use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;

use super::*;

const ALL: [Encoding; 4] = [
    Encoding::Gzip,
    Encoding::Deflate,
    Encoding::Brotli,
    Encoding::Zstandard,
];

/// 64 MiB of zeros, as the usual compressor writes them.
const BROTLI_ZEROS: [u8; 102] = [
    203, 255, 255, 63, 0, 36, 0, 226, 177, 64, 114, 239, 255, 248, 255, 255, 7, 128, 4, 64, 28, 22,
    128, 238, 253, 31, 255, 255, 255, 0, 144, 0, 136, 195, 2, 208, 189, 255, 227, 255, 255, 31, 0,
    18, 0, 113, 88, 0, 186, 247, 127, 252, 255, 255, 3, 64, 2, 32, 14, 11, 64, 247, 254, 143, 255,
    255, 127, 0, 72, 0, 196, 97, 1, 232, 222, 255, 241, 255, 255, 15, 0, 9, 128, 56, 44, 0, 221,
    251, 63, 254, 255, 255, 1, 32, 1, 16, 135, 5, 160, 123, 255, 55,
];

/// `<p>hello brotli</p>` 50 times, as the usual compressor writes it.
const BROTLI_HELLO: [u8; 38] = [
    27, 181, 3, 248, 29, 135, 233, 54, 120, 182, 201, 234, 94, 250, 154, 7, 78, 142, 78, 250, 188,
    136, 101, 26, 219, 91, 109, 82, 96, 137, 32, 14, 244, 73, 215, 251, 144, 0,
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Brotli without compression: there is no compressor here, but the format has blocks of bytes as they are.
fn brotli(bytes: &[u8]) -> Vec<u8> {
    // A window of 16 bits is one zero bit.
    let mut bits = Bits::default();
    bits.push(0, 1);
    for block in bytes.chunks(1 << 16) {
        bits.push(0, 1); // Not the last one.
        bits.push(0, 2); // Four digits of four bits say how long it is.
        bits.push(block.len() as u64 - 1, 16);
        bits.push(1, 1); // As it is.
        bits.align();
        bits.bytes.extend_from_slice(block);
    }
    bits.push(0b11, 2); // The last one, which is empty.
    bits.align();
    bits.bytes
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    part: u64,
    count: u32,
}

impl Bits {
    fn push(&mut self, value: u64, count: u32) {
        self.part |= value << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.part as u8);
            self.part >>= 8;
            self.count -= 8;
        }
    }

    fn align(&mut self) {
        if self.count > 0 {
            self.push(0, 8 - self.count);
        }
    }
}

fn encoded(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
    match encoding {
        Encoding::Gzip => gzip(bytes),
        Encoding::Deflate => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Encoding::Brotli => brotli(bytes),
        Encoding::Zstandard => zstd::encode_all(bytes, 3).unwrap(),
    }
}

fn decoded(encoding: Encoding, wire: &[u8], step: usize) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(encoding, 8 << 20, 200)?;
    for part in wire.chunks(step) {
        decoder.push(part)?;
    }
    decoder.finish()
}

fn page() -> Vec<u8> {
    (0..3_000)
        .flat_map(|n: u32| format!("<p>{}</p>", n * n % 977).into_bytes())
        .collect()
}

#[test]
fn all_compressions_are_undone_whatever_the_parts_are_in_which_they_come() {
    let page = page();
    for encoding in ALL {
        let wire = encoded(encoding, &page);
        for step in [1, 7, 1_000, usize::MAX] {
            assert!(
                decoded(encoding, &wire, step).unwrap() == page,
                "{encoding:?} {step}"
            );
        }
    }
}

#[test]
fn brotli_is_undone_as_the_usual_compressor_writes_it() {
    let page = "<p>hello brotli</p>".repeat(50);
    for step in [1, usize::MAX] {
        let page_again = decoded(Encoding::Brotli, &BROTLI_HELLO, step).unwrap();
        assert_eq!(page_again, page.as_bytes());
    }
}

#[test]
fn deflate_without_its_wrapping_is_understood() {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&page()).unwrap();
    let wire = encoder.finish().unwrap();
    assert!(decoded(Encoding::Deflate, &wire, 100).unwrap() == page());
}

#[test]
fn gzip_may_have_names_members_and_something_behind_it() {
    let mut encoder = flate2::GzBuilder::new()
        .filename("page.html")
        .comment("a comment")
        .extra(vec![1; 300])
        .write(Vec::new(), Compression::default());
    encoder.write_all(b"one ").unwrap();
    let mut wire = encoder.finish().unwrap();
    wire.extend(gzip(b"two"));
    wire.extend([0; 20]);
    for step in [1, 5, usize::MAX] {
        assert_eq!(decoded(Encoding::Gzip, &wire, step).unwrap(), b"one two");
    }
}

#[test]
fn what_ends_too_early_or_is_something_else_is_broken() {
    let page = page();
    for encoding in ALL {
        let mut wire = encoded(encoding, &page);
        wire.truncate(wire.len() - 1);
        let error = decoded(encoding, &wire, 1_000).unwrap_err();
        assert!(
            matches!(error, DecodeError::Broken(_)),
            "{encoding:?} {error:?}"
        );
        let error = decoded(encoding, b"<html>\xff\xff\xff\xff\xff", 1_000).unwrap_err();
        assert!(
            matches!(error, DecodeError::Broken(_)),
            "{encoding:?} {error:?}"
        );
        // The control: nothing at all is an empty body.
        assert_eq!(decoded(encoding, b"", 1).unwrap(), b"");
    }
    let mut wire = gzip(&page);
    let at = wire.len() - 5;
    wire[at] ^= 1;
    let error = decoded(Encoding::Gzip, &wire, 1_000).unwrap_err();
    assert_eq!(
        error,
        DecodeError::broken("the checksum of its gzip data is wrong")
    );
}

#[test]
fn bombs_are_given_up_before_they_have_grown() {
    let zeros = vec![0; 64 << 20];
    let bombs = [
        (Encoding::Gzip, encoded(Encoding::Gzip, &zeros)),
        (Encoding::Deflate, encoded(Encoding::Deflate, &zeros)),
        (Encoding::Brotli, BROTLI_ZEROS.to_vec()),
        (Encoding::Zstandard, encoded(Encoding::Zstandard, &zeros)),
    ];
    for (encoding, wire) in bombs {
        let mut decoder = Decoder::new(encoding, usize::MAX / 2, 200).unwrap();
        let error = wire
            .chunks(64 << 10)
            .try_for_each(|part| decoder.push(part));
        let is_bomb = matches!(error, Err(DecodeError::Bomb { .. }));
        assert!(is_bomb, "{encoding:?} {error:?}");
        assert!(decoder.output.bytes.capacity() < 4 << 20, "{encoding:?}");
    }
}

#[test]
fn an_honest_body_that_is_too_long_is_too_large() {
    let mut noise = vec![0; 3 << 20];
    let mut random = fastrand::Rng::with_seed(7);
    noise.fill_with(|| random.u8(..));
    for encoding in ALL {
        let wire = encoded(encoding, &noise);
        let mut decoder = Decoder::new(encoding, 2 << 20, 200).unwrap();
        let error = wire
            .chunks(64 << 10)
            .try_for_each(|part| decoder.push(part));
        assert_eq!(error, Err(DecodeError::TooLarge), "{encoding:?}");
        assert!(
            decoder.output.bytes.capacity() <= (2 << 20) + 1,
            "{encoding:?}"
        );
    }
}

#[test]
fn headers_say_how_a_body_is_compressed() {
    let of = |text: &'static str| {
        let value = hyper::header::HeaderValue::from_static(text);
        Encoding::of(&HeaderMap::from_iter([(CONTENT_ENCODING, value)]))
    };
    assert_eq!(of("GZIP"), Ok(Some(Encoding::Gzip)));
    assert_eq!(of("identity, br"), Ok(Some(Encoding::Brotli)));
    assert_eq!(of("utf-8"), Ok(None));
    assert!(of("gzip, gzip").is_err());
    assert_eq!(Encoding::of(&HeaderMap::new()), Ok(None));
}

proptest! {
    #[test]
    fn nothing_that_comes_makes_it_fall_over(bytes in prop::collection::vec(any::<u8>(), 0..2_000), step in 1_usize..500) {
        for encoding in ALL {
            let _ = decoded(encoding, &bytes, step);
        }
    }

    #[test]
    fn what_was_compressed_comes_back(bytes in prop::collection::vec(0_u8..4, 0..5_000), step in 1_usize..3_000) {
        for encoding in ALL {
            prop_assert_eq!(&decoded(encoding, &encoded(encoding, &bytes), step).unwrap(), &bytes);
        }
    }
}
