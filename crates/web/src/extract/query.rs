//! What stands after the question mark.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use super::form::from_pairs;
use super::{Asked, Extract, Problem};

/// What stands after the question mark, as a structure with a field for each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<T>(pub T);

impl<T> Deref for Query<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: DeserializeOwned + Send + 'static> Extract for Query<T> {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        let query = asked.uri().query().unwrap_or_default();
        from_pairs(query.as_bytes(), 400, "The query does not fit").map(Self)
    }
}
