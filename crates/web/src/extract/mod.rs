//! What a handler takes from a request. All of it is read and checked before anything is locked.
//!
//! Input that does not fit is answered with 4xx and a [`Problem`] that says what is wrong, and where.

mod asked;
mod body;
mod extension;
mod form;
mod headers;
mod json;
mod path;
mod problem;
mod query;

pub use asked::Asked;
pub use body::Body;
pub use extension::Extension;
pub use form::Form;
pub use headers::Headers;
pub use json::Json;
pub use path::{Path, PathId};
pub use problem::Problem;
pub use query::Query;

/// Something that comes out of a request. Every such type can be a parameter of a handler.
///
/// ```
/// use web::{Asked, Extract, Problem};
///
/// struct Token(String);
///
/// impl Extract for Token {
///     fn extract(asked: &mut Asked) -> Result<Self, Problem> {
///         let token = asked.headers().get("x-token").and_then(|value| value.to_str().ok());
///         let token = token.ok_or_else(|| Problem::new(401, "A token is needed"))?;
///         Ok(Token(token.to_owned()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not come out of a request, so an `async` handler cannot take it",
    label = "`{Self}` is not `Extract`",
    note = "state would stay locked for as long as an `async` handler waits",
    note = "make it an ordinary function, `fn` instead of `async fn`: it may block and take long without holding up others",
    note = "or compute without the lock: give back a `Then`, made by `state.compute(key, || …).commit(|state, value| …)`",
    note = "or take the state in a step of its own: `next_tick(first, second)`"
)]
pub trait Extract: Sized + Send + 'static {
    /// Whether the body has to be read before.
    const READS_BODY: bool = false;

    /// Takes it, or says why the request is refused.
    fn extract(asked: &mut Asked) -> Result<Self, Problem>;
}

/// What a request gives, or why it does not: the handler decides what to do about it.
impl<T: Extract> Extract for Result<T, Problem> {
    const READS_BODY: bool = T::READS_BODY;

    fn extract(asked: &mut Asked) -> Result<Self, Problem> {
        Ok(T::extract(asked))
    }
}
