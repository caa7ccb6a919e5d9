//! The plug-ins that are built in: native code, one file each, and one line each in [`BUILT_IN`].
//!
//! ```
//! use flows::plugins;
//!
//! let filter = plugins::find("filter").unwrap();
//! assert!(filter.check(br#"{"where": "event.price > 10"}"#).is_ok());
//! let error = filter.check(br#"{"where": "event.price >"}"#).unwrap_err();
//! assert_eq!(error.field(), "where");
//! ```

mod built_in;
mod environment;
mod parameters;
mod reference;
mod worker;

mod filter;
mod map;

pub use built_in::{BuiltIn, Outputs};
pub use environment::{Answer, Databases, Environment, Http, Metric, MetricKind, Metrics, Request};
pub use parameters::{Formula, OnError, ParameterError, Period};
pub use reference::reference;

/// All of them, in the order in which they are explained.
pub static BUILT_IN: &[BuiltIn] = &[BuiltIn::of::<map::Map>(), BuiltIn::of::<filter::Filter>()];

/// The one with this id.
pub fn find(id: &str) -> Option<&'static BuiltIn> {
    BUILT_IN.iter().find(|built_in| built_in.id() == id)
}
