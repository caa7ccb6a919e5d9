//! Every command, answer and error of gamq, byte by byte.

use wire::gamq::{
    self, BadArgument, Command, DatagramDecoder, DecodeError, Decoded, Decoder, DeliveryDecoder,
    EncodeError, Limits,
};

const SMALL: Limits = Limits {
    line_bytes_max: 20,
    name_bytes_max: 8,
    body_bytes_max: 8,
};

fn decode(limits: Limits, input: &[u8]) -> Result<Option<(Command<'_>, usize)>, DecodeError> {
    Ok(match Decoder::new(limits).decode(input)? {
        Decoded::Incomplete => None,
        Decoded::Command { command, consumed } => Some((command, consumed)),
    })
}

#[track_caller]
fn check(input: &str, expected: Command<'_>) {
    let seen = decode(SMALL, input.as_bytes());
    assert_eq!(seen, Ok(Some((expected, input.len()))), "{input:?}");
}

#[track_caller]
fn check_incomplete(input: &str) {
    assert_eq!(decode(SMALL, input.as_bytes()), Ok(None), "{input:?}");
}

#[track_caller]
fn check_error(input: &str, expected: DecodeError) {
    assert_eq!(decode(SMALL, input.as_bytes()), Err(expected), "{input:?}");
}

fn publish<'a>(name: &'a str, body: &'a str) -> Command<'a> {
    let body = body.as_bytes();
    Command::Publish { name, body }
}

#[test]
fn commands_are_split_at_white_space_in_any_case() {
    for (line, expected) in [
        ("HELP", Command::Help),
        ("PINGREQ", Command::PingRequest),
        ("DISCONNECT", Command::Disconnect),
        ("SETACK on", Command::SetAck(true)),
        ("SETACK OFF", Command::SetAck(false)),
        ("SUB q", Command::Subscribe { name: "q" }),
        ("SUB topic:a", Command::Subscribe { name: "topic:a" }),
        ("SUB metrics", Command::Subscribe { name: "metrics" }),
        ("CLOSE q", Command::Close { name: "q" }),
        ("  sub\t q  x y", Command::Subscribe { name: "q" }),
        ("SuB é", Command::Subscribe { name: "é" }),
        ("", Command::Blank),
        (" \t", Command::Blank),
        ("HELLO you", Command::Unrecognised(b"HELLO you")),
        ("PUBLISH q", Command::Unrecognised(b"PUBLISH q")),
        (".", Command::Unrecognised(b".")),
    ] {
        check(&format!("{line}\n"), expected);
        check(&format!("{line}\r\n"), expected);
    }
    check("help\n", Command::Help);
    check("PingReq\n", Command::PingRequest);
    check("disconnect\n", Command::Disconnect);
    check("setack oN\n", Command::SetAck(true));
    check("close Q\n", Command::Close { name: "Q" });
}

#[test]
fn missing_and_bad_arguments_are_told() {
    let bad = |command, reason| Command::BadArgument { command, reason };
    check("SUB\n", Command::MissingArgument { command: "SUB" });
    check("CLOSE \r\n", Command::MissingArgument { command: "CLOSE" });
    check("SETACK\n", Command::MissingArgument { command: "SETACK" });
    check("SETACK maybe\n", bad("SETACK", BadArgument::NotOnOrOff));
    let too_long = BadArgument::NameTooLong { name_bytes_max: 8 };
    check("SUB 123456789\n", bad("SUB", too_long));
    let not_text = decode(SMALL, b"SUB \xE9\n");
    assert_eq!(not_text, Ok(Some((bad("SUB", BadArgument::NotUtf8), 6))));
}

#[test]
fn a_body_goes_with_its_publish_even_if_the_name_is_bad() {
    check(
        "PUB\nCLOSE q\n.\r\n",
        Command::MissingArgument { command: "PUB" },
    );
    let reason = BadArgument::NameTooLong { name_bytes_max: 8 };
    let command = "PUB";
    check(
        "PUB 123456789\nCLOSE q\n.\n",
        Command::BadArgument { command, reason },
    );
}

#[test]
fn a_publish_ends_in_a_line_with_a_full_stop() {
    check("PUB q\r\n0\n.\r\n", publish("q", "0\n"));
    check("pub q\n0\n.\n", publish("q", "0\n"));
    check(
        "Pub q more words\r\na\r\nb\r\n.\r\n",
        publish("q", "a\r\nb\r\n"),
    );
    check("PUB q\r\n.\r\n", publish("q", ""));
    check("PUB q\n.\n", publish("q", ""));
    check("PUB q\n\n.\n", publish("q", "\n"));
    check("PUB q\n..\n.a\n.\n", publish("q", "..\n.a\n"));
    check("PUB q\na.\n.\n", publish("q", "a.\n"));
    check("PUB q\n. \n.\r.\n.\n", publish("q", ". \n.\r.\n"));
    check("PUB q\n\n\n.\n", publish("q", "\n\n"));
    for unfinished in [
        "PUB q",
        "PUB q\n",
        "PUB q\n.",
        "PUB q\n.\r",
        "PUB q\na\n",
        "PUB q\na\n.",
        "PUB q\na.\n",
    ] {
        check_incomplete(unfinished);
    }
}

