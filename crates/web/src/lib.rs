//! Services: HTTP handlers over safely shared state.
//!
//! A handler is an ordinary function. What it reads and writes stands in its parameters, and from that alone the service knows
//! what may run beside what: which locks a request needs is known before it runs, all are taken at once, first come, first
//! served, and no thread waits for them. Handlers may block and take long; others do not wait for it.
//!
//! ```
//! # #![allow(elided_lifetimes_in_paths)]
//! use std::collections::HashMap;
//! use web::{Json, Path, Problem, Read, Service, Then, Write};
//!
//! type Cache = HashMap<u32, u64>;
//!
//! #[derive(Default)]
//! struct Hits(u64);
//!
//! // Takes no state: runs beside everything.
//! fn hello() -> &'static str {
//!     "hello"
//! }
//!
//! // Reads: runs beside others that read.
//! fn lookup(cache: Read<Cache>, Path(n): Path<u32>) -> Result<Json<u64>, Problem> {
//!     cache.get(&n).copied().map(Json).ok_or_else(|| Problem::new(404, "Not computed yet"))
//! }
//!
//! // Writes two states: nobody else has them meanwhile.
//! fn store(mut cache: Write<Cache>, mut hits: Write<Hits>, Path(n): Path<u32>, Json(value): Json<u64>) {
//!     cache.insert(n, value);
//!     hits.0 += 1;
//! }
//!
//! // Computes without the lock, then commits with it. Who asks for the same meanwhile gets the same answer.
//! fn fib(cache: Read<Cache>, Path(n): Path<u32>) -> Then<u64> {
//!     match cache.get(&n) {
//!         Some(value) => Then::now(*value),
//!         None => cache.compute(n, move || fibonacci(n)).commit(move |cache: &mut Cache, value: &u64| {
//!             cache.insert(n, *value);
//!         }),
//!     }
//! }
//!
//! fn fibonacci(n: u32) -> u64 {
//!     if n < 2 { u64::from(n) } else { fibonacci(n - 1) + fibonacci(n - 2) }
//! }
//!
//! let service = Service::new()
//!     .share(Cache::new())
//!     .share(Hits::default())
//!     .get("/", hello)
//!     .get("/cache/{n}", lookup)
//!     .put("/cache/{n}", store)
//!     .get("/fib/{n}", fib);
//! println!("{}", service.explain());
//! let running = service.build()?;
//! let router: axum::Router = running.router();
//! # Ok::<(), web::ServiceError>(())
//! ```
//!
//! What awaits something is an `async` function. It takes no state, which would be locked meanwhile, but
//! [a second function](next_tick) can take what it found out, and state.
//!
//! - [`Running::serve`] serves it over connections that keep to limits, see [`edge`].
//! - [`Running::explain`] says what happened so far, for each route, state and event loop; [`Running::metrics`] says it to
//!   Prometheus, and [`Running::collector`] to a registry that has other metrics too.
//! - [`Service::stages`] lets handlers send to stages of flows and ask them, see [`stages`].
//!
//! What it deliberately does not do: it keeps no state beyond the process, and it does not spread a service over several nodes;
//! stages of flows do that.

pub mod access;
pub mod edge;
pub mod extract;
pub mod locks;
pub mod loops;
pub mod outcome;
pub mod service;
pub mod shared;
pub mod stages;

pub use access::{Class, Key, KeySource, OnPanic, Param, Read, Shared, Write};
pub use axum::http::{HeaderMap, Method, StatusCode, Uri};
pub use axum::response::IntoResponse;
pub use extract::{
    Asked, Body, Extension, Extract, Form, Headers, Json, Path, PathId, Problem, Query,
};
pub use outcome::{
    Answer, Carried, Event, EventSender, Events, Files, Gone, Message, Outcome, Reply,
    StreamSender, Streaming, Then, Tick, Upgrade, WebSocket, next_tick,
};
pub use service::{Explanation, Handler, Running, Service, ServiceError, Settings};
pub use stages::Stages;
