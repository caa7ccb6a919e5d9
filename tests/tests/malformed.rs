//! Malformed input gets the protocol's own error, what looks like HTTP is hung up on at once,
//! and nobody else notices.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hivewire_tests::gamq_client::Gamq;
use hivewire_tests::hive::Hive;
use hivewire_tests::stomp_client::{AckMode, Frame, Stomp, StompError, TIMEOUT};

/// "At once", with room for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(1);
const UNRECOGNISED: &[u8] = b"Unrecognised command\n";

const HTTP_LINES: [&[u8]; 5] = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /queue HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\nPUB stolen\r\nbody\r\n.\r\n",
    b"OPTIONS * HTTP/1.0\r\n\r\n",
    b"PUT /x HTTP/1.1\r\n\r\n",
    b"HEAD /x HTTP/1.1\n\n",
];

/// Frames that a client might send before CONNECTED, each with what is wrong with it.
const BEFORE_CONNECTED: [(&str, &[u8]); 7] = [
    ("a command that does not exist", b"FROBNICATE\nx:y\n\n\0"),
    (
        "sending without connecting",
        b"SEND\ndestination:/queue/a\n\nhi\0",
    ),
    ("a header without a colon", b"CONNECT\naccept-version\n\n\0"),
    ("bytes that are no text", b"\xff\xfe\xfd\n\n\0"),
    (
        "a version we do not speak",
        b"CONNECT\naccept-version:9.9\nhost:/\n\n\0",
    ),
    (
        "a command in lower case",
        b"connect\naccept-version:1.2\nhost:/\n\n\0",
    ),
    ("a line without end", &[b'A'; 70_000]),
];

/// The same for clients that are connected.
const AFTER_CONNECTED: [(&str, &[u8]); 9] = [
    ("a command that does not exist", b"FROBNICATE\n\n\0"),
    ("a message without destination", b"SEND\n\nhi\0"),
    (
        "a length that is no number",
        b"SEND\ndestination:/queue/a\ncontent-length:ten\n\nhi\0",
    ),
    (
        "a negative length",
        b"SEND\ndestination:/queue/a\ncontent-length:-1\n\nhi\0",
    ),
    (
        "a length beyond all limits",
        b"SEND\ndestination:/queue/a\ncontent-length:99999999999\n\n",
    ),
    (
        "a body longer than its length",
        b"SEND\ndestination:/queue/a\ncontent-length:1\n\nhi\0",
    ),
    (
        "an escape that does not exist",
        b"SEND\ndestination:/queue/a\nx:\\t\n\nhi\0",
    ),
    (
        "a subscription without id",
        b"SUBSCRIBE\ndestination:/queue/a\n\n\0",
    ),
    (
        "an acknowledgement of nothing",
        b"ACK\nid:no-such-message\n\n\0",
    ),
];

/// A client that does everything right, all the time.
struct Bystander {
    client: Stomp,
}

impl Bystander {
    fn new(address: SocketAddr) -> Self {
        let mut client = Stomp::connect(address).unwrap();
        let destination = "/queue/bystander";
        client
            .subscribe("b", destination, AckMode::Auto, &[])
            .unwrap();
        Self { client }
    }

    fn goes_on(&mut self, after: &str) {
        let sent = self.client.send("/queue/bystander", &[], after.as_bytes());
        sent.unwrap_or_else(|error| panic!("the bystander suffered from {after}: {error}"));
        let message = self.client.next_message(TIMEOUT);
        let message = message.unwrap_or_else(|error| panic!("after {after}: {error}"));
        assert_eq!(message.body, after.as_bytes());
    }
}

fn expect_error_frame(client: &mut Stomp, what: &str) {
    let answer = client.receive_frame(TIMEOUT);
    let answer = answer.unwrap_or_else(|error| panic!("{what}: no ERROR but: {error}"));
    assert_eq!(answer.command, "ERROR", "{what}");
    let message = answer.header("message").unwrap_or_default();
    assert!(!message.is_empty(), "{what}: the ERROR says nothing");
    let closed = client.wait_closed(TIMEOUT);
    closed.unwrap_or_else(|error| panic!("{what}: not closed after ERROR: {error}"));
}

#[test]
fn malformed_stomp_gets_an_error_frame_and_harms_nobody_else() {
    let hive = Hive::start().unwrap();
    let mut bystander = Bystander::new(hive.stomp_address());
    for (what, bytes) in BEFORE_CONNECTED {
        let mut client = Stomp::open(hive.stomp_address()).unwrap();
        // The broker may hang up before it has read all of it.
        let _ = client.send_raw(bytes);
        expect_error_frame(&mut client, what);
        bystander.goes_on(what);
    }
    for (what, bytes) in AFTER_CONNECTED {
        let mut client = Stomp::connect(hive.stomp_address()).unwrap();
        let _ = client.send_raw(bytes);
        expect_error_frame(&mut client, what);
        bystander.goes_on(what);
    }
}

