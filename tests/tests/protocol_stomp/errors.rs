//! What comes back for each mistake.

use std::io::Write;

use hivewire_tests::hive::Hive;

use crate::wire::Wire;

/// What an unconnected client may do wrong, the short message and a word of the long one.
#[test]
fn errors_before_connected() {
    let hive = Hive::start().unwrap();
    for (sent, message, word) in [
        (
            "SEND\ndestination:/queue/a\n\nx\0",
            "not connected",
            "send CONNECT before SEND",
        ),
        (
            "SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0",
            "not connected",
            "SUBSCRIBE",
        ),
        ("DISCONNECT\n\n\0", "not connected", "DISCONNECT"),
        (
            "CONNECT\naccept-version:2.1\nhost:/\n\n\0",
            "no version in common",
            "you offer 2.1, and 1.0, 1.1 and 1.2",
        ),
        (
            "CONNECT\naccept-version:1.2\nheart-beat:fast\n\n\0",
            "heart-beat header is not two numbers of milliseconds; write it as `1000,1000`",
            "1000,1000",
        ),
        (
            "HELLO\n\n\0",
            "malformed frame",
            "`HELLO` is not a STOMP command",
        ),
        ("connect\n\n\0", "malformed frame", "upper case"),
        (
            "CONNECT\nhost\n\n\0",
            "malformed frame",
            "`host` has no colon",
        ),
    ] {
        let mut wire = Wire::open(&hive);
        wire.send(sent);
        let message = message.replace(':', "\\c");
        let body = wire.expect_error(&message);
        assert!(body.contains(word), "{sent:?}: {body}");
    }
}

/// What a connected client may do wrong, the short message and a word of the long one.
pub const MISTAKES: [(&str, &str, &str); 29] = [
    (
        "CONNECT\naccept-version:1.2\n\n\0",
        "connected already",
        "CONNECT comes once",
    ),
    (
        "STOMP\naccept-version:1.2\n\n\0",
        "connected already",
        "comes once",
    ),
    (
        "CONNECTED\n\n\0",
        "CONNECTED is not for clients",
        "only a server",
    ),
    (
        "MESSAGE\n\n\0",
        "MESSAGE is not for clients",
        "only a server",
    ),
    (
        "SEND\n\nx\0",
        "header missing",
        "SEND needs a header `destination`",
    ),
    (
        "SUBSCRIBE\nid:1\n\n\0",
        "header missing",
        "SUBSCRIBE needs a header `destination`",
    ),
    (
        "SUBSCRIBE\ndestination:/queue/a\n\n\0",
        "header missing",
        "SUBSCRIBE needs a header `id`",
    ),
    (
        "UNSUBSCRIBE\n\n\0",
        "header missing",
        "UNSUBSCRIBE needs a header `id`",
    ),
    ("ACK\n\n\0", "header missing", "ACK needs a header `id`"),
    (
        "NACK\nmessage-id:1-1\n\n\0",
        "header missing",
        "NACK needs a header `id`",
    ),
    (
        "BEGIN\n\n\0",
        "header missing",
        "BEGIN needs a header `transaction`",
    ),
    (
        "COMMIT\n\n\0",
        "header missing",
        "COMMIT needs a header `transaction`",
    ),
    (
        "ABORT\n\n\0",
        "header missing",
        "ABORT needs a header `transaction`",
    ),
    (
        "SEND\ndestination:orders\n\nx\0",
        "`orders` is no destination",
        "/queue/NAME",
    ),
    (
        "SEND\ndestination:/exchange/a\n\nx\0",
        "`/exchange/a` is no destination",
        "/topic/NAME",
    ),
    (
        "SUBSCRIBE\nid:1\ndestination:/queue/\n\n\0",
        "bad destination `/queue/`",
        "name",
    ),
    (
        "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:never\n\n\0",
        "bad ack mode",
        "`never` is none of auto",
    ),
    (
        "SUBSCRIBE\nid:1\ndestination:/queue/a\nprefetch-count:x\n\n\0",
        "bad prefetch-count",
        "`x`",
    ),
    (
        "SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0",
        "subscription id in use",
        "`1` is there already",
    ),
    ("UNSUBSCRIBE\nid:9\n\n\0", "no such subscription", "`9`"),
    (
        "ACK\nid:777777-1\n\n\0",
        "unknown message",
        "`777777-1` was not delivered",
    ),
    (
        "ACK\nid:nonsense\n\n\0",
        "unknown message",
        "`nonsense` was not delivered",
    ),
    (
        "SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0ACK\nid:777777-1\n\n\0",
        "unknown message",
        "answered already",
    ),
    (
        "SUBSCRIBE\nid:1\ndestination:/queue/temp.somebody.a\n\n\0",
        "access refused",
        "another connection",
    ),
    (
        "COMMIT\ntransaction:t\n\n\0",
        "there is no transaction `t`",
        "begin it first",
    ),
    (
        "ABORT\ntransaction:t\n\n\0",
        "there is no transaction `t`",
        "begin it first",
    ),
    (
        "SEND\ndestination:/queue/a\ntransaction:t\n\nx\0",
        "there is no transaction `t`",
        "begin it first",
    ),
    (
        "BEGIN\ntransaction:t\n\n\0BEGIN\ntransaction:t\n\n\0",
        "transaction `t` has begun already",
        "commit or abort",
    ),
    (
        "FROBNICATE\n\n\0",
        "malformed frame",
        "`FROBNICATE` is not a STOMP command",
    ),
];

