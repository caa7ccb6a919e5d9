//! Forms, as browsers send them.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use super::{Asked, Extract, Problem};

/// A form that was sent as `application/x-www-form-urlencoded`, as a structure with a field for each input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form<T>(pub T);

impl<T> Deref for Form<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: DeserializeOwned + Send + 'static> Extract for Form<T> {
    const READS_BODY: bool = true;

    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        if !asked.is_of_type("application/x-www-form-urlencoded", "") {
            return Err(Problem::new(415, "A form is wanted")
                .detail("send it as application/x-www-form-urlencoded")
                .field("content-type"));
        }
        from_pairs(asked.body(), 422, "The form does not fit").map(Self)
    }
}

/// Reads `name=value&…`.
pub(super) fn from_pairs<T: DeserializeOwned>(
    text: &[u8],
    status: u16,
    title: &'static str,
) -> Result<T, Problem> {
    let pairs = serde_urlencoded::Deserializer::new(url::form_urlencoded::parse(text));
    serde_path_to_error::deserialize(pairs).map_err(|error| {
        let field = error.path().to_string();
        let problem = Problem::new(status, title).detail(error.inner().to_string());
        match field.as_str() {
            "." => problem,
            _ => problem.field(field),
        }
    })
}
