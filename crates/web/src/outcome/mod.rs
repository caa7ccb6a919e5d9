//! What a handler may give back.
//!
//! Whatever axum can turn into a response is an outcome: text, a status, [`Json`](crate::extract::Json), pairs of those, a
//! `Result`. Beside that there are [`Then`], which goes on without the lock, [`Tick`], which goes on with the next function,
//! and streams. All locks are released before a response is written.

mod answer;
mod effect;
mod events;
mod files;
mod streaming;
mod then;
mod tick;
mod upgrade;

pub use answer::Answer;
pub use effect::Outcome;
pub use events::{Event, EventSender, Events};
pub use files::Files;
pub use streaming::{Gone, StreamSender, Streaming};
pub use then::{Compute, Then};
pub use tick::{Carried, NextTick, Tick, next_tick};
pub use upgrade::{Message, Upgrade, WebSocket};

pub(crate) use effect::Effect;
pub(crate) use then::{Computation, Computed, DynKey};

/// An answer to a request.
pub type Reply = axum::response::Response;
