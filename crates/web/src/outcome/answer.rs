//! Values that many requests can be answered with.

use std::sync::Arc;

use axum::response::IntoResponse;
use bytes::Bytes;
use serde::Serialize;

use crate::extract::{Json, Problem};

use super::Reply;

/// A value that any number of requests can be answered with: what a [`Then`](super::Then) computes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot answer several requests",
    note = "a `Then` gives text, numbers, bytes or `web::Json`, or a type that implements `web::Answer`"
)]
pub trait Answer: Send + Sync + 'static {
    /// The answer for one of them.
    fn answer(&self) -> Reply;
}

macro_rules! answer_as_text {
    ($($kind:ty)*) => {$(
        impl Answer for $kind {
            fn answer(&self) -> Reply {
                self.to_string().into_response()
            }
        }
    )*};
}

answer_as_text!(bool char f32 f64 i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);

macro_rules! answer_as_it_is {
    ($($kind:ty)*) => {$(
        impl Answer for $kind {
            fn answer(&self) -> Reply {
                self.clone().into_response()
            }
        }
    )*};
}

answer_as_it_is!(&'static str Bytes String Vec<u8> Problem);

impl Answer for () {
    fn answer(&self) -> Reply {
        ().into_response()
    }
}

impl<T: Serialize + Send + Sync + 'static> Answer for Json<T> {
    fn answer(&self) -> Reply {
        Json(&self.0).into_response()
    }
}

impl<T: Answer> Answer for Arc<T> {
    fn answer(&self) -> Reply {
        T::answer(self)
    }
}

impl<T: Answer, E: Answer> Answer for Result<T, E> {
    fn answer(&self) -> Reply {
        match self {
            Ok(value) => value.answer(),
            Err(error) => error.answer(),
        }
    }
}

/// None is answered with 404.
impl<T: Answer> Answer for Option<T> {
    fn answer(&self) -> Reply {
        match self {
            Some(value) => value.answer(),
            None => Problem::new(404, "Not found").into_response(),
        }
    }
}
