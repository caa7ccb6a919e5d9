//! What STOMP frames look like on the wire, and what two sides agree on.

use wire::stomp::Version::{V1_0, V1_1, V1_2};
use wire::stomp::{
    Command, HeartBeat, Version, begin, encode, finish, header, header_number, header_raw,
    negotiate,
};

#[track_caller]
fn check(
    version: Version,
    command: Command,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
    expected: &str,
) {
    let mut out = b"before ".to_vec();
    encode(&mut out, version, command, headers.iter().copied(), body);
    assert_eq!(
        out,
        format!("before {expected}").as_bytes(),
        "{}",
        out.escape_ascii()
    );
}

#[test]
fn frames_are_written_by_version() {
    let headers = [("a:b", "c:d\\e\nf\rg")];
    check(
        V1_2,
        Command::Send,
        &headers,
        None,
        "SEND\na\\cb:c\\cd\\\\e\\nf\\rg\n\n\0",
    );
    check(
        V1_1,
        Command::Send,
        &headers,
        None,
        "SEND\na\\cb:c\\cd\\\\e\\nf\rg\n\n\0",
    );
    check(
        V1_0,
        Command::Send,
        &[("a", "c:d\\e\rg")],
        None,
        "SEND\na:c:d\\e\rg\n\n\0",
    );
}

#[test]
fn what_cannot_be_escaped_cannot_break_out() {
    let headers = [("a:b\nc", "d\ne:f\n\n\0")];
    check(
        V1_0,
        Command::Send,
        &headers,
        None,
        "SEND\na\\cb\\nc:d\\ne:f\\n\\n\0\n\n\0",
    );
    for version in [V1_0, V1_1, V1_2] {
        for command in [Command::Connect, Command::Stomp, Command::Connected] {
            let expected = format!("{command}\na:b\\c:d\\n\\r\n\n\0");
            check(version, command, &[("a", "b\\c:d\n\r")], None, &expected);
        }
    }
}

#[test]
fn a_body_brings_its_length() {
    check(
        V1_2,
        Command::Send,
        &[("a", "b")],
        Some(b"hi"),
        "SEND\na:b\ncontent-length:2\n\nhi\0",
    );
    check(
        V1_2,
        Command::Error,
        &[],
        Some(b""),
        "ERROR\ncontent-length:0\n\n\0",
    );
    let wrong = [("content-length", "7"), ("a", "b")];
    check(
        V1_2,
        Command::Message,
        &wrong,
        Some(b"hi"),
        "MESSAGE\na:b\ncontent-length:2\n\nhi\0",
    );
    check(V1_2, Command::Message, &wrong, None, "MESSAGE\na:b\n\n\0");
}

#[test]
fn frames_are_put_together_from_parts() {
    let mut out = Vec::new();
    begin(&mut out, Command::Message);
    header(&mut out, V1_2, "subscription", "a:b");
    header_number(&mut out, "zero", 0);
    header_number(&mut out, "ten", 10);
    header_number(&mut out, "most", u64::MAX);
    header_raw(&mut out, "message-id", b"7-1");
    finish(&mut out, b"body");
    let expected = "MESSAGE\nsubscription:a\\cb\nzero:0\nten:10\nmost:18446744073709551615\nmessage-id:7-1\n\nbody\0";
    assert_eq!(out, expected.as_bytes());
}

#[test]
fn versions_are_negotiated() {
    let check = |accept, expected| assert_eq!(negotiate(accept), expected, "{accept:?}");
    check(None, Some(V1_0));
    check(Some("1.0"), Some(V1_0));
    check(Some("1.0,1.1,1.2"), Some(V1_2));
    check(Some("1.2,1.0"), Some(V1_2));
    check(Some("1.1, 1.0"), Some(V1_1));
    check(Some("1.1,2.0"), Some(V1_1));
    check(Some("2.0"), None);
    check(Some(""), None);
    assert!(V1_0 < V1_1 && V1_1 < V1_2);
    for version in [V1_0, V1_1, V1_2] {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
}

#[test]
fn heart_beats_are_two_numbers() {
    let parsed: Result<HeartBeat, _> = "100,2000".parse();
    let expected = HeartBeat {
        can_send_every_ms: 100,
        wants_every_ms: 2000,
    };
    assert_eq!(parsed, Ok(expected));
    assert_eq!(expected.to_string(), "100,2000");
    assert_eq!("100, 2000".parse(), Ok(expected));
    for bad in [
        "",
        "1",
        "1,",
        ",1",
        "1,2,3",
        "-1,2",
        "+1,2",
        "a,b",
        "1,99999999999999999999999",
    ] {
        assert!(bad.parse::<HeartBeat>().is_err(), "{bad}");
    }
    let silent = HeartBeat::default();
    assert_eq!(expected.sends_every_ms(silent), None);
    assert_eq!(silent.sends_every_ms(expected), None);
    assert_eq!(expected.sends_every_ms(expected), Some(2000));
}
