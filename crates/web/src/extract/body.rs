//! The body as it is.

use std::ops::Deref;

use bytes::Bytes;

use super::{Asked, Extract, Problem};

/// The body of a request, read to its end within the limits of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(pub Bytes);

impl Deref for Body {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0
    }
}

impl Extract for Body {
    const READS_BODY: bool = true;

    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        Ok(Self(asked.body().clone()))
    }
}

/// The body as text, which must be UTF-8.
impl Extract for String {
    const READS_BODY: bool = true;

    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        std::str::from_utf8(asked.body())
            .map(str::to_owned)
            .map_err(|error| Problem::new(400, "The body is not text").detail(error.to_string()))
    }
}
