//! What layers put into a request.

use std::ops::Deref;

use crate::access::short_name;

use super::{Asked, Extract, Problem};

/// A value that a tower layer put into the request, such as who is signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<T>(pub T);

impl<T> Deref for Extension<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone + Send + Sync + 'static> Extract for Extension<T> {
    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        let found = asked.extensions().get::<T>().cloned();
        found.map(Self).ok_or_else(|| {
            let name = short_name::<T>();
            Problem::new(500, "The service is not complete").detail(format!(
                "no layer gave the {name} that the handler takes as Extension<{name}>"
            ))
        })
    }
}
