//! Every command, header rule, escape and error of STOMP, by version.

use wire::stomp::Version::{V1_0, V1_1, V1_2};
use wire::stomp::{Command, DecodeError, Decoded, Decoder, Limits, Version};

const ALL: [Version; 3] = [V1_0, V1_1, V1_2];

const SMALL: Limits = Limits {
    header_line_bytes_max: 20,
    headers_max: 3,
    headers_bytes_max: 30,
    body_bytes_max: 8,
};

/// Decodes all of `input` and writes it down, one line per frame, heart-beats as `~`.
fn decode_with(limits: Limits, version: Version, input: &[u8]) -> String {
    let mut decoder = Decoder::new(limits);
    decoder.set_version(version);
    let mut seen = Vec::new();
    let mut position = 0;
    loop {
        match decoder.decode(&input[position..]) {
            Ok(Decoded::Incomplete) if position == input.len() => return seen.join("\n"),
            Ok(Decoded::Incomplete) => seen.push("incomplete".to_owned()),
            Ok(Decoded::HeartBeat { consumed }) => {
                seen.push("~".to_owned());
                position += consumed;
                continue;
            }
            Ok(Decoded::Frame { frame, consumed }) => {
                let headers: Vec<_> = frame
                    .headers()
                    .map(|(name, value)| format!("{name:?}={value:?}"))
                    .collect();
                seen.push(format!(
                    "{} [{}] {}",
                    frame.command,
                    headers.join(" "),
                    frame.body.escape_ascii()
                ));
                position += consumed;
                continue;
            }
            Err(error) => seen.push(error.to_string()),
        }
        return seen.join("\n");
    }
}

#[track_caller]
fn check(version: Version, input: &str, expected: &str) {
    let seen = decode_with(Limits::default(), version, input.as_bytes());
    assert_eq!(seen, expected, "STOMP {version}, {input:?}");
}

#[track_caller]
fn check_error(limits: Limits, input: &[u8], expected: DecodeError) {
    let error = Decoder::new(limits)
        .decode(input)
        .expect_err("an error is expected");
    assert_eq!(error, expected, "{}", input.escape_ascii());
}

#[test]
fn every_command_is_known_in_every_version() {
    let commands = [
        (Command::Connect, "CONNECT"),
        (Command::Stomp, "STOMP"),
        (Command::Send, "SEND"),
        (Command::Subscribe, "SUBSCRIBE"),
        (Command::Unsubscribe, "UNSUBSCRIBE"),
        (Command::Ack, "ACK"),
        (Command::Nack, "NACK"),
        (Command::Begin, "BEGIN"),
        (Command::Commit, "COMMIT"),
        (Command::Abort, "ABORT"),
        (Command::Disconnect, "DISCONNECT"),
        (Command::Connected, "CONNECTED"),
        (Command::Message, "MESSAGE"),
        (Command::Receipt, "RECEIPT"),
        (Command::Error, "ERROR"),
    ];
    for (command, name) in commands {
        assert_eq!(command.as_str(), name);
        for version in ALL {
            check(version, &format!("{name}\n\n\0"), &format!("{name} [] "));
            check(
                version,
                &format!("{name}\na:b\n\n\0"),
                &format!("{name} [\"a\"=\"b\"] "),
            );
        }
    }
}

#[test]
fn bodies_end_at_the_first_nul_or_by_their_length() {
    for version in ALL {
        check(version, "SEND\n\nhello\0", "SEND [] hello");
        check(version, "SEND\n\na\0SEND\n\nb\0", "SEND [] a\nSEND [] b");
        check(
            version,
            "SEND\ncontent-length:3\n\na\0b\0",
            "SEND [\"content-length\"=\"3\"] a\\x00b",
        );
        check(
            version,
            "SEND\ncontent-length:0\n\n\0",
            "SEND [\"content-length\"=\"0\"] ",
        );
        check(version, "SEND\n\n\n\r\n\0", "SEND [] \\n\\r\\n");
        check(version, "SEND\n\nhello", "incomplete");
        check(version, "SEND\ncontent-length:5\n\nhello", "incomplete");
    }
}

