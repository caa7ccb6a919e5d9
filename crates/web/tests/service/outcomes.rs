//! What handlers can give back, and how services fit into axum.

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing;
use tower::ServiceExt;
use web::{Events, Files, Json, Service, Streaming};

use crate::rig::{ask, build, get, post, request};

#[tokio::test]
async fn whatever_axum_answers_with() {
    fn pair() -> (StatusCode, Json<u32>) {
        (StatusCode::CREATED, Json(7))
    }
    fn fails() -> Result<&'static str, StatusCode> {
        Err(StatusCode::IM_A_TEAPOT)
    }
    let running = build(Service::new().get("/pair", pair).get("/fails", fails));
    let answer = get(&running, "/pair").await;
    assert_eq!((answer.status, answer.text.as_str()), (201, "7"));
    assert_eq!(get(&running, "/fails").await.status, 418);
}

#[tokio::test]
async fn streams_and_events() {
    fn stream() -> Streaming {
        let (sender, streaming) = Streaming::channel(2);
        sender.send("one ").unwrap();
        sender.send("two").unwrap();
        assert_eq!(sender.send("three"), Err(web::Gone::Full));
        streaming
    }
    fn events() -> Events {
        let (sender, events) = Events::channel(2);
        sender.send_text("one").unwrap();
        sender.send_text("two\r\nlines").unwrap();
        events
    }
    let running = build(Service::new().get("/stream", stream).get("/events", events));
    assert_eq!(get(&running, "/stream").await.text, "one two");
    let answer = get(&running, "/events").await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_eq!(answer.text, "data: one\n\ndata: two\ndata: lines\n\n");
}

#[tokio::test]
async fn files_are_served_and_nothing_beside_them() {
    let folder = tempfile::tempdir().unwrap();
    let public = folder.path().join("public");
    std::fs::create_dir(&public).unwrap();
    std::fs::write(public.join("a.txt"), "0123456789").unwrap();
    std::fs::write(folder.path().join("secret.txt"), "secret").unwrap();
    let running = build(Service::new().files("/files", Files::folder(&public)));
    let whole = get(&running, "/files/a.txt").await;
    assert_eq!(
        (
            whole.text.as_str(),
            whole.headers["content-type"].to_str().unwrap()
        ),
        ("0123456789", "text/plain")
    );
    let since =
        request("GET", "/files/a.txt").header("if-modified-since", &whole.headers["last-modified"]);
    assert_eq!(
        ask(&running, since.body(Body::empty()).unwrap())
            .await
            .status,
        304
    );
    let part = request("GET", "/files/a.txt").header("range", "bytes=2-4");
    let part = ask(&running, part.body(Body::empty()).unwrap()).await;
    assert_eq!((part.status, part.text.as_str()), (206, "234"));
    for path in [
        "/files/../secret.txt",
        "/files/%2e%2e/secret.txt",
        "/files/none",
    ] {
        assert_eq!(get(&running, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn services_nest_and_mount_both_ways() {
    let inner = Service::new()
        .get("/hello", || "inner")
        .fallback(|| "nothing here");
    let plain = Router::new().route("/hello", routing::get(|| async { "axum" }));
    let service = Service::new()
        .get("/hello", || "outer")
        .nest("/inner", inner)
        .mount("/axum", plain);
    let running = build(service);
    assert_eq!(get(&running, "/hello").await.text, "outer");
    assert_eq!(get(&running, "/inner/hello").await.text, "inner");
    assert_eq!(get(&running, "/inner/x").await.text, "nothing here");
    assert_eq!(get(&running, "/axum/hello").await.text, "axum");
    assert_eq!(get(&running, "/x").await.status, 404);
    let names: Vec<String> = running
        .explain()
        .routes
        .iter()
        .map(|route| route.path.clone())
        .collect();
    assert_eq!(names, ["/hello", "/inner/hello", "/inner"]);

    let app = Router::new().nest("/service", running.router());
    let asked = request("GET", "/service/hello")
        .body(Body::empty())
        .unwrap();
    assert_eq!(app.oneshot(asked).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_method_that_does_not_fit_says_which_do() {
    let running = build(Service::new().get("/", || "get").put("/", || "put"));
    let answer = post(&running, "/").await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.headers["allow"], "GET,HEAD,PUT");
    assert_eq!(answer.headers["content-type"], "application/problem+json");
}
