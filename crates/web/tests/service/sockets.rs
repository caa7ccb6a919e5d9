//! Services over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use web::edge::{EdgeLimits, Refusal};
use web::{
    Body, Event, Events, Extension, Message, Path, Reply, Running, Service, Settings, Streaming,
    Upgrade,
};

use crate::rig::{Gate, PATIENCE, build, get, until};

/// Serves it on a port of its own.
async fn serve(running: &Running) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let running = running.clone();
    let serving = tokio::spawn(async move { running.serve(listener).await.unwrap() });
    (address, serving)
}

/// Sends these lines, with ends as HTTP has them.
async fn send(socket: &mut TcpStream, lines: &str) {
    let bytes = lines.replace('\n', "\r\n");
    socket.write_all(bytes.as_bytes()).await.unwrap();
}

/// Reads until the server closes.
async fn read_all(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut text)).await;
    read.expect("it is closed").unwrap();
    text
}

/// The whole answer to one request, after which the connection ends.
async fn once(address: SocketAddr, first_line: &str) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    send(
        &mut socket,
        &format!("{first_line}\nhost: x\nconnection: close\n\n"),
    )
    .await;
    read_all(&mut socket).await
}

/// Reads until the bytes end so.
async fn read_until(socket: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let reading = async {
        while !all.ends_with(end) {
            let byte = socket.read_u8().await.unwrap();
            all.push(byte);
        }
    };
    let read = tokio::time::timeout(PATIENCE, reading).await;
    assert!(read.is_ok(), "{}", String::from_utf8_lossy(&all));
    all
}

fn echo(upgrade: Upgrade) -> Reply {
    upgrade.run(async |mut socket| {
        while let Some(Ok(Message::Text(text))) = socket.recv().await {
            if socket.send(Message::Text(text)).await.is_err() {
                return;
            }
        }
    })
}

