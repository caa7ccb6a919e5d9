//! The examples do what they say.

#![allow(dead_code, elided_lifetimes_in_paths)]

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use tower::ServiceExt;
use web::Running;

#[path = "../examples/chat.rs"]
mod chat;
#[path = "../examples/fibonacci.rs"]
mod fibonacci;
#[path = "../examples/rest.rs"]
mod rest;

async fn ask(running: &Running, method: &str, path: &str, json: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path);
    let request = request
        .header("content-type", "application/json")
        .body(Body::from(json.to_owned()));
    let answer = running.router().oneshot(request.unwrap()).await.unwrap();
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn fibonacci_computes_and_remembers() {
    let running = fibonacci::service().build().unwrap();
    assert_eq!(
        ask(&running, "GET", "/fib/20", "").await,
        (200, "6765".to_owned())
    );
    assert_eq!(
        ask(&running, "GET", "/plain/10", "").await,
        (200, "55".to_owned())
    );
    assert_eq!(
        ask(&running, "GET", "/cache", "").await,
        (200, "[[20,6765]]".to_owned())
    );
    assert_eq!(ask(&running, "GET", "/fib/51", "").await.0, 400);
    assert_eq!(ask(&running, "DELETE", "/cache", "").await.0, 200);
    assert_eq!(ask(&running, "GET", "/cache", "").await.1, "[]");
}

#[tokio::test]
async fn books_are_lent_as_long_as_there_are_copies() {
    let running = rest::service().build().unwrap();
    let book = r#"{"title": "Middlemarch", "copies": 1}"#;
    assert_eq!(
        ask(&running, "POST", "/books", book).await,
        (201, "1".to_owned())
    );
    assert_eq!(
        ask(&running, "POST", "/books/1/loan", "").await,
        (200, "1".to_owned())
    );
    assert_eq!(ask(&running, "POST", "/books/1/loan", "").await.0, 409);
    assert_eq!(
        ask(&running, "GET", "/loans", "").await.1,
        r#"["Middlemarch"]"#
    );
    assert_eq!(ask(&running, "GET", "/books?title=x", "").await.1, "{}");
    assert_eq!(ask(&running, "DELETE", "/books/1", "").await.0, 204);
    assert_eq!(ask(&running, "GET", "/books/1", "").await.0, 404);
}

#[tokio::test]
async fn who_listens_hears_what_is_said() {
    let running = chat::service().build().unwrap();
    let said = r#"{"name": "Ann", "text": "hello"}"#;
    assert_eq!(ask(&running, "POST", "/say", said).await.0, 200);
    let request = Request::builder()
        .uri("/events")
        .body(Body::empty())
        .unwrap();
    let mut heard = running.router().oneshot(request).await.unwrap().into_body();
    ask(&running, "POST", "/say", r#"{"name": "Bob", "text": "hi"}"#).await;
    for expected in ["data: Ann: hello\n\n", "data: Bob: hi\n\n"] {
        let frame = heard.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), expected);
    }
    assert_eq!(ask(&running, "GET", "/who", "").await.1, "1 listen");
}
