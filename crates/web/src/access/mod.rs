//! What a handler reads and writes, taken from its parameters.
//!
//! A handler is an ordinary function. Its parameters say what it takes: [`Read`], [`Write`], [`Key`] and [`Shared`] give it
//! state, whatever is [`Extract`](crate::extract::Extract) comes out of the request. From this alone its [`Class`] is known, and
//! which locks it needs, before it ever runs.
//!
//! State is reached only through [`Held`], which is made of locks that were really taken and hands out nothing twice. So a wrong
//! declaration could stop a request, but never give two handlers the same state at the same time.

mod claim;
mod class;
mod declare;
mod key;
mod name;
mod panic;
mod param;
mod read_write;
mod shared;
mod states;
mod storage;

pub use class::Class;
pub use declare::{Access, Scope, Use, Wrong};
pub use key::{Key, KeyMode, KeySource};
pub use name::short_name;
pub use panic::OnPanic;
pub use param::Param;
pub use read_write::{Read, Write};
pub use shared::Shared;
pub use states::States;
pub use storage::{Held, StateCell};

pub(crate) use claim::Claim;
pub(crate) use param::Wants;
pub(crate) use states::{AnyCell, Shares};