#[test]
fn an_error_names_the_receipt_of_the_frame_that_caused_it() {
    let hive = Hive::start().unwrap();
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    client
        .send_frame(&Frame::new("SEND", &[("receipt", "mine")]))
        .unwrap();
    let answer = client.receive_frame(TIMEOUT).unwrap();
    let told = (answer.command.as_str(), answer.header("receipt-id"));
    assert_eq!(told, ("ERROR", Some("mine")));
}

#[test]
fn any_cutting_of_a_frame_into_pieces_gives_the_same_message() {
    let hive = Hive::start().unwrap();
    let mut consumer = Bystander::new(hive.stomp_address()).client;
    let frame = Frame::new("SEND", &[("destination", "/queue/bystander")]).with_body(b"in\0pieces");
    let bytes = frame.encode();
    let mut producer = Stomp::connect(hive.stomp_address()).unwrap();
    for cut in 1..bytes.len() {
        producer.send_raw(&bytes[..cut]).unwrap();
        producer.send_raw(&bytes[cut..]).unwrap();
        assert_eq!(consumer.next_message(TIMEOUT).unwrap().body, b"in\0pieces");
    }
}

#[test]
fn malformed_gamq_gets_its_own_error_and_the_connection_goes_on() {
    let hive = Hive::start().unwrap();
    let mut bystander = Bystander::new(hive.stomp_address());
    for line in [&b"FROBNICATE\r\n"[..], b"\xff\xfe\r\n", b"X Y Z\n"] {
        let mut client = Gamq::connect(hive.gamq_address()).unwrap();
        client.send_raw(line).unwrap();
        client.expect(UNRECOGNISED, TIMEOUT).unwrap();
        client.ping().unwrap();
        bystander.goes_on("a gamq command that does not exist");
    }
    // A missing argument and blank lines stopped the original; here the client is served on.
    for line in [
        &b"SUB\r\n"[..],
        b"SETACK\r\n",
        b"CLOSE\r\n",
        b"PUB\r\n.\r\n",
        b"\r\n\r\n",
    ] {
        let mut client = Gamq::connect(hive.gamq_address()).unwrap();
        client.send_raw(line).unwrap();
        client.send_raw(b"PINGREQ\r\n").unwrap();
        let answer = client.read_until(b"PINGRESP\n", TIMEOUT);
        let text = String::from_utf8_lossy(line);
        answer.unwrap_or_else(|error| panic!("{text:?}: no longer served: {error}"));
    }
}

#[test]
fn an_endless_gamq_line_ends_the_connection_instead_of_filling_memory() {
    let hive = Hive::start().unwrap();
    let mut client = Gamq::connect(hive.gamq_address()).unwrap();
    let line = vec![b'A'; 1 << 20];
    // Writing fails once the broker has hung up, which is what should happen.
    while client.send_raw(&line).is_ok() {
        let memory = hive.memory_bytes().unwrap();
        assert!(
            memory < 128 << 20,
            "the broker holds {memory} bytes of one line"
        );
    }
}

#[test]
fn what_looks_like_http_is_hung_up_on_at_once() {
    let hive = Hive::start().unwrap();
    let mut bystander = Bystander::new(hive.stomp_address());
    for line in HTTP_LINES {
        let text = String::from_utf8_lossy(line).into_owned();
        let start = Instant::now();
        let mut stomp = Stomp::open(hive.stomp_address()).unwrap();
        let _ = stomp.send_raw(line);
        stomp
            .wait_closed(AT_ONCE)
            .unwrap_or_else(|error| panic!("STOMP did not hang up on {text:?}: {error}"));
        let mut gamq = Gamq::connect(hive.gamq_address()).unwrap();
        let _ = gamq.send_raw(line);
        gamq.wait_closed(AT_ONCE)
            .unwrap_or_else(|error| panic!("gamq did not hang up on {text:?}: {error}"));
        assert!(start.elapsed() < 2 * AT_ONCE);
        bystander.goes_on(&text);
    }
    // The commands in the body of the POST must not have been run.
    let mut client = Gamq::connect(hive.gamq_address()).unwrap();
    client.subscribe("stolen").unwrap();
    client.ping().unwrap();
}

#[test]
fn control_well_formed_input_gets_no_error_and_is_not_hung_up_on() {
    let hive = Hive::start().unwrap();
    let mut client = Stomp::connect(hive.stomp_address()).unwrap();
    client.send_durable("/queue/control", b"fine").unwrap();
    let nothing = client.wait_closed(AT_ONCE).unwrap_err();
    assert!(matches!(nothing, StompError::Timeout(_)));
    let mut gamq = Gamq::connect(hive.gamq_address()).unwrap();
    gamq.ping().unwrap();
    assert!(gamq.wait_closed(AT_ONCE).is_err());
}
