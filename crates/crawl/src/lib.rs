//! A crawler made of plug-ins, for flows.
//!
//! ```
//! flows::plugins::add(crawl::PLUGINS);
//! ```
//!
//! What it deliberately does not do: it runs nothing itself. Its plug-ins are stages of ordinary flows, and whoever runs flows
//! runs them.

mod plugins;
pub mod store;
pub mod visit;
pub mod warc;

pub use plugins::PLUGINS;
