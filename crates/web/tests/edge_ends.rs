//! How servers and connections end, and what becomes of those that switch to another protocol.

mod edge_support;

use std::net::TcpStream;

use edge_support::{Client, Server, wide};
use web::edge::{EdgeLimits, Refusal};

#[test]
fn what_is_under_way_is_answered_when_the_server_ends() {
    let server = Server::start(wide());
    let mut idle = server.connect();
    assert_eq!(idle.get("/").status, 200);
    let mut busy = server.connect();
    busy.send("GET /held HTTP/1.1\nHost: a\n\n");
    server.until("it is under way", |numbers| numbers.requests_under_way == 1);
    let mut beginning = server.connect();
    beginning.send("GET / HT");
    server.until("all are there", |numbers| numbers.connections == 3);
    server.handle.stop();
    idle.is_closed();
    beginning.is_closed();
    edge_support::until("nobody listens", || {
        TcpStream::connect(server.address).is_err()
    });
    assert!(busy.is_open());
    server.held.add_permits(1);
    let answer = busy.answer();
    assert_eq!(answer.body, "held");
    assert!(answer.has("connection: close\r\n"), "{answer:?}");
    busy.is_closed();
    assert_eq!(server.ended(), 0);
}

#[test]
fn what_takes_too_long_is_cut_off_when_the_server_ends() {
    let server = Server::start(EdgeLimits {
        ending_timeout_ms: 200,
        ..wide()
    });
    let mut busy = server.connect();
    busy.send("GET /held HTTP/1.1\nHost: a\n\n");
    let mut switched = switch(&server);
    server.until("both are there", |numbers| numbers.requests == 2);
    let handle = server.handle.clone();
    assert_eq!(server.end(), 2);
    busy.is_closed();
    switched.is_closed();
    edge_support::until("they are gone", || {
        let numbers = handle.numbers();
        numbers.connections == 0 && numbers.requests_under_way == 0
    });
}

#[test]
fn a_server_ends_when_its_signal_comes() {
    let server = Server::start(wide());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let (serving, address) = server.runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = async { stopped.await.unwrap_or_default() };
        let router = axum::Router::new();
        (
            web::edge::serve(listener, router, wide(), shutdown),
            address,
        )
    });
    let mut client = Client(TcpStream::connect(address).unwrap());
    assert_eq!(client.get("/").status, 404);
    stop.send(()).unwrap();
    client.is_closed();
    assert_eq!(server.runtime.block_on(serving.ended()), 0);
}

fn switch(server: &Server) -> Client {
    let mut client = server.connect();
    client.send("GET /echo HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: capitals\n\n");
    assert_eq!(client.answer().status, 101);
    client
}

fn echo(client: &mut Client, text: &str) {
    use std::io::Read;
    client.send_bytes(text.as_bytes());
    let mut bytes = vec![0; text.len()];
    client.0.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), text.to_ascii_uppercase());
}

#[test]
fn a_connection_that_has_switched_is_not_read_as_http() {
    let server = Server::start(EdgeLimits {
        keep_alive_timeout_ms: 100,
        ..wide()
    });
    let mut client = switch(&server);
    echo(&mut client, "not http at all\n\n");
    // Others show that the time is over.
    let mut idle = server.connect();
    assert_eq!(idle.get("/").status, 200);
    idle.is_closed();
    std::thread::sleep(std::time::Duration::from_millis(300));
    echo(&mut client, "still there");
    assert_eq!(server.refused(Refusal::Malformed), 0);
    client.close();
    server.until("it is gone", |numbers| numbers.connections == 0);
}

/// Clients may send the first words of the new protocol along.
#[test]
fn what_comes_behind_a_switch_belongs_to_the_new_protocol() {
    let server = Server::start(wide());
    let mut client = server.connect();
    client.send("GET /echo HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: capitals\n\nearly");
    assert_eq!(client.answer().status, 101);
    let mut bytes = [0; 5];
    std::io::Read::read_exact(&mut client.0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"EARLY");
    echo(&mut client, "late");
}

#[test]
fn a_connection_that_may_switch_and_does_not_goes_on() {
    let server = Server::start(wide());
    let mut client = server.connect();
    let request =
        "GET /echo HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: capitals\nNo: thanks\n\n";
    client.send(&request.repeat(3));
    client.send("GET /n/4 HTTP/1.1\nHost: a\n\n");
    for _ in 0..3 {
        assert_eq!(client.answer().body, "stayed");
    }
    assert_eq!(client.answer().body, "4");
    client.send("BAD\n\n");
    client.answer().is_problem(400);
}

/// A handler that never ends is not one for which the server waits for ever.
#[test]
fn who_reads_nothing_from_a_switched_connection_is_cut_off() {
    let server = Server::start(EdgeLimits {
        write_timeout_ms: 200,
        ..wide()
    });
    let mut client = switch(&server);
    client
        .0
        .set_write_timeout(Some(std::time::Duration::from_millis(100)))
        .unwrap();
    let text = [b'x'; 100_000];
    edge_support::until("it is cut off", || {
        client.try_send(&text);
        server.numbers().connections == 0
    });
}
