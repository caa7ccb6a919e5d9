//! STOMP frames: no panic, little memory, the same frames however the bytes are cut, and a frame that is
//! written again is read as the same frame.

#![no_main]

use hivewire_fuzz::{Pieces, within_bytes};
use libfuzzer_sys::fuzz_target;
use wire::stomp::{self, Command, DecodeError, Decoded, Decoder, Frame, Limits, Version};

/// Small, so that every limit is met.
const LIMITS: Limits = Limits {
    header_line_bytes_max: 64,
    headers_max: 12,
    headers_bytes_max: 256,
    body_bytes_max: 256,
};
/// A decoder reads in place: what it holds are words in its errors.
const DECODER_BYTES_MAX: usize = 1024;

/// A frame that does not borrow.
#[derive(Debug, PartialEq)]
struct Read {
    command: Command,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Read {
    fn new(frame: &Frame<'_>) -> Self {
        let headers = frame.headers();
        Self {
            command: frame.command,
            headers: headers
                .map(|(n, v)| (n.into_owned(), v.into_owned()))
                .collect(),
            body: frame.body.to_vec(),
        }
    }
}

/// Reads frames from input whose ends are given one after the other.
fn read(
    version: Version,
    input: &[u8],
    ends: impl Iterator<Item = usize>,
) -> (Vec<Read>, Option<DecodeError>) {
    let mut decoder = Decoder::new(LIMITS);
    decoder.set_version(version);
    let mut frames = Vec::new();
    let mut start = 0;
    for end in ends {
        loop {
            let decoded = within_bytes(DECODER_BYTES_MAX, || decoder.decode(&input[start..end]));
            match decoded {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::HeartBeat { consumed }) => start += consumed,
                Ok(Decoded::Frame { frame, consumed }) => {
                    assert_eq!(frame.header("x"), first(&frame, "x"));
                    frames.push(Read::new(&frame));
                    start += consumed;
                }
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

fn first<'a>(frame: &Frame<'a>, name: &str) -> Option<std::borrow::Cow<'a, str>> {
    frame
        .headers()
        .find(|(n, _)| n == name)
        .map(|(_, value)| value)
}

/// Only from 1.1 on, and not in frames that come before the version is known, can everything be said.
fn check_written_again(version: Version, read_frame: &Read) {
    let unescaped = matches!(
        read_frame.command,
        Command::Connect | Command::Stomp | Command::Connected
    );
    if version == Version::V1_0 || unescaped {
        return;
    }
    let headers = read_frame.headers.iter();
    let pairs = headers.filter(|(name, _)| name != "content-length");
    let pairs: Vec<(&str, &str)> = pairs.map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let mut bytes = Vec::new();
    stomp::encode(
        &mut bytes,
        version,
        read_frame.command,
        pairs.iter().copied(),
        Some(&read_frame.body),
    );
    let mut decoder = Decoder::new(Limits::default());
    decoder.set_version(version);
    let Ok(Decoded::Frame { frame, consumed }) = decoder.decode(&bytes) else {
        panic!("{read_frame:?} cannot be read again: {bytes:?}");
    };
    assert_eq!(consumed, bytes.len());
    assert_eq!(
        (frame.command, frame.body),
        (read_frame.command, &read_frame.body[..])
    );
    let again = Read::new(&frame).headers;
    let again: Vec<(&str, &str)> = again
        .iter()
        .filter(|(name, _)| name != "content-length")
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(again, pairs);
}

fuzz_target!(|data: &[u8]| {
    let Some((version, data)) = data.split_first() else {
        return;
    };
    let version = [Version::V1_0, Version::V1_1, Version::V1_2][usize::from(*version) % 3];
    let Some(pieces) = Pieces::new(data) else {
        return;
    };
    let input = pieces.all;
    let whole = read(version, input, std::iter::once(input.len()));
    assert_eq!(read(version, input, pieces), whole);
    for frame in &whole.0 {
        check_written_again(version, frame);
    }
});
