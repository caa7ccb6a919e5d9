//! How a stage finds its number of workers by itself.
//!
//! Probes that wait behind the messages decide that a stage is too slow or too idle; measured rates decide how many
//! workers it needs.

mod rule;

pub use rule::{ScaleBy, ScaleRule, ScaleRuleError};
