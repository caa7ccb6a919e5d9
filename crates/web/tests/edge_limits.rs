//! Each limit of the edge over real sockets, and beside it the same with the limit out of reach.

mod edge_support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use edge_support::{Client, HOUR_MS, LARGE_BYTES, PATIENCE, Server, until, wide};
use web::edge::{EdgeLimits, Refusal};

#[test]
fn connections_are_limited() {
    let server = Server::start(EdgeLimits {
        connections_max: 2,
        ..wide()
    });
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.get("/").status, 200);
    assert_eq!(second.get("/").status, 200);
    let mut third = server.connect();
    let answer = third.answer();
    answer.is_problem(503);
    assert!(answer.has("retry-after: 1\r\n"), "{answer:?}");
    third.is_closed();
    assert_eq!(server.refused(Refusal::ConnectionsFull), 1);
    // The control: with room again, the next one is let in.
    first.close();
    server.until("there is room", |numbers| numbers.connections == 1);
    assert_eq!(server.connect().get("/").status, 200);
}

#[test]
fn connections_of_one_address_are_limited() {
    let server = Server::start(EdgeLimits {
        connections_per_address_max: 1,
        ..wide()
    });
    let mut first = server.connect();
    assert_eq!(first.get("/").status, 200);
    server.connect().answer().is_problem(503);
    assert_eq!(server.refused(Refusal::AddressFull), 1);
    let control = Server::start(wide());
    let mut clients = [control.connect(), control.connect()];
    assert!(
        clients
            .iter_mut()
            .all(|client| client.get("/").status == 200)
    );
}

#[test]
fn headers_are_limited_in_bytes() {
    let lines = format!("GET / HTTP/1.1\nHost: a\nX: {}\n\n", "x".repeat(2_000));
    let server = Server::start(EdgeLimits {
        header_bytes_max: 1_000,
        ..wide()
    });
    let mut client = server.connect();
    client.send(&lines);
    client.answer().is_problem(431);
    client.is_closed();
    assert_eq!(server.refused(Refusal::HeadersTooLarge), 1);
    let mut control = Server::start(wide()).connect_and_keep();
    control.0.send(&lines);
    assert_eq!(control.0.answer().status, 200);
}

#[test]
fn headers_are_limited_in_number() {
    let lines = format!("GET / HTTP/1.1\nHost: a\n{}\n", "X: x\n".repeat(20));
    let server = Server::start(EdgeLimits {
        headers_max: 20,
        ..wide()
    });
    let mut client = server.connect();
    client.send(&lines);
    client.answer().is_problem(431);
    client.is_closed();
    let mut control = Server::start(wide()).connect_and_keep();
    control.0.send(&lines);
    assert_eq!(control.0.answer().status, 200);
}

#[test]
fn a_uri_is_limited() {
    let lines = format!("GET /?{} HTTP/1.1\nHost: a\n\n", "x".repeat(300));
    let server = Server::start(EdgeLimits {
        uri_bytes_max: 200,
        ..wide()
    });
    let mut client = server.connect();
    client.send(&lines);
    client.answer().is_problem(414);
    client.is_closed();
    assert_eq!(server.refused(Refusal::UriTooLong), 1);
    let mut control = Server::start(wide()).connect_and_keep();
    control.0.send(&lines);
    assert_eq!(control.0.answer().status, 200);
}

/// Sends a byte to each every few milliseconds, until the server is done with all of them. Says how
/// long that took.
fn dribble(clients: &mut [Client], server: &Server) -> Duration {
    let since = Instant::now();
    for byte in b"GET / HTTP/1.1\r\nHost: a\r\nX: "
        .iter()
        .chain(std::iter::repeat(&b'x'))
    {
        for client in &mut *clients {
            client.try_send(&[*byte]);
        }
        if server.numbers().connections == 0 {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "some are still open");
        sleep(Duration::from_millis(10));
    }
    since.elapsed()
}

#[test]
fn clients_that_send_their_headers_byte_by_byte_are_cut_off() {
    const CLIENTS: usize = 200;
    let limit_ms = 1_000;
    let server = Server::start(EdgeLimits {
        header_timeout_ms: limit_ms,
        ..wide()
    });
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    server.until("all are let in", |numbers| {
        numbers.connections_accepted == CLIENTS as u64
    });
    let lasted = dribble(&mut clients, &server);
    // On a busy machine the time of some is over before their first byte.
    let (slow, idle) = (Refusal::HeadersTooSlow, Refusal::Idle);
    assert!(server.refused(slow) > 0);
    assert_eq!(server.refused(slow) + server.refused(idle), CLIENTS as u64);
    let answers = clients.iter_mut().map(Client::rest);
    let told = answers.filter(|answer| answer.starts_with(b"HTTP/1.1 408 "));
    // Bytes that cross the end on their way may take the answer with them.
    assert!(told.count() > 0);

    // The control: without a limit, whoever is as slow is answered in the end.
    let server = Server::start(wide());
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\nHost: a\nX: ");
    let since = Instant::now();
    while since.elapsed() < 2 * lasted {
        client.send("x");
        sleep(Duration::from_millis(10));
    }
    assert!(client.is_open());
    client.send("\n\n");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let server = Server::start(EdgeLimits {
        header_timeout_ms: 200,
        ..wide()
    });
    server.connect().is_closed();
    assert_eq!(server.refused(Refusal::Idle), 1);
    let mut control = Server::start(wide()).connect_and_keep();
    sleep(Duration::from_millis(400));
    assert_eq!(control.0.get("/").status, 200);
}