#[test]
fn errors_when_connected() {
    let hive = Hive::start().unwrap();
    for (sent, message, word) in MISTAKES {
        let mut wire = Wire::connected(&hive);
        wire.send(sent);
        let body = wire.expect_error(message);
        assert!(body.contains(word), "{sent:?}: {body}");
    }
}

#[test]
fn an_error_names_the_receipt_of_its_frame() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SEND\nreceipt:my\\c1\n\nx\0");
    wire.expect_error_with("header missing", "receipt-id:my\\c1\n");
}

#[test]
fn errors_of_frames_that_cannot_be_read() {
    let hive = Hive::start().unwrap();
    let long_header = format!("SEND\ndestination:/queue/a\nx:{}\n\n\0", "y".repeat(40_000));
    let many_headers = format!("SEND\n{}\n\0", "x:y\n".repeat(101));
    for (sent, word) in [
        (long_header.as_bytes(), "32768 bytes"),
        (many_headers.as_bytes(), "more than 100 headers"),
        (
            b"SEND\ndestination:/queue/a\nx:\\t\n\n\0",
            "byte 28: undefined escape",
        ),
        (
            b"SEND\ndestination:/queue/a\nx:\\\n\n\0",
            "undefined escape",
        ),
        (
            b"SEND\ndestination:/queue/a\nx\n\n\0",
            "header line `x` has no colon",
        ),
        (b"SEND\ndestination:/queue/a\nx:\xff\n\n\0", "not UTF-8"),
        (
            b"SEND\ndestination:/queue/a\ncontent-length:1\n\nhi\0",
            "NUL expected",
        ),
        (
            b"SEND\ndestination:/queue/a\ncontent-length:ten\n\nhi\0",
            "`ten` is not a count",
        ),
        (
            b"SEND\ndestination:/queue/a\ncontent-length:-1\n\nhi\0",
            "`-1` is not a count",
        ),
        (
            b"SEND\ndestination:/queue/a\ncontent-length:\n\nhi\0",
            "not a count",
        ),
        (
            b"SEND\ndestination:/queue/a\ncontent-length:999999999999999999999999\n\n",
            "not a count",
        ),
        (
            b"SEND\ndestination:/queue/a\ncontent-length:99999999\n\n",
            "body is longer than",
        ),
    ] {
        let mut wire = Wire::connected(&hive);
        wire.send(sent);
        let body = wire.expect_error("malformed frame");
        assert!(body.contains(word), "{word}: {body}");
    }
}

/// The error has to arrive although the client goes on sending what nobody reads.
#[test]
fn a_client_that_goes_on_sending_still_reads_its_error() {
    let hive = Hive::start().unwrap();
    for _ in 0..5 {
        let mut wire = Wire::connected(&hive);
        let mut sender = wire.stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            let head = "SEND\ndestination:/queue/a\ncontent-length:40000000\n\n";
            // Whether all of it is taken is the broker's choice.
            let _ = sender.write_all(head.as_bytes());
            let _ = sender.write_all(&vec![b'x'; 40_000_000]);
        });
        let body = wire.expect_error("malformed frame");
        assert!(body.contains("body is longer than"), "{body}");
        sending.join().unwrap();
    }
}
