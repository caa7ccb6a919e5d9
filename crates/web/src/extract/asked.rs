//! A request as extractors see it.

use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, Uri};
use bytes::Bytes;

/// A request, of which the head is known and, for handlers that need it, the body.
#[derive(Debug)]
pub struct Asked {
    parts: Parts,
    body: Bytes,
}

impl Asked {
    pub(crate) fn new(parts: Parts, body: Bytes) -> Self {
        Self { parts, body }
    }

    /// How it is asked.
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    /// What is asked for.
    pub fn uri(&self) -> &Uri {
        &self.parts.uri
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// What layers put in.
    pub fn extensions(&self) -> &Extensions {
        &self.parts.extensions
    }

    /// The body. It is empty unless some parameter of the handler says that it is made of it.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn parts_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }

    /// Whether the content type is this one, or ends in this suffix such as `+json`.
    pub(crate) fn is_of_type(&self, wanted: &str, suffix: &str) -> bool {
        let value = self.headers().get(axum::http::header::CONTENT_TYPE);
        let value = value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let kind = value.split(';').next().unwrap_or_default().trim();
        let kind = kind.to_ascii_lowercase();
        kind == wanted || (!suffix.is_empty() && kind.ends_with(suffix))
    }
}