#[test]
fn commands_follow_each_other() {
    let input = b"PUB q\na\n.\n\nSUB q\nPINGREQ\r\n";
    let mut decoder = Decoder::new(SMALL);
    let mut seen = Vec::new();
    let mut position = 0;
    while let Ok(Decoded::Command { command, consumed }) = decoder.decode(&input[position..]) {
        seen.push(command);
        position += consumed;
    }
    let subscribe = Command::Subscribe { name: "q" };
    assert_eq!(
        seen,
        [
            publish("q", "a\n"),
            Command::Blank,
            subscribe,
            Command::PingRequest
        ]
    );
    assert_eq!(position, input.len());
}

#[test]
fn http_is_recognised_at_once_but_only_on_the_first_line() {
    check_error("GET ", DecodeError::HttpRequest);
    check_error("POST / HTTP/1.1\r\n", DecodeError::HttpRequest);
    check_error("CONNECT host:443 HTTP/1.1\r\n", DecodeError::HttpRequest);
    let mut decoder = Decoder::new(SMALL);
    assert!(matches!(
        decoder.decode(b"PINGREQ\n"),
        Ok(Decoded::Command { .. })
    ));
    let command = Command::Unrecognised(b"GET me");
    assert_eq!(
        decoder.decode(b"GET me\n"),
        Ok(Decoded::Command {
            command,
            consumed: 7
        })
    );
}

#[test]
fn limits_hold() {
    let too_long = DecodeError::LineTooLong { line_bytes_max: 20 };
    check_error("SUB 12345678901234567", too_long);
    check_error("SUB 12345678901234567\n", too_long);
    check_incomplete("SUB 1234567890123456");
    let too_large = DecodeError::BodyTooLarge {
        offset: 6,
        body_bytes_max: 8,
    };
    check("PUB q\n1234567\n.\r\n", publish("q", "1234567\n"));
    check_error("PUB q\n12345678\n.\r\n", too_large);
    check_error("PUB q\n123456789012", too_large);
    check_incomplete("PUB q\n12345678901");
}

/// Looking twice at what arrives slowly would take quadratic time. An end put where the decoder has
/// been before goes unseen.
#[test]
fn scanned_bytes_are_not_looked_at_again() {
    let mut decoder = Decoder::new(Limits::default());
    assert_eq!(decoder.decode(b"PUB q"), Ok(Decoded::Incomplete));
    assert_eq!(decoder.decode(b"P\nB q"), Ok(Decoded::Incomplete));
    assert_eq!(decoder.decode(b"PUB q\nabcdef"), Ok(Decoded::Incomplete));
    assert_eq!(decoder.decode(b"PUB q\na\n.\nef"), Ok(Decoded::Incomplete));
    assert!(decoder.in_body());
    let expected = Decoded::Command {
        command: publish("q", "a\n.\nef\n"),
        consumed: 15,
    };
    assert_eq!(decoder.decode(b"PUB q\na\n.\nef\n.\nPUB"), Ok(expected));
    assert!(!decoder.in_body());
}

#[test]
fn answers_are_the_known_bytes() {
    assert_eq!(gamq::PUBACK, b"PUBACK\n\n");
    assert_eq!(gamq::PING_RESPONSE, b"PINGRESP\n");
    assert_eq!(gamq::UNRECOGNISED, b"Unrecognised command\n");
    let help = gamq::help_text();
    assert!(help.starts_with("Available commands:\n\t"));
    assert!(help.ends_with('\n') && !help.ends_with("\n\n"));
    assert!(help.contains("topic:<name>"));
    for command in [
        "HELP",
        "PUB",
        "SUB",
        "PINGREQ",
        "SETACK",
        "CLOSE",
        "DISCONNECT",
    ] {
        assert!(help.contains(&format!("\n\t{command}")), "{command}");
    }
    let mut out = Vec::new();
    gamq::encode_delivery(&mut out, b"0\n");
    assert_eq!(out, b"0\n\r\n.\r\n");
}

#[test]
fn client_commands_are_encoded() {
    let mut out = Vec::new();
    gamq::encode_publish(&mut out, "q", b"a").unwrap();
    gamq::encode_publish(&mut out, "q", b"").unwrap();
    gamq::encode_subscribe(&mut out, "topic:t").unwrap();
    gamq::encode_close(&mut out, "q").unwrap();
    gamq::encode_set_ack(&mut out, true);
    gamq::encode_set_ack(&mut out, false);
    let expected =
        "PUB q\r\na\n.\r\nPUB q\r\n.\r\nSUB topic:t\r\nCLOSE q\r\nSETACK on\r\nSETACK off\r\n";
    assert_eq!(out, expected.as_bytes());
}

