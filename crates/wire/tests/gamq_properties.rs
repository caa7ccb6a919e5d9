//! What holds for gamq whatever the commands and however they are cut.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use wire::gamq::{
    Command, DatagramDecoder, DecodeError, Decoded, Decoder, DeliveryDecoder, Limits,
    encode_delivery, encode_publish, holds_end_line,
};

const SMALL: Limits = Limits {
    line_bytes_max: 24,
    name_bytes_max: 8,
    body_bytes_max: 16,
};

/// Feeds the pieces one after the other, as a reader of a socket would.
fn decode_pieces<'a>(
    limits: Limits,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<String>, Result<usize, DecodeError>) {
    let mut decoder = Decoder::new(limits);
    let mut buffer = Vec::new();
    let mut commands = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.decode(&buffer) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Command { command, consumed }) => {
                    commands.push(format!("{command:?}"));
                    buffer.drain(..consumed);
                }
                Err(error) => return (commands, Err(error)),
            }
        }
    }
    (commands, Ok(buffer.len()))
}

fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"PUB ",
        b"pub q\n",
        b"PUB q\r\n",
        b"SUB a",
        b"\n",
        b"\r",
        b".",
        b"\n.\n",
        b"\n.\r\n",
        b".\r\n",
        b"HELP\n",
        b"SETACK ",
        b"on\r\n",
        b"GET ",
        b"x",
        b"abcdefghijkl",
        b"\xE9",
        b" ",
    ];
    let pieces = prop_oneof![
        8 => select(words).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..8),
    ];
    vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

/// Bodies made of what ends bodies, as far as gamq can carry them.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop_oneof![
        4 => select(b"\n\r.a".to_vec()),
        1 => any::<u8>(),
    ];
    vec(bytes, 0..40).prop_filter("gamq cannot carry it", |body| !holds_end_line(body))
}

proptest! {
    #[test]
    fn what_is_published_is_delivered(bodies in vec(bodies(), 0..5), size in 1_usize..20) {
        let mut published = Vec::new();
        let mut delivered = Vec::new();
        let mut expected = Vec::new();
        for body in &bodies {
            encode_publish(&mut published, "q", body).unwrap();
            encode_delivery(&mut delivered, body);
            let mut body = body.clone();
            if !body.is_empty() && !body.ends_with(b"\n") {
                body.push(b'\n');
            }
            expected.push(format!("{:?}", Command::Publish { name: "q", body: &body }));
        }
        prop_assert_eq!(decode_pieces(Limits::default(), published.chunks(size)), (expected, Ok(0)));

        let mut decoder = DeliveryDecoder::new(1024);
        let mut buffer = Vec::new();
        let mut received = Vec::new();
        for piece in delivered.chunks(size) {
            buffer.extend_from_slice(piece);
            while let Some(delivery) = decoder.decode(&buffer).unwrap() {
                received.push(delivery.body.to_vec());
                let consumed = delivery.consumed;
                buffer.drain(..consumed);
            }
        }
        prop_assert_eq!(received, bodies);
        prop_assert!(buffer.is_empty());
    }

    #[test]
    fn pieces_make_no_difference(bytes in garbage(), size in 1_usize..20) {
        let whole = decode_pieces(SMALL, [&bytes[..]]);
        prop_assert_eq!(&whole, &decode_pieces(SMALL, bytes.chunks(1)));
        prop_assert_eq!(&whole, &decode_pieces(SMALL, bytes.chunks(size)));
        for split in 0..bytes.len() {
            let (start, end) = bytes.split_at(split);
            prop_assert_eq!(&whole, &decode_pieces(SMALL, [start, end]));
        }
    }

    #[test]
    fn garbage_never_needs_more_than_the_limits(bytes in garbage()) {
        if let (_, Ok(left)) = decode_pieces(SMALL, [&bytes[..]]) {
            let end_line = 3;
            prop_assert!(left <= SMALL.line_bytes_max + 1 + SMALL.body_bytes_max + end_line);
        }
    }

    #[test]
    fn a_body_that_holds_an_end_line_cannot_be_published(body in vec(select(b"\n\r.a".to_vec()), 0..12)) {
        let mut bytes = b"PUB q\n".to_vec();
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(b"\n.\r\n");
        let (commands, rest) = decode_pieces(Limits::default(), [&bytes[..]]);
        let arrives_whole = commands.len() == 1 && rest == Ok(0);
        if !holds_end_line(&body) {
            prop_assert!(arrives_whole);
        }
        prop_assert_eq!(encode_publish(&mut Vec::new(), "q", &body).is_err(), holds_end_line(&body));
    }

    #[test]
    fn lines_as_datagrams_are_read_as_a_stream(bytes in garbage()) {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let complete = bytes.last().is_none_or(|byte| *byte == b'\n');
        let (expected, rest) = decode_pieces(SMALL, [&bytes[..]]);
        let mut decoder = DatagramDecoder::new(SMALL);
        let mut commands = Vec::new();
        let mut failed = None;
        for line in lines {
            let fed = decoder.feed(line, |command| commands.push(format!("{command:?}")));
            prop_assert!(decoder.pending_bytes() <= SMALL.line_bytes_max + SMALL.body_bytes_max + 4);
            failed = fed.err();
            if failed.is_some() {
                break;
            }
        }
        if complete {
            prop_assert_eq!(commands, expected);
            prop_assert_eq!(failed, rest.err());
        }
    }

    #[test]
    fn noise_never_panics(datagrams in vec(vec(any::<u8>(), 0..100), 0..4)) {
        let mut decoder = DatagramDecoder::new(SMALL);
        for datagram in &datagrams {
            let _ = decoder.feed(datagram, |_| ());
            let _ = DeliveryDecoder::new(16).decode(datagram);
        }
        let _ = decode_pieces(SMALL, datagrams.iter().map(Vec::as_slice));
    }
}