#[test]
fn a_connection_without_a_next_request_is_closed() {
    let server = Server::start(EdgeLimits {
        keep_alive_timeout_ms: 200,
        ..wide()
    });
    let mut client = server.connect();
    let since = Instant::now();
    assert_eq!(client.get("/").body, "hello");
    client.is_closed();
    let lasted = since.elapsed();
    assert_eq!(server.refused(Refusal::Idle), 1);
    let mut control = Server::start(wide()).connect_and_keep();
    assert_eq!(control.0.get("/").body, "hello");
    sleep(2 * lasted);
    assert_eq!(control.0.get("/").body, "hello");
}

#[test]
fn a_handler_that_takes_long_is_not_an_idle_connection() {
    let server = Server::start(EdgeLimits {
        keep_alive_timeout_ms: 100,
        ..wide()
    });
    let mut client = server.connect();
    client.send("GET /held HTTP/1.1\nHost: a\n\n");
    let mut idle = server.connect();
    assert_eq!(idle.get("/").status, 200);
    idle.is_closed();
    sleep(Duration::from_millis(400));
    server.held.add_permits(1);
    assert_eq!(client.answer().body, "held");
    client.is_closed();
}

#[test]
fn requests_of_one_connection_are_limited() {
    let server = Server::start(EdgeLimits {
        requests_per_connection_max: 2,
        ..wide()
    });
    let mut client = server.connect();
    let first = client.get("/");
    assert!(!first.has("connection: close\r\n"), "{first:?}");
    client.send(&"GET / HTTP/1.1\nHost: a\n\n".repeat(3));
    let second = client.answer();
    assert!(second.has("connection: close\r\n"), "{second:?}");
    client.is_closed();
    assert_eq!(server.numbers().requests, 2);
    let mut control = Server::start(wide()).connect_and_keep();
    control.0.send(&"GET / HTTP/1.1\nHost: a\n\n".repeat(4));
    assert!((0..4).all(|_| control.0.answer().status == 200));
}

const CHUNKED: &str = "POST /length HTTP/1.1\nHost: a\nTransfer-Encoding: chunked\n\n";

#[test]
fn a_body_is_limited_also_if_it_does_not_say_how_long_it_is() {
    let server = Server::start(EdgeLimits {
        body_bytes_max: 10,
        ..wide()
    });
    let mut client = server.connect();
    client.send("POST /length HTTP/1.1\nHost: a\nContent-Length: 11\n\n");
    client.answer().is_problem(413);
    client.is_closed();
    let mut client = server.connect();
    client.send(CHUNKED);
    client.send("5\nhello\n");
    client.send("6\nhello!\n0\n\n");
    client.answer().is_problem(413);
    client.is_closed();
    assert_eq!(server.refused(Refusal::BodyTooLarge), 2);
    let mut client = server.connect();
    client.send("POST /length HTTP/1.1\nHost: a\nContent-Length: 10\n\n0123456789");
    assert_eq!(client.answer().body, "10");
    client.send(CHUNKED);
    client.send("5\nhello\n5\nhello\n0\n\n");
    assert_eq!(client.answer().body, "10");
    let mut control = Server::start(wide()).connect_and_keep();
    control.0.send(CHUNKED);
    control.0.send("5\nhello\n6\nhello!\n0\n\n");
    assert_eq!(control.0.answer().body, "11");
}

/// The answer is not lost because the client still sends when it is refused. The server listens for a second; a machine that stands
/// still for longer may lose it, and then it is tried again.
#[test]
fn who_sends_a_large_body_hears_why_it_is_refused() {
    let server = Server::start(wide());
    until("the answer comes", || {
        let mut client = server.connect();
        client.send("POST /length HTTP/1.1\nHost: a\nContent-Length: 100000000\n\n");
        let all_sent = (0..50).all(|_| client.try_send(&[b'x'; 10_000]));
        if !all_sent {
            return false;
        }
        let answer = client.rest();
        answer.starts_with(b"HTTP/1.1 413 ")
    });
}

#[test]
fn a_body_must_go_on() {
    let server = Server::start(EdgeLimits {
        body_gap_timeout_ms: 200,
        ..wide()
    });
    let part = "POST /length HTTP/1.1\nHost: a\nContent-Length: 10\n\nhello";
    let mut client = server.connect();
    let since = Instant::now();
    client.send(part);
    client.answer().is_problem(408);
    let lasted = since.elapsed();
    client.is_closed();
    assert_eq!(server.refused(Refusal::BodyTooSlow), 1);
    let mut control = Server::start(wide()).connect_and_keep();
    control.0.send(part);
    sleep(2 * lasted);
    control.0.send("hello");
    assert_eq!(control.0.answer().body, "10");
}

