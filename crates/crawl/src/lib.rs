//! A crawler made of plug-ins, for flows.
//!
//! ```
//! flows::plugins::add(crawl::PLUGINS);
//! ```
//!
//! What it deliberately does not do: it runs nothing itself. Its plug-ins are stages of ordinary flows, and whoever runs flows
//! runs them.

pub mod address;
pub mod charset;
pub mod domain;
pub mod fetch;
pub mod fields;
pub mod frontier;
mod html;
pub mod links;
pub mod pace;
mod plugins;
pub mod robots;
pub mod simhash;
pub mod sitemap;
pub mod sniff;
pub mod store;
pub mod text;
pub mod visit;
pub mod warc;
pub mod wrong;

pub use plugins::PLUGINS;