#[tokio::test]
async fn requests_and_web_sockets_until_the_end() {
    let running = build(Service::new().get("/", || "hello").get("/echo", echo));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (end, ended) = oneshot::channel::<()>();
    let serving = running.clone();
    let serving = tokio::spawn(async move {
        let ended = async {
            let _ = ended.await;
        };
        serving.serve_until(listener, ended).await
    });

    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let answer = read_until(&mut plain, b"hello").await;
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    drop(plain);

    let mut socket = TcpStream::connect(address).await.unwrap();
    let upgrade = b"GET /echo HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    socket.write_all(upgrade).await.unwrap();
    let answer = read_until(&mut socket, b"\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 101 "));
    socket.write_all(b"\x81\x82\0\0\0\0hi").await.unwrap();
    assert_eq!(read_until(&mut socket, b"hi").await, b"\x81\x02hi");
    drop(socket);

    end.send(()).unwrap();
    tokio::time::timeout(PATIENCE, serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_web_socket_has_to_be_asked_for() {
    let running = build(Service::new().get("/echo", echo));
    let answer = get(&running, "/echo").await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
}

#[tokio::test]
async fn the_limits_of_the_settings_hold() {
    let settings = Settings {
        edge: EdgeLimits {
            uri_bytes_max: 100,
            ..EdgeLimits::default()
        },
        ..Settings::default()
    };
    let running = build(Service::new().fallback(|| "hello").settings(settings));
    let (address, _serving) = serve(&running).await;
    let line = format!("GET /{} HTTP/1.1", "x".repeat(200));
    let answer = once(address, &line).await;
    assert!(answer.starts_with("HTTP/1.1 414 "), "{answer}");
    assert!(once(address, "GET / HTTP/1.1").await.ends_with("hello"));
    let numbers = running.edge();
    assert_eq!(numbers.len(), 1);
    assert_eq!(
        (numbers[0].requests, numbers[0].refused(Refusal::UriTooLong)),
        (1, 1)
    );
}

#[tokio::test]
async fn what_the_service_takes_gets_through() {
    let settings = Settings {
        body_bytes_max: 100,
        edge: EdgeLimits {
            body_bytes_max: 10,
            ..EdgeLimits::default()
        },
        ..Settings::default()
    };
    let length = |Body(bytes): Body| bytes.len().to_string();
    let running = build(Service::new().post("/", length).settings(settings));
    let (address, _serving) = serve(&running).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    let post = |bytes: usize| {
        let body = "x".repeat(bytes);
        format!("POST / HTTP/1.1\nhost: x\ncontent-length: {bytes}\n\n{body}")
    };
    send(&mut socket, &post(99)).await;
    assert!(
        read_until(&mut socket, b"\r\n\r\n99")
            .await
            .starts_with(b"HTTP/1.1 200 ")
    );
    send(&mut socket, &post(101)).await;
    let refused = read_all(&mut socket).await;
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
}

#[tokio::test]
async fn handlers_know_who_asks_and_answers_keep_their_order() {
    let who = |Extension(ConnectInfo(peer)): Extension<ConnectInfo<SocketAddr>>| peer.to_string();
    let gate = Gate::default();
    let held = gate.clone();
    let number = move |Path(n): Path<u32>| {
        if n == 0 {
            held.pass();
        }
        n.to_string()
    };
    let running = build(Service::new().get("/who", who).get("/n/{n}", number));
    let (address, _serving) = serve(&running).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    let me = socket.local_addr().unwrap().to_string();
    send(
        &mut socket,
        "GET /n/0 HTTP/1.1\nhost: x\n\nGET /n/1 HTTP/1.1\nhost: x\n\n",
    )
    .await;
    send(
        &mut socket,
        "GET /who HTTP/1.1\nhost: x\nconnection: close\n\n",
    )
    .await;
    until("the first is handled", || gate.came() == 1).await;
    gate.open();
    let answers = read_all(&mut socket).await;
    let bodies: Vec<&str> = answers.split("HTTP/1.1 200 OK").skip(1).collect();
    let bodies = bodies
        .iter()
        .map(|answer| answer.split_once("\r\n\r\n").unwrap().1);
    assert_eq!(bodies.collect::<Vec<_>>(), ["0", "1", me.as_str()]);
}

#[tokio::test]
async fn streams_go_on_while_they_are_read() {
    let (sender, events) = Events::channel(4);
    let slot = parking_lot::Mutex::new(Some(events));
    let listen = move || slot.lock().take();
    let stream = || {
        let (sender, streaming) = Streaming::channel(4);
        tokio::spawn(async move {
            for piece in ["one ", "two ", "three"] {
                sender.send_when_ready(piece).await.unwrap();
            }
        });
        streaming
    };
    let listen = move || listen().ok_or(axum::http::StatusCode::GONE);
    let running = build(Service::new().get("/events", listen).get("/stream", stream));
    let (address, serving) = serve(&running).await;
    let answer = once(address, "GET /stream HTTP/1.1").await;
    assert!(
        answer.contains("one ") && answer.contains("three"),
        "{answer}"
    );

    let mut socket = TcpStream::connect(address).await.unwrap();
    send(&mut socket, "GET /events HTTP/1.1\nhost: x\n\n").await;
    read_until(&mut socket, b"\r\n\r\n").await;
    for text in ["first", "second"] {
        sender.send(Event::default().data(text)).unwrap();
        read_until(&mut socket, format!("data: {text}\n\n\r\n").as_bytes()).await;
    }
    drop(socket);
    // Nobody listens any more: the sender hears of it when the connection is gone.
    until("the client is gone", || sender.is_closed()).await;
    drop(serving);
}

#[tokio::test]
async fn who_drops_the_serving_ends_it() {
    let running = build(Service::new().get("/", || "hello"));
    let (address, serving) = serve(&running).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    send(&mut socket, "GET / HTTP/1.1\nhost: x\n\n").await;
    read_until(&mut socket, b"hello").await;
    assert_eq!(running.edge()[0].connections, 1);
    serving.abort();
    assert_eq!(
        read_all(&mut socket).await,
        "",
        "what waits for nothing is closed"
    );
    assert!(serving.await.unwrap_err().is_cancelled());
    assert!(running.edge().is_empty());
    let refused = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await;
    assert!(refused.is_ok(), "nobody listens any more");
}
