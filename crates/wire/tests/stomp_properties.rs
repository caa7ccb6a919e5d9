//! What holds for STOMP whatever the frames and however they are cut.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use wire::stomp::{Command, DecodeError, Decoded, Decoder, Limits, Version, encode};

const SMALL: Limits = Limits {
    header_line_bytes_max: 24,
    headers_max: 10,
    headers_bytes_max: 64,
    body_bytes_max: 16,
};

#[derive(Clone, Debug, PartialEq)]
struct Owned {
    command: Command,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Feeds the pieces one after the other, as a reader of a socket would.
fn decode_pieces<'a>(
    limits: Limits,
    version: Version,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Owned>, Result<usize, DecodeError>) {
    let mut decoder = Decoder::new(limits);
    decoder.set_version(version);
    let mut buffer = Vec::new();
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            let consumed = match decoder.decode(&buffer) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::HeartBeat { consumed }) => consumed,
                Ok(Decoded::Frame { frame, consumed }) => {
                    frames.push(Owned {
                        command: frame.command,
                        headers: frame
                            .headers()
                            .map(|(name, value)| (name.into(), value.into()))
                            .collect(),
                        body: frame.body.to_vec(),
                    });
                    consumed
                }
                Err(error) => return (frames, Err(error)),
            };
            buffer.drain(..consumed);
        }
    }
    (frames, Ok(buffer.len()))
}

fn versions() -> impl Strategy<Value = Version> {
    select(vec![Version::V1_0, Version::V1_1, Version::V1_2])
}

fn commands() -> impl Strategy<Value = Command> {
    use Command::*;
    select(vec![
        Connect,
        Stomp,
        Send,
        Subscribe,
        Unsubscribe,
        Ack,
        Nack,
        Begin,
        Commit,
        Abort,
        Disconnect,
        Connected,
        Message,
        Receipt,
        Error,
    ])
}

fn texts() -> impl Strategy<Value = String> {
    let characters = prop_oneof![
        3 => select(vec![':', '\n', '\r', '\\', '\0', 'n', 'c', 'r', 'a', 'é', '🦀']),
        1 => any::<char>(),
    ];
    vec(characters, 0..12).prop_map(String::from_iter)
}

fn bodies() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(vec(any::<u8>(), 0..64))
}

prop_compose! {
    fn frames()(command in commands(), headers in vec((texts(), texts()), 0..12), body in bodies()) -> (Owned, bool) {
        let has_body = body.is_some();
        (Owned { command, headers, body: body.unwrap_or_default() }, has_body)
    }
}

/// Mostly pieces of frames, so that garbage gets past the first line.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"SEND",
        b"CONNECT",
        b"\n",
        b"\n",
        b"\r\n",
        b"\n\n",
        b":",
        b"a:b\n",
        b"\0",
        b"\\",
        b"\\n",
        b"GET ",
        b"content-length:",
        b"content-length:3\n",
        b"7",
        b"abcdefghijklmnop",
        b"\xE9",
        b"SEND\n\n",
        b"MESSAGE\na:b\n\n",
    ];
    let pieces = prop_oneof![
        8 => select(words).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..8),
    ];
    vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

/// What a version can carry; the rest is written so that it does no harm.
fn can_carry(version: Version, frame: &Owned) -> bool {
    let connecting = matches!(
        frame.command,
        Command::Connect | Command::Stomp | Command::Connected
    );
    let plain = connecting || version == Version::V1_0;
    let clean =
        |text: &str| !plain || !(text.contains('\n') || (connecting && text.contains('\r')));
    frame
        .headers
        .iter()
        .all(|(name, value)| clean(name) && clean(value) && !(plain && name.contains(':')))
}

fn encoded(version: Version, frame: &Owned, has_body: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let headers = frame
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()));
    encode(
        &mut out,
        version,
        frame.command,
        headers,
        has_body.then_some(&frame.body),
    );
    out
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(version in versions(), (frame, has_body) in frames()) {
        let bytes = encoded(version, &frame, has_body);
        let (decoded, rest) = decode_pieces(Limits::default(), version, [&bytes[..]]);
        prop_assert_eq!(rest, Ok(0));
        prop_assert_eq!(decoded.len(), 1);
        prop_assert_eq!(&decoded[0].body, &frame.body);
        let mut expected = frame.headers.clone();
        if has_body {
            expected.push(("content-length".to_owned(), frame.body.len().to_string()));
        }
        prop_assert_eq!(decoded[0].headers.len(), expected.len());
        if can_carry(version, &frame) {
            prop_assert_eq!(&decoded[0].headers, &expected);
        }
    }

    #[test]
    fn looking_up_finds_the_first(version in versions(), (frame, has_body) in frames()) {
        let bytes = encoded(version, &frame, has_body);
        let mut decoder = Decoder::new(Limits::default());
        decoder.set_version(version);
        let Ok(Decoded::Frame { frame, .. }) = decoder.decode(&bytes) else {
            panic!("a frame is expected");
        };
        for (name, _) in frame.headers() {
            let first = frame.headers().find(|(other, _)| *other == name).map(|(_, value)| value);
            prop_assert_eq!(frame.header(&name), first);
        }
    }

    #[test]
    fn pieces_make_no_difference_to_frames(
        version in versions(), frames in vec(frames(), 1..4), beats in vec(0_usize..3, 4), size in 1_usize..40,
    ) {
        let mut bytes = Vec::new();
        for ((frame, has_body), beats) in frames.iter().zip(beats) {
            bytes.extend(std::iter::repeat_n(b'\n', beats));
            bytes.extend(encoded(version, frame, *has_body));
        }
        let whole = decode_pieces(Limits::default(), version, [&bytes[..]]);
        prop_assert_eq!(whole.0.len(), frames.len());
        prop_assert_eq!(&whole, &decode_pieces(Limits::default(), version, bytes.chunks(1)));
        prop_assert_eq!(&whole, &decode_pieces(Limits::default(), version, bytes.chunks(size)));
        for split in 0..bytes.len() {
            let (start, end) = bytes.split_at(split);
            prop_assert_eq!(&whole, &decode_pieces(Limits::default(), version, [start, end]));
        }
    }

    #[test]
    fn pieces_make_no_difference_to_garbage(
        version in versions(), bytes in garbage(), sizes in vec(1_usize..20, 1..20),
    ) {
        let whole = decode_pieces(SMALL, version, [&bytes[..]]);
        prop_assert_eq!(&whole, &decode_pieces(SMALL, version, bytes.chunks(1)));
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for size in sizes.into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, next) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = next;
        }
        prop_assert_eq!(&whole, &decode_pieces(SMALL, version, pieces));
    }

    #[test]
    fn garbage_never_needs_more_than_the_limits(version in versions(), bytes in garbage()) {
        let (_, rest) = decode_pieces(SMALL, version, [&bytes[..]]);
        if let Ok(left) = rest {
            let command_line = 16;
            let blank_line = 3;
            prop_assert!(left <= command_line + SMALL.headers_bytes_max + blank_line + SMALL.body_bytes_max);
        }
    }

    #[test]
    fn noise_never_panics(version in versions(), bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode_pieces(SMALL, version, [&bytes[..]]);
    }
}
