//! Flows: graphs of stages as documents, the plug-ins that are built in, and how a running flow becomes another.
//!
//! What it deliberately does not do: it deploys nothing itself, and knows no node, no REST and no files of components.

pub mod document;
mod event;
mod expression;
pub mod plugins;
mod window;

pub use event::{Data, EVENT_DEPTH_MAX, Event, EventError, Hold, List, Record, Text};
pub use expression::{EXPRESSION_BYTES_MAX, Expression, ExpressionError, Variables};
