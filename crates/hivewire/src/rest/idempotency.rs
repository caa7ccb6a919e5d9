//! `Idempotency-Key`: a request that comes again gets the answer of the first one, and does nothing.
//!
//! Answers are kept in memory for a while, by this node alone. A request with a key goes on to its end though
//! whoever sent it may be gone: he will ask again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::app::App;
use super::body;
use super::problem::{HasHappened, Problem};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that an answer is that of an earlier request.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// What besides the body makes two requests differ.
const MEANING: [&str; 3] = ["content-type", "if-match", "accept"];
const MEANING_PREFIX: &str = "hivewire-";

const KEY_BYTES_MAX: usize = 255;
const KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);
const KEYS_MAX: usize = 10_000;
const ANSWERS_BYTES_MAX: usize = 32 << 20;
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What is known of requests with keys.
#[derive(Default)]
pub(crate) struct Answers(Mutex<Book>);

#[derive(Default)]
struct Book {
    known: HashMap<String, Known>,
    /// The keys, the oldest first.
    order: BTreeMap<u64, String>,
    /// Bytes of all answers.
    bytes: usize,
    /// Counts requests.
    last: u64,
}

struct Known {
    number: u64,
    since: Instant,
    fingerprint: [u8; 32],
    outcome: Outcome,
}

enum Outcome {
    Running,
    Answered(Kept),
    /// It was answered, with more than there is room for.
    TooLong(StatusCode),
}

/// An answer.
#[derive(Clone)]
struct Kept {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answers {
    /// Begins a request; gives the answer instead if it came before.
    fn begin(&self, key: &str, fingerprint: [u8; 32], now: Instant) -> Result<(), Box<Response>> {
        let mut state = self.0.lock();
        state.forget_old(now);
        if let Some(known) = state.known.get(key) {
            return Err(Box::new(known.answer(key, fingerprint)));
        }
        if state.known.len() >= KEYS_MAX && !state.forget_oldest() {
            let full = Problem::not_ready(
                "too many requests with an Idempotency-Key are under way: try again",
            );
            return Err(Box::new(full.into_response()));
        }
        state.last += 1;
        let known = Known {
            number: state.last,
            since: now,
            fingerprint,
            outcome: Outcome::Running,
        };
        state.order.insert(known.number, key.to_owned());
        state.known.insert(key.to_owned(), known);
        Ok(())
    }

    /// Forgets a request that did nothing: it may be tried again.
    fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }

    fn keep(&self, key: &str, outcome: Outcome) {
        let mut state = self.0.lock();
        state.bytes += outcome.bytes();
        if let Some(known) = state.known.get_mut(key) {
            known.outcome = outcome;
        }
        while state.bytes > ANSWERS_BYTES_MAX && state.forget_oldest() {}
    }
}

impl Book {
    fn remove(&mut self, key: &str) {
        if let Some(known) = self.known.remove(key) {
            self.order.remove(&known.number);
            self.bytes -= known.outcome.bytes();
        }
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(known) = self.oldest().and_then(|key| self.known.get(&key))
            && now.duration_since(known.since) > KEPT_FOR
        {
            self.forget_oldest();
        }
    }

    /// Makes room.
    fn forget_oldest(&mut self) -> bool {
        match self.oldest() {
            Some(key) => {
                self.remove(&key);
                true
            }
            None => false,
        }
    }

    /// The oldest that is not under way any more.
    fn oldest(&self) -> Option<String> {
        let is_done = |key: &&String| {
            let known = self.known.get(*key);
            known.is_some_and(|known| !matches!(known.outcome, Outcome::Running))
        };
        self.order.values().find(is_done).cloned()
    }
}

impl Outcome {
    fn bytes(&self) -> usize {
        match self {
            Self::Answered(kept) => kept.body.len(),
            Self::Running | Self::TooLong(_) => 0,
        }
    }
}

impl Known {
    /// What whoever comes with the same key gets.
    fn answer(&self, key: &str, fingerprint: [u8; 32]) -> Response {
        if self.fingerprint != fingerprint {
            let reused = Problem::key_reused(format!(
                "the Idempotency-Key {key:?} came before with another request: choose another one"
            ));
            return reused.into_response();
        }
        let mut answer = match &self.outcome {
            Outcome::Running => {
                let running =
                    Problem::conflict("the first request with this Idempotency-Key is still under way: try again in a moment");
                return running.into_response();
            }
            Outcome::TooLong(status) => Problem::conflict(format!(
                "it was done before and answered with {status}, but the answer was too long to be kept"
            ))
            .into_response(),
            Outcome::Answered(kept) => kept.clone().into_response(),
        };
        let headers = answer.headers_mut();
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        answer
    }
}

impl IntoResponse for Kept {
    fn into_response(self) -> Response {
        (self.status, self.headers, self.body).into_response()
    }
}