#[test]
fn what_gamq_cannot_say_is_refused() {
    let mut out = Vec::new();
    for name in ["", "a b", "a\n", "\r"] {
        assert_eq!(
            gamq::encode_publish(&mut out, name, b"a"),
            Err(EncodeError::BadName)
        );
        assert_eq!(
            gamq::encode_subscribe(&mut out, name),
            Err(EncodeError::BadName)
        );
    }
    for body in [
        ".",
        ".\n",
        ".\r\n",
        "a\n.",
        "a\n.\r",
        "a\n.\nb",
        "a\r\n.\r\nb",
    ] {
        assert_eq!(
            gamq::encode_publish(&mut out, "q", body.as_bytes()),
            Err(EncodeError::BodyHoldsEndLine)
        );
    }
    assert!(out.is_empty());
}

#[test]
fn deliveries_are_split() {
    let mut decoder = DeliveryDecoder::new(4);
    assert_eq!(decoder.decode(b"12\n\r\n.\r"), Ok(None));
    let delivered = decoder.decode(b"12\n\r\n.\r\n").unwrap().unwrap();
    assert_eq!((delivered.body, delivered.consumed), (&b"12\n"[..], 8));
    let empty = decoder.decode(b"\r\n.\r\n\r\n.\r\n").unwrap().unwrap();
    assert_eq!((empty.body, empty.consumed), (&b""[..], 5));
    let too_large = DecodeError::BodyTooLarge {
        offset: 0,
        body_bytes_max: 4,
    };
    assert_eq!(decoder.clone().decode(b"12345\r\n.\r\n"), Err(too_large));
    assert_eq!(decoder.clone().decode(b"123456789"), Err(too_large));
    assert_eq!(decoder.decode(b"12345678"), Ok(None));
}

#[track_caller]
fn check_datagrams(datagrams: &[&str], expected: &[&str]) {
    let mut decoder = DatagramDecoder::new(SMALL);
    let mut seen = Vec::new();
    for datagram in datagrams {
        let mut commands = Vec::new();
        let fed = decoder.feed(datagram.as_bytes(), |command| {
            commands.push(match command {
                Command::Publish { name, body } => format!("{name} {}", body.escape_ascii()),
                other => format!("{other:?}"),
            });
        });
        seen.extend(commands);
        if let Err(error) = fed {
            seen.push(format!("{error:?}"));
        }
    }
    assert_eq!(seen, expected, "{datagrams:?}");
}

#[test]
fn datagrams_are_put_together() {
    check_datagrams(&["pub q\r\n", "0\n", ".\r\n"], &["q 0\\n"]);
    check_datagrams(
        &["PUB q\n", "a", "b\n", ".\n", "PINGREQ\n"],
        &["q ab\\n", "PingRequest"],
    );
    check_datagrams(&["PUB q\na\n.\r\n"], &["q a\\n"]);
    check_datagrams(&["PUB q\na\n.\nPUB r\nb\n.\n"], &["q a\\n", "r b\\n"]);
    check_datagrams(
        &["PUB q\na\n.\nPUB r\n", "b\n", ".\n"],
        &["q a\\n", "r b\\n"],
    );
    check_datagrams(&["PUB q\n", ".\n"], &["q "]);
    check_datagrams(&["", "\n", "PINGREQ"], &["Blank", "PingRequest"]);
}

#[test]
fn the_end_of_a_datagram_counts() {
    check_datagrams(&["PINGREQ", "PINGREQ"], &["PingRequest", "PingRequest"]);
    check_datagrams(&["PUB q", "a\n", ".\n"], &["q a\\n"]);
    check_datagrams(&["PUB q\n", "a", ".\r\n"], &["q a"]);
    check_datagrams(
        &["PUB q\na\n.\r\nPING"],
        &["q a\\n", "Unrecognised([80, 73, 78, 71])"],
    );
}

#[test]
fn a_sender_beyond_the_limits_starts_anew() {
    let too_large = "BodyTooLarge { offset: 6, body_bytes_max: 8 }";
    check_datagrams(
        &["PUB q\n", "123456789012", "PINGREQ\n"],
        &[too_large, "PingRequest"],
    );
    check_datagrams(
        &["PUB q\n", "123456789", ".\n", "PINGREQ\n"],
        &[too_large, "PingRequest"],
    );
    let mut decoder = DatagramDecoder::new(SMALL);
    assert!(decoder.is_idle());
    decoder
        .feed(b"PUB q\n12", |_| panic!("nothing is complete"))
        .unwrap();
    assert!(!decoder.is_idle());
    assert_eq!(decoder.pending_bytes(), 8);
    decoder
        .feed(b"34567890123", |_| panic!("nothing is complete"))
        .unwrap_err();
    assert!(decoder.is_idle());
}
