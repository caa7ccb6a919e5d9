//! A crawler made of plug-ins, for flows.
//!
//! ```
//! flows::plugins::add(crawl::PLUGINS);
//! ```
//!
//! What it deliberately does not do: it runs nothing itself. Its plug-ins are stages of ordinary flows, and whoever runs flows
//! runs them.

pub mod charset;
pub mod fields;
mod html;
pub mod links;
mod plugins;
pub mod simhash;
pub mod sitemap;
pub mod sniff;
pub mod text;
pub mod visit;

pub use plugins::PLUGINS;
