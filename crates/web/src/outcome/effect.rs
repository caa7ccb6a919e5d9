//! What a handler may give back, and what is done about it.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use axum::response::IntoResponse;

use crate::access::Access;

use super::Reply;
use super::then::Computation;

/// What is to be done after a handler has run.
pub enum Effect {
    /// It answered.
    Reply(Reply),
    /// It will say later what is to be done.
    Later(Pin<Box<dyn Future<Output = Effect> + Send>>),
    /// It wants something computed without its locks.
    Compute(Box<dyn Computation>),
    /// It gave something to the next callback.
    Next(Box<dyn Any + Send>),
}

/// What a handler may give back.
#[diagnostic::on_unimplemented(
    message = "a handler cannot give back `{Self}`",
    label = "this is no answer to a request",
    note = "give back something that implements axum's `IntoResponse` (text, a status, `web::Json`, a pair of them, a `Result`), or a `web::Then`"
)]
pub trait Outcome {
    /// Says what it may do to the state that was read.
    #[doc(hidden)]
    fn declare(_access: &mut Access) {}

    /// What is to be done.
    #[doc(hidden)]
    fn effect(self) -> Effect;
}

#[diagnostic::do_not_recommend]
impl<T: IntoResponse> Outcome for T {
    fn effect(self) -> Effect {
        Effect::Reply(self.into_response())
    }
}
