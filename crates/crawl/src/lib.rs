//! A crawler made of plug-ins, for flows.
//!
//! What it deliberately does not do: it runs nothing itself. Its plug-ins are stages of ordinary flows, and whoever runs flows
//! runs them.

mod html;
pub mod links;