#[test]
fn a_body_must_come_to_an_end() {
    let server = Server::start(EdgeLimits {
        body_timeout_ms: 300,
        ..wide()
    });
    let head = "POST /length HTTP/1.1\nHost: a\nContent-Length: 1000000\n\n";
    let mut client = server.connect();
    client.send(head);
    let since = Instant::now();
    while client.is_open() {
        assert!(since.elapsed() < PATIENCE);
        client.try_send(b"x");
        sleep(Duration::from_millis(5));
    }
    let lasted = since.elapsed();
    client.answer().is_problem(408);
    assert_eq!(server.refused(Refusal::BodyTooSlow), 1);
    let control = Server::start(wide());
    let mut client = control.connect();
    client.send(head);
    let since = Instant::now();
    while since.elapsed() < 2 * lasted {
        client.send("x");
        sleep(Duration::from_millis(5));
    }
    assert!(client.is_open());
}

#[test]
fn who_does_not_take_his_answer_is_cut_off() {
    let server = Server::start(EdgeLimits {
        write_timeout_ms: 300,
        ..wide()
    });
    let mut client = server.connect();
    let since = Instant::now();
    client.send("GET /large HTTP/1.1\nHost: a\n\n");
    server.until("it is cut off", |numbers| {
        numbers.refused(Refusal::ReaderTooSlow) == 1
    });
    server.until("it is gone", |numbers| numbers.connections == 0);
    assert_eq!(server.numbers().requests_under_way, 0);
    let lasted = since.elapsed();
    assert!(client.rest().len() < LARGE_BYTES);
    let control = Server::start(wide());
    let mut client = control.connect();
    client.send("GET /large HTTP/1.1\nHost: a\nConnection: close\n\n");
    sleep(2 * lasted);
    assert!(client.rest().len() > LARGE_BYTES);
}

/// Requests sent in one go, whose answers nobody takes, do not fill the memory either.
#[test]
fn who_asks_on_and_on_and_takes_nothing_is_cut_off() {
    let server = Server::start(EdgeLimits {
        write_timeout_ms: 300,
        ..wide()
    });
    let mut client = server.connect();
    let requests = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1_000);
    client
        .0
        .set_write_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    until("it is cut off", || {
        client.try_send(&requests);
        server.refused(Refusal::ReaderTooSlow) == 1
    });
    server.until("it is gone", |numbers| numbers.connections == 0);
}

#[test]
fn requests_under_way_are_limited() {
    let server = Server::start(EdgeLimits {
        requests_under_way_max: 1,
        ..wide()
    });
    let mut busy = server.connect();
    busy.send("GET /held HTTP/1.1\nHost: a\n\n");
    server.until("it is under way", |numbers| numbers.requests_under_way == 1);
    let mut client = server.connect();
    let answer = client.get("/");
    answer.is_problem(503);
    assert!(answer.has("retry-after: 1\r\n"), "{answer:?}");
    assert_eq!(server.refused(Refusal::RequestsFull), 1);
    // The control: once there is room, the same connection is served.
    server.held.add_permits(1);
    assert_eq!(busy.answer().body, "held");
    server.until("it is done", |numbers| numbers.requests_under_way == 0);
    assert_eq!(client.get("/").status, 200);
}

/// A client that goes away leaves nothing behind.
#[test]
fn a_client_that_goes_away_frees_its_place() {
    let server = Server::start(EdgeLimits {
        requests_under_way_max: 1,
        ..wide()
    });
    let mut client = server.connect();
    client.send("GET /held HTTP/1.1\nHost: a\n\n");
    server.until("it is under way", |numbers| numbers.requests_under_way == 1);
    client.close();
    server.until("it is forgotten", |numbers| {
        numbers.requests_under_way == 0 && numbers.connections == 0
    });
    assert_eq!(server.connect().get("/").status, 200);
}

#[test]
fn limits_are_configured_by_name_and_nothing_else() {
    let limits: EdgeLimits = serde_json::from_str(r#"{"body_bytes_max": 5}"#).unwrap();
    assert_eq!(limits.body_bytes_max, 5);
    assert_eq!(
        limits.header_timeout_ms,
        EdgeLimits::default().header_timeout_ms
    );
    assert!(serde_json::from_str::<EdgeLimits>(r#"{"body_bytes": 5}"#).is_err());
    assert!(HOUR_MS > limits.keep_alive_timeout_ms);
}

/// A client with the server it belongs to.
struct Kept(Client, #[allow(dead_code)] Server);

impl Server {
    fn connect_and_keep(self) -> Kept {
        Kept(self.connect(), self)
    }
}