/// Does a request with a key once.
pub(super) async fn once(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let Some(key) = request.headers().get(KEY) else {
        return next.run(request).await;
    };
    let key = match key.to_str() {
        Ok(key) if (1..=KEY_BYTES_MAX).contains(&key.len()) => key.to_owned(),
        _ => {
            return Problem::bad_request(format!(
                "an Idempotency-Key has 1 to {KEY_BYTES_MAX} visible characters"
            ))
            .into_response();
        }
    };
    let (parts, body) = request.into_parts();
    let read = body::read(&app, &parts.headers, body, body::REQUEST_BYTES_MAX).await;
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(problem) => return problem.into_response(),
    };
    let request = Request::from_parts(parts, Body::from(bytes.clone()));
    let fingerprint = fingerprint(&request, &bytes);
    if let Err(answer) = app.answers.begin(&key, fingerprint, Instant::now()) {
        return *answer;
    }
    let doing = Doing {
        app,
        key: Some(key),
    };
    let done = tokio::spawn(async move { doing.end(next.run(request).await).await });
    match done.await {
        Ok(answer) => answer,
        Err(error) => Problem::internal(format!("the request broke off: {error}")).into_response(),
    }
}

/// A request that is under way. If it breaks off, it is unknown what it did, so it is not tried again.
struct Doing {
    app: Arc<App>,
    key: Option<String>,
}

impl Doing {
    async fn end(mut self, answer: Response) -> Response {
        let Some(key) = self.key.take() else {
            return answer;
        };
        let answers = &self.app.answers;
        if !has_happened(&answer) {
            answers.forget(&key);
            return answer;
        }
        let (parts, body) = answer.into_parts();
        match to_bytes(body, body::REQUEST_BYTES_MAX).await {
            Ok(bytes) => {
                let outcome = match bytes.len() <= ANSWER_BYTES_MAX {
                    true => Outcome::Answered(Kept {
                        status: parts.status,
                        headers: parts.headers.clone(),
                        body: bytes.clone(),
                    }),
                    false => Outcome::TooLong(parts.status),
                };
                answers.keep(&key, outcome);
                Response::from_parts(parts, Body::from(bytes))
            }
            Err(error) => {
                answers.keep(&key, Outcome::TooLong(parts.status));
                Problem::internal(error.to_string()).into_response()
            }
        }
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            self.app.answers.keep(&key, Outcome::TooLong(status));
        }
    }
}

/// Whether something happened, or may have.
fn has_happened(answer: &Response) -> bool {
    let status = answer.status();
    status.is_success()
        || answer.extensions().get::<HasHappened>().is_some()
        || matches!(
            status,
            StatusCode::INTERNAL_SERVER_ERROR
                | StatusCode::BAD_GATEWAY
                | StatusCode::GATEWAY_TIMEOUT
        )
}

/// Tells requests apart.
fn fingerprint(request: &Request, body: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut add = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    add(request.method().as_str().as_bytes());
    add(request.uri().to_string().as_bytes());
    let mut headers: Vec<_> = request
        .headers()
        .iter()
        .filter(|(name, _)| {
            MEANING.contains(&name.as_str()) || name.as_str().starts_with(MEANING_PREFIX)
        })
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    headers.sort_unstable();
    for (name, value) in headers {
        add(name.as_bytes());
        add(value);
    }
    add(body);
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(bytes: usize) -> Outcome {
        Outcome::Answered(Kept {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: vec![0; bytes].into(),
        })
    }

    fn status(answers: &Answers, key: &str, print: u8, now: Instant) -> Option<u16> {
        let begun = answers.begin(key, [print; 32], now);
        begun.err().map(|answer| answer.status().as_u16())
    }

    #[test]
    fn what_came_before_is_answered_again() {
        let answers = Answers::default();
        let now = Instant::now();
        assert_eq!(status(&answers, "a", 1, now), None);
        assert_eq!(status(&answers, "a", 1, now), Some(409), "under way");
        answers.keep("a", kept(3));
        assert_eq!(status(&answers, "a", 1, now), Some(200));
        assert_eq!(status(&answers, "a", 2, now), Some(422), "another request");
        assert_eq!(status(&answers, "b", 1, now), None);
        answers.forget("b");
        assert_eq!(status(&answers, "b", 1, now), None, "nothing had happened");
        let later = now + KEPT_FOR + Duration::from_secs(1);
        assert_eq!(status(&answers, "a", 2, later), None, "forgotten");
        assert_eq!(
            status(&answers, "b", 1, later),
            Some(409),
            "still under way"
        );
    }

    #[test]
    fn the_oldest_answers_go_first() {
        let answers = Answers::default();
        let now = Instant::now();
        let count = ANSWERS_BYTES_MAX / ANSWER_BYTES_MAX + 1;
        for number in 0..count {
            let key = number.to_string();
            assert_eq!(status(&answers, &key, 1, now), None);
            answers.keep(&key, kept(ANSWER_BYTES_MAX));
        }
        assert_eq!(
            status(&answers, &(count - 1).to_string(), 1, now),
            Some(200)
        );
        assert_eq!(status(&answers, "1", 1, now), Some(200));
        assert_eq!(
            status(&answers, "0", 1, now),
            None,
            "there was no room for it"
        );
        assert!(answers.0.lock().bytes <= ANSWERS_BYTES_MAX);
    }
}