#[test]
fn line_ends_between_frames_are_heart_beats() {
    for version in ALL {
        check(version, "\n", "~");
        check(version, "\r\n\n", "~");
        check(version, "\n\nSEND\n\n\0\n", "~\nSEND [] \n~");
        check(version, "\r", "incomplete");
    }
    check(
        V1_2,
        "\rSEND\n\n\0",
        "byte 0: `\\rSEND` is not a STOMP command; commands are upper case, such as CONNECT",
    );
}

#[test]
fn only_1_2_ends_lines_in_carriage_returns() {
    check(V1_2, "SEND\r\na:b\r\n\r\nbody\0", "SEND [\"a\"=\"b\"] body");
    check(
        V1_2,
        "SEND\na:b\r\nc:d\n\r\nbody\0",
        "SEND [\"a\"=\"b\" \"c\"=\"d\"] body",
    );
    for version in [V1_0, V1_1] {
        check(
            version,
            "SEND\na:b\r\n\nbody\0",
            "SEND [\"a\"=\"b\\r\"] body",
        );
        let unknown =
            "byte 0: `SEND\\r` is not a STOMP command; commands are upper case, such as CONNECT";
        check(version, "SEND\r\n\r\n\0", unknown);
    }
}

#[test]
fn escapes_by_version() {
    let frame = |header: &str| format!("SEND\n{header}\n\n\0");
    for version in [V1_1, V1_2] {
        check(
            version,
            &frame(r"a\cb:c\nd\\e"),
            r#"SEND ["a:b"="c\nd\\e"] "#,
        );
        check(version, &frame(r"a:\\n"), r#"SEND ["a"="\\n"] "#);
        check(version, &frame(r"a:b:c"), r#"SEND ["a"="b:c"] "#);
    }
    check(V1_2, &frame(r"a:b\rc"), r#"SEND ["a"="b\rc"] "#);
    check(
        V1_0,
        &frame(r"a\c:b\n\\\q"),
        r#"SEND ["a\\c"="b\\n\\\\\\q"] "#,
    );
}

#[test]
fn undefined_escapes_are_refused() {
    let check_bad = |version: Version, header: &str, offset: usize| {
        let mut decoder = Decoder::new(Limits::default());
        decoder.set_version(version);
        let error = decoder
            .decode(header.as_bytes())
            .expect_err("an error is expected");
        assert_eq!(
            error,
            DecodeError::BadEscape { offset },
            "STOMP {version}, {header:?}"
        );
    };
    for version in [V1_1, V1_2] {
        check_bad(version, "SEND\na:b\\t\n\n\0", 8);
        check_bad(version, "SEND\na:b\\\n\n\0", 8);
        check_bad(version, "SEND\na:\\\\\\t\n\n\0", 9);
        check_bad(version, "SEND\n\\N:b\n\n\0", 5);
    }
    check_bad(V1_1, "SEND\na:b\\r\n\n\0", 8);
    check_bad(V1_2, "SEND\r\na:b\\\r\n\r\n\0", 9);
}

#[test]
fn frames_before_the_version_is_known_are_not_escaped() {
    for command in ["CONNECT", "STOMP", "CONNECTED"] {
        for version in ALL {
            let input = format!("{command}\npasscode:a\\b\\n:c\n\n\0");
            check(
                version,
                &input,
                &format!(r#"{command} ["passcode"="a\\b\\n:c"] "#),
            );
        }
    }
}

#[test]
fn a_repeated_header_counts_the_first_time() {
    let input = b"SEND\na:1\nb:2\na:3\ncontent-length:1\ncontent-length:x\n\n\0\0";
    let mut decoder = Decoder::new(Limits::default());
    let Ok(Decoded::Frame { frame, .. }) = decoder.decode(input) else {
        panic!("a frame is expected");
    };
    assert_eq!(frame.header("a").as_deref(), Some("1"));
    assert_eq!(frame.header("b").as_deref(), Some("2"));
    assert_eq!(frame.header("content-length").as_deref(), Some("1"));
    assert_eq!(frame.header("c"), None);
    assert_eq!(frame.headers().filter(|(name, _)| name == "a").count(), 2);
    assert_eq!(frame.body, b"\0");
}

#[test]
fn many_and_far_headers_are_found() {
    let limits = Limits {
        header_line_bytes_max: 100_000,
        headers_bytes_max: 2_000_000,
        ..Limits::default()
    };
    for (padding, line_end) in [(1, "\n"), (1, "\r\n"), (70_000, "\n"), (30_000, "\r\n")] {
        let mut input = format!("SEND{line_end}");
        for number in 0..20 {
            input += &format!("name{number}:{}{number}{line_end}", "x".repeat(padding));
        }
        input += &format!("{line_end}\0");
        let mut decoder = Decoder::new(limits);
        let Ok(Decoded::Frame { frame, .. }) = decoder.decode(input.as_bytes()) else {
            panic!("a frame is expected");
        };
        assert_eq!(frame.headers().count(), 20);
        for number in 0..20 {
            let value = frame.header(&format!("name{number}"));
            assert_eq!(
                value,
                Some(format!("{}{number}", "x".repeat(padding)).into())
            );
        }
    }
}

#[test]
fn headers_that_are_not_utf8_are_refused_but_by_1_0() {
    check_error(
        Limits::default(),
        b"SEND\nab:c\xE9\n\n\0",
        DecodeError::NotUtf8 { offset: 9 },
    );
    check(V1_1, "SEND\nnaïve:é\n\n\0", "SEND [\"naïve\"=\"é\"] ");
    check(V1_0, "SEND\nnaïve:é\n\n\0", "SEND [\"naïve\"=\"é\"] ");
    let latin1 = decode_with(Limits::default(), V1_0, b"SEND\nna\xEFve:\xE9\n\n\0");
    assert_eq!(latin1, "SEND [\"naïve\"=\"é\"] ");
}

#[test]
fn unknown_commands_are_refused_early() {
    let unknown = |shown: &str| DecodeError::UnknownCommand {
        shown: shown.to_owned(),
    };
    check_error(SMALL, b"HELLO\n", unknown("HELLO"));
    check_error(SMALL, b"send\n\n\0", unknown("send"));
    check_error(SMALL, b"CONNECT \n\n\0", unknown("CONNECT "));
    check_error(SMALL, b"\0\n", unknown("\\x00"));
    check_error(
        SMALL,
        b"0123456789abcdefghijkl",
        unknown("0123456789abcdef"),
    );
    check(V1_2, "0123456789abcde", "incomplete");
}

#[test]
fn http_is_recognised_at_once() {
    for method in [
        "GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE",
    ] {
        check_error(
            SMALL,
            format!("{method} ").as_bytes(),
            DecodeError::HttpRequest,
        );
        check_error(
            SMALL,
            format!("{method} / HTTP/1.1\r\n\r\n").as_bytes(),
            DecodeError::HttpRequest,
        );
        check(V1_2, method, "incomplete");
    }
    check_error(SMALL, b"CONNECT h", DecodeError::HttpRequest);
    check_error(
        SMALL,
        b"CONNECT host:443 HTTP/1.1\r\n",
        DecodeError::HttpRequest,
    );
}

#[test]
fn a_header_needs_a_colon() {
    let expected = DecodeError::HeaderWithoutColon {
        offset: 9,
        shown: "hello".to_owned(),
    };
    check_error(SMALL, b"SEND\na:b\nhello\n\nwith:colon\0", expected);
    check(
        V1_2,
        "SEND\n:\na:\n:b\n\n\0",
        r#"SEND [""="" "a"="" ""="b"] "#,
    );
}

#[test]
fn limits_hold_and_are_reported_before_the_line_ends() {
    let too_long = DecodeError::HeaderLineTooLong {
        offset: 5,
        header_line_bytes_max: 20,
    };
    check_error(SMALL, b"SEND\na:3456789012345678901", too_long.clone());
    check_error(SMALL, b"SEND\na:3456789012345678901\n\n\0", too_long);
    let too_large = DecodeError::HeadersTooLarge {
        offset: 24,
        headers_bytes_max: 30,
    };
    check_error(
        SMALL,
        b"SEND\na:3456789012345678\na:34567890123",
        too_large.clone(),
    );
    check_error(
        SMALL,
        b"SEND\na:3456789012345678\na:34567890123\n\n\0",
        too_large.clone(),
    );
    // This line crosses both limits; the one that it crosses first is told.
    check_error(
        SMALL,
        b"SEND\na:3456789012345678\na:345678901234567890123\n",
        too_large,
    );
    let too_many = DecodeError::TooManyHeaders {
        offset: 17,
        headers_max: 3,
    };
    check_error(SMALL, b"SEND\na:b\na:b\na:b\na:b\n", too_many);
    let seen = decode_with(
        SMALL,
        V1_2,
        b"SEND\na:345678901234567890\na:b\na:b\n\n12345678\0",
    );
    assert_eq!(
        seen,
        r#"SEND ["a"="345678901234567890" "a"="b" "a"="b"] 12345678"#
    );
}

#[test]
fn body_limits_hold() {
    let too_large = |offset| DecodeError::BodyTooLarge {
        offset,
        body_bytes_max: 8,
    };
    check_error(SMALL, b"SEND\n\n123456789", too_large(6));
    check_error(SMALL, b"SEND\n\n123456789\0", too_large(6));
    check_error(SMALL, b"SEND\ncontent-length:9\n\n", too_large(23));
}

#[test]
fn content_length_is_a_plain_number() {
    for value in [
        "",
        "x",
        "-1",
        "+1",
        " 1",
        "1 ",
        "0x1",
        "99999999999999999999999999",
    ] {
        let input = format!("SEND\na:b\ncontent-length:{value}\n\n\0\0");
        let expected = DecodeError::BadContentLength {
            offset: 9,
            shown: value.to_owned(),
        };
        check_error(Limits::default(), input.as_bytes(), expected);
    }
    let input = format!("SEND\ncontent-length:{}\n\n", usize::MAX);
    let limits = Limits {
        body_bytes_max: usize::MAX,
        ..Limits::default()
    };
    assert_eq!(decode_with(limits, V1_2, input.as_bytes()), "incomplete");
}

#[test]
fn a_nul_must_follow_the_body() {
    let input = b"SEND\ncontent-length:3\n\nabcd\0";
    check_error(
        Limits::default(),
        input,
        DecodeError::MissingNul { offset: 26 },
    );
}

#[test]
fn errors_show_little_of_what_was_sent() {
    let input = format!("SEND\n{}\n\n\0", "\u{7}".repeat(100));
    let expected = DecodeError::HeaderWithoutColon {
        offset: 5,
        shown: "\\x07".repeat(32),
    };
    check_error(Limits::default(), input.as_bytes(), expected);
}

/// Looking twice at what arrives slowly would take quadratic time. A NUL or a line end put where the
/// decoder has been before goes unseen.
#[test]
fn scanned_bytes_are_not_looked_at_again() {
    let mut decoder = Decoder::new(Limits::default());
    assert!(matches!(
        decoder.decode(b"SEND\nabcd"),
        Ok(Decoded::Incomplete)
    ));
    assert!(matches!(
        decoder.decode(b"SEND\na\n\nd:e"),
        Ok(Decoded::Incomplete)
    ));
    assert!(matches!(
        decoder.decode(b"SEND\nabcd:e\n\nbody"),
        Ok(Decoded::Incomplete)
    ));
    let Ok(Decoded::Frame { frame, consumed }) = decoder.decode(b"SEND\nabcd:e\n\n\0ody\0") else {
        panic!("a frame is expected");
    };
    assert_eq!((frame.body, consumed), (&b"\0ody"[..], 18));
    assert!(matches!(
        decoder.decode(b"SEND\n\n\0"),
        Ok(Decoded::Frame { consumed: 7, .. })
    ));
}

#[test]
fn the_version_may_change_between_pipelined_frames() {
    let input = b"CONNECT\r\naccept-version:1.0\r\n\r\n\0SEND\na:\\c\r\n\n\0";
    let mut decoder = Decoder::new(Limits::default());
    let Ok(Decoded::Frame { consumed, .. }) = decoder.decode(input) else {
        panic!("a frame is expected");
    };
    decoder.set_version(V1_0);
    let Ok(Decoded::Frame { frame, .. }) = decoder.decode(&input[consumed..]) else {
        panic!("a frame is expected");
    };
    assert_eq!(frame.header("a").as_deref(), Some("\\c\r"));
}
