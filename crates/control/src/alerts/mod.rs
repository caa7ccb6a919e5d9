//! Alerts: what is wrong, since when, and when somebody is told.
//!
//! A node observes itself and those around it ([`Observation`]); its rules ([`Rule`]) say what of it is
//! wrong, and [`Alerts`] decides from that and the time when a notice goes out. Nothing here does I/O or
//! reads a clock: what was observed and the time go in, notices come out.
//!
//! An alert is *pending* while its condition has not held for long enough, then *firing* until the
//! condition ends. Alerts of one rule that begin to fire or end within [`Settings::group_wait`] of each
//! other share a notice. One that ends before its notice went out is not told at all.

mod conditions;
mod growth;
mod machine;
#[cfg(test)]
mod machine_tests;
mod notice;
mod observation;
mod rule;
mod silence;

pub use machine::{Alerts, Settings};
pub use notice::{Alert, AlertState, Notice};
pub use observation::{
    JournalSeen, Labels, Match, NodeSeen, NodesSeen, Observation, QueueSeen, StageSeen,
};
pub use rule::{Condition, Rule, Severity};
pub use silence::{Silence, SilenceError, Silences};
