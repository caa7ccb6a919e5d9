//! Services: HTTP handlers over safely shared state.

pub mod access;
pub mod edge;
pub mod extract;
pub mod locks;
pub mod loops;
pub mod outcome;
pub mod service;
pub mod shared;
