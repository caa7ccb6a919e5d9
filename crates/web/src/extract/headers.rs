//! The head of a request.

use std::ops::Deref;

use axum::http::{HeaderMap, Method, Uri};

use super::{Asked, Extract, Problem};

/// All headers of a request.
#[derive(Clone, Debug)]
pub struct Headers(pub HeaderMap);

impl Headers {
    /// A header as text, if it is there once and is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }
}

impl Deref for Headers {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        &self.0
    }
}

impl Extract for Headers {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        Ok(Self(asked.headers().clone()))
    }
}

impl Extract for Method {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        Ok(asked.method().clone())
    }
}

impl Extract for Uri {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        Ok(asked.uri().clone())
    }
}
