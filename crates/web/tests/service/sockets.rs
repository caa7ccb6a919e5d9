//! Services over real sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use web::{Message, Reply, Service, Upgrade};

use crate::rig::{PATIENCE, build, get};

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
