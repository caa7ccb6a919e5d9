//! Asking a service, without a socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;
use web::{Running, Service};

/// How long a test waits until it gives up.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

pub fn build(service: Service) -> Running {
    service.build().unwrap()
}

pub fn request(method: &str, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path)
}

pub async fn ask(running: &Running, request: Request<Body>) -> Answer {
    let answer = running.router().oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

pub async fn get(running: &Running, path: &str) -> Answer {
    ask(running, request("GET", path).body(Body::empty()).unwrap()).await
}

pub async fn post(running: &Running, path: &str) -> Answer {
    ask(running, request("POST", path).body(Body::empty()).unwrap()).await
}

pub async fn post_json(running: &Running, path: &str, json: &str) -> Answer {
    let request = request("POST", path).header("content-type", "application/json");
    ask(running, request.body(Body::from(json.to_owned())).unwrap()).await
}

/// Asks in the background.
pub fn asking(
    running: &Running,
    method: &'static str,
    path: &str,
) -> tokio::task::JoinHandle<Answer> {
    let running = running.clone();
    let request = request(method, path).body(Body::empty()).unwrap();
    tokio::spawn(async move { ask(&running, request).await })
}

/// Waits until this is so.
pub async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}

/// Handlers stop here until the test lets them go on.
#[derive(Clone, Default)]
pub struct Gate {
    inner: Arc<(parking_lot::Mutex<bool>, parking_lot::Condvar, AtomicUsize)>,
}

impl Gate {
    /// Waits, as a handler may, until the gate is opened.
    pub fn pass(&self) {
        self.inner.2.fetch_add(1, Ordering::SeqCst);
        let mut is_open = self.inner.0.lock();
        while !*is_open {
            let waited = self.inner.1.wait_for(&mut is_open, PATIENCE);
            assert!(!waited.timed_out(), "the gate was never opened");
        }
    }

    pub fn open(&self) {
        *self.inner.0.lock() = true;
        self.inner.1.notify_all();
    }

    /// How many came here so far.
    pub fn came(&self) -> usize {
        self.inner.2.load(Ordering::SeqCst)
    }
}
