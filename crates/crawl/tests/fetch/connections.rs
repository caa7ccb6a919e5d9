//! Connections that are kept, closed, and limited in number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crawl::fetch::FetchErrorKind;

use crate::rig::{Answer, failure, fetcher, get, page, serve, target, until, with_length};

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = serve(|_, head| match target(head) {
        "/chunked" => Answer::Stay(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                .to_vec(),
        ),
        "/missing" => Answer::Stay(with_length("404 Not Found", "", "no")),
        _ => page("x".repeat(10_000)),
    })
    .await;
    let fetcher = fetcher(|_| {});
    for round in 0..10 {
        for path in ["/", "/chunked", "/missing"] {
            let fetched = get(&fetcher, server.url(path)).await.unwrap();
            let is_new = fetched.timings.connect.is_some();
            assert_eq!(is_new, (round, path) == (0, "/"));
        }
    }
    assert_eq!((server.accepted(), fetcher.connections_opened()), (1, 1));
}

#[tokio::test]
async fn a_server_that_wants_to_close_is_left_in_peace() {
    let server =
        serve(|_, _| Answer::Close(with_length("200 OK", "Connection: close\r\n", "bye"))).await;
    let fetcher = fetcher(|_| {});
    for _ in 0..3 {
        get(&fetcher, server.url("/")).await.unwrap();
        until("it is closed here, too", || fetcher.connections_open() == 0).await;
    }
    assert_eq!(server.accepted(), 3);
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_meanwhile_is_replaced() {
    // It says nothing about closing, but does so after each answer.
    let server = serve(|_, _| Answer::Close(with_length("200 OK", "", "one"))).await;
    let fetcher = fetcher(|_| {});
    for _ in 0..5 {
        assert_eq!(get(&fetcher, server.url("/")).await.unwrap().status, 200);
    }
    // It closes when the next request has come already.
    let server = serve(|number, _| match number {
        0 => page("first"),
        _ => Answer::Close(Vec::new()),
    })
    .await;
    for _ in 0..3 {
        assert_eq!(
            &get(&fetcher, server.url("/")).await.unwrap().body[..],
            b"first"
        );
    }
    assert_eq!((server.accepted(), server.request_count()), (3, 5));
}

#[tokio::test]
async fn a_request_is_repeated_only_if_the_connection_was_a_kept_one_and_nothing_came() {
    let server = serve(|_, _| Answer::Close(Vec::new())).await;
    let fetcher = fetcher(|_| {});
    let (kind, _) = failure(&fetcher, server.url("/")).await;
    assert_eq!((kind, server.request_count()), (FetchErrorKind::Closed, 1));
    let server = serve(|number, _| match number {
        0 => page("first"),
        _ => Answer::Close(b"HTTP/1.1 20".to_vec()),
    })
    .await;
    get(&fetcher, server.url("/")).await.unwrap();
    let (kind, error) = failure(&fetcher, server.url("/")).await;
    assert_eq!(
        (kind, server.request_count()),
        (FetchErrorKind::Closed, 2),
        "{error}"
    );
}

#[tokio::test]
async fn there_are_never_more_connections_to_a_host_than_allowed() {
    let server = serve(|_, _| page("x".repeat(50_000))).await;
    let limited = fetcher(|settings| settings.connections_per_host_max = 3);
    let fetches = (0..60).map(|_| {
        let (fetcher, url) = (limited.clone(), server.url("/"));
        tokio::spawn(async move { get(&fetcher, url).await.map(drop) })
    });
    for fetch in fetches.collect::<Vec<_>>() {
        fetch.await.unwrap().unwrap();
    }
    assert_eq!(limited.connections_opened(), 3);
    assert_eq!(server.open_most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn there_are_never_more_connections_in_all_than_allowed() {
    let most = Arc::new(AtomicUsize::new(0));
    let mut servers = Vec::new();
    for _ in 0..8 {
        servers.push(serve(|_, _| page("x")).await);
    }
    let limited = fetcher(|settings| settings.connections_max = 3);
    let fetches = (0..80).map(|number| {
        let (fetcher, url) = (limited.clone(), servers[number % 8].url("/"));
        let most = most.clone();
        tokio::spawn(async move {
            get(&fetcher, url).await.unwrap();
            most.fetch_max(fetcher.connections_open(), Ordering::SeqCst);
        })
    });
    for fetch in fetches.collect::<Vec<_>>() {
        fetch.await.unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= 3, "{most:?}");
    // The control: without the limit each server keeps its connection.
    let free = fetcher(|_| {});
    for server in &servers {
        get(&free, server.url("/")).await.unwrap();
    }
    assert_eq!(free.connections_open(), 8);
}

#[tokio::test]
async fn connections_that_nobody_uses_are_closed_after_a_while() {
    let server = serve(|_, _| page("x")).await;
    let fetcher = fetcher(|settings| settings.idle_timeout_ms = 50);
    get(&fetcher, server.url("/")).await.unwrap();
    until("it is closed", || {
        fetcher.connections_open() == 0 && server.open() == 0
    })
    .await;
    get(&fetcher, server.url("/")).await.unwrap();
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn idle_connections_are_limited() {
    let server = serve(|_, head| match target(head) {
        "/slow" => Answer::Drip(with_length("200 OK", "", "x"), Duration::from_millis(1)),
        _ => page("x"),
    })
    .await;
    let fetcher = fetcher(|settings| settings.idle_per_host_max = 2);
    let fetches = (0..8).map(|_| {
        let (fetcher, url) = (fetcher.clone(), server.url("/slow"));
        tokio::spawn(async move { get(&fetcher, url).await.map(drop) })
    });
    for fetch in fetches.collect::<Vec<_>>() {
        fetch.await.unwrap().unwrap();
    }
    assert_eq!(fetcher.connections_open(), 2);
}

#[tokio::test]
async fn a_fetch_that_is_given_up_leaves_nothing_behind() {
    let server = serve(|_, head| match target(head) {
        "/stall" => Answer::Stall(Vec::new()),
        _ => page("x"),
    })
    .await;
    let fetcher = fetcher(|settings| settings.connections_max = 1);
    let stalled = {
        let (fetcher, url) = (fetcher.clone(), server.url("/stall"));
        tokio::spawn(async move { get(&fetcher, url).await.map(drop) })
    };
    until("it is under way", || server.request_count() == 1).await;
    stalled.abort();
    assert!(stalled.await.unwrap_err().is_cancelled());
    assert_eq!(get(&fetcher, server.url("/")).await.unwrap().status, 200);
    assert_eq!(fetcher.connections_open(), 1);
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_said_to_be_closed() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let (kind, error) = failure(&fetcher(|_| {}), url.parse().unwrap()).await;
    assert_eq!(kind, FetchErrorKind::Connect, "{error}");
    assert!(error.is_worth_retrying());
}
