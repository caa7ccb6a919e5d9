//! JSON, taken and given.

use std::ops::{Deref, DerefMut};

use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Asked, Extract, Problem};

/// A value as JSON: as a parameter what the body says, as a result what is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Json<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: DeserializeOwned + Send + 'static> Extract for Json<T> {
    const READS_BODY: bool = true;

    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        if !asked.is_of_type("application/json", "+json") {
            return Err(Problem::new(415, "JSON is wanted")
                .detail("send it as application/json")
                .field("content-type"));
        }
        let mut json = serde_json::Deserializer::from_slice(asked.body());
        let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let field = error.path().to_string();
            let inner = error.into_inner();
            let detail = inner.to_string();
            if !inner.is_data() {
                return Problem::new(400, "The body is not JSON").detail(detail);
            }
            let problem = Problem::new(422, "The JSON does not fit").detail(detail);
            match field.as_str() {
                "." => problem,
                _ => problem.field(field),
            }
        })?;
        json.end()
            .map_err(|error| Problem::new(400, "The body is not JSON").detail(error.to_string()))?;
        Ok(Self(value))
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}
