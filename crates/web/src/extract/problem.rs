//! Why a request is not answered as it wished: problem documents of RFC 9457.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// Why a request is not answered as it wished, as a problem document (`application/problem+json`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    status: u16,
    title: Cow<'static, str>,
    detail: String,
    field: String,
    retry_after: Option<Duration>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Problem {
    /// A problem with this status and, in a few words that are always the same, what it is.
    pub fn new(status: u16, title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            inner: Box::new(Inner {
                status,
                title: title.into(),
                detail: String::new(),
                field: String::new(),
                retry_after: None,
                headers: Vec::new(),
            }),
        }
    }

    /// What happened this time.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.inner.detail = detail.into();
        self
    }

    /// Which part of the input is wrong.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.inner.field = field.into();
        self
    }

    /// When it makes sense to ask again.
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.inner.retry_after = Some(time);
        self
    }

    /// One more header of the answer.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.inner.headers.push((name, value));
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.inner.status
    }

    /// The title.
    pub fn title(&self) -> &str {
        &self.inner.title
    }

    pub(crate) fn panicked() -> Self {
        Self::new(500, "The handler failed").detail("It panicked. The log says more.")
    }

    pub(crate) fn overloaded(detail: &str) -> Self {
        let problem = Self::new(503, "Overloaded").detail(detail);
        problem.retry_after(Duration::from_secs(1))
    }

    fn document(&self) -> String {
        let inner = &self.inner;
        let mut document = serde_json::Map::new();
        document.insert("type".to_owned(), "about:blank".into());
        document.insert("title".to_owned(), inner.title.as_ref().into());
        document.insert("status".to_owned(), inner.status.into());
        for (name, value) in [("detail", &inner.detail), ("field", &inner.field)] {
            if !value.is_empty() {
                document.insert(name.to_owned(), value.as_str().into());
            }
        }
        serde_json::Value::Object(document).to_string()
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let inner = &self.inner;
        write!(formatter, "{} {}", inner.status, inner.title)?;
        match inner.detail.is_empty() {
            true => Ok(()),
            false => write!(formatter, ": {}", inner.detail),
        }
    }
}

impl std::error::Error for Problem {}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.inner.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(CONTENT_TYPE, kind)], self.document()).into_response();
        if let Some(time) = self.inner.retry_after {
            let seconds = time.as_secs().max(1);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        for (name, value) in self.inner.headers {
            response.headers_mut().append(name, value);
        }
        response
    }
}
