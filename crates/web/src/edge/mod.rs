//! Connections: HTTP over sockets, within limits.
//!
//! [`serve`] runs an [`axum::Router`] over a listener. hyper speaks HTTP/1.1 and HTTP/1.0; the edge
//! stands before it and sees that clients keep to [`EdgeLimits`]: in number, in size and in time. Who
//! does not is answered with a problem document (RFC 9457) that says why, and his connection is closed.
//! What was refused, and why, is counted in [`EdgeNumbers`].
//!
//! Requests that two servers could understand in two ways are refused, so that nothing can be smuggled
//! through a proxy before this server: lengths that conflict or repeat, lines that do not end with CR
//! LF, transfer codings besides `chunked`, a missing or second `Host`, chunks that are none.
//!
//! Requests that come in one go (pipelining) are answered one after another, in their order, also
//! when one of them is refused: those before it are answered first.
//!
//! ```
//! use axum::{Router, routing::get};
//! use web::edge::{EdgeLimits, serve};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let router = Router::new().route("/", get(async || "hello"));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
//! let limits = EdgeLimits {
//!     body_bytes_max: 64 << 10,
//!     ..EdgeLimits::default()
//! };
//! let serving = serve(listener, router, limits, std::future::pending());
//! serving.handle().stop();
//! assert_eq!(serving.ended().await, 0);
//! # });
//! ```
//!
//! It speaks neither HTTP/2 nor TLS: a client that asks for HTTP/2 without having agreed on it is
//! answered with 505.

mod chunks;
mod connection;
mod gate;
mod head;
mod limits;
mod numbers;
mod refusal;
mod server;
mod service;
mod watch;
mod watched;

pub use limits::EdgeLimits;
pub use numbers::EdgeNumbers;
pub use refusal::Refusal;
pub use server::{EdgeHandle, Serving, serve};
