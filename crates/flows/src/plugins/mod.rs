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

mod appended;
pub mod author;
mod built_in;
mod environment;
mod event_time;
mod parameters;
mod reference;
pub mod state;
mod table;
mod worker;

mod aggregate;
mod answer;
mod batch;
mod deduplicate;
mod enrich;
mod file_lines;
mod filter;
mod flat_map;
mod from_bus;
mod from_http;
mod generator;
mod join;
mod key_by;
mod map;
mod merge;
mod prioritise;
mod split;
mod throttle;
mod timer;
mod to_bus;
mod to_file;
mod to_http;
mod to_postgres;
mod to_prometheus;
mod to_sqlite;
mod window;

use std::sync::{PoisonError, RwLock};

pub use built_in::{BuiltIn, Outputs};
pub use environment::{
    Answer, Environment, Http, Metric, MetricKind, MetricSpec, Metrics, OTHER, Request, SharedParts,
};
pub use parameters::{Formula, OnError, ParameterError, Period};
pub use reference::reference;

/// Tables of other crates whose plug-ins are built in, too.
static ADDED: RwLock<Vec<&'static [BuiltIn]>> = RwLock::new(Vec::new());

/// Makes the plug-ins of another crate built in, in this process. A table that was added before is not added again.
pub fn add(table: &'static [BuiltIn]) {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    if !added.iter().any(|known| std::ptr::eq(*known, table)) {
        added.push(table);
    }
}

/// All plug-ins that are built in, in the order in which they are explained: those of [`BUILT_IN`], and those that were [added](add).
pub fn all() -> impl Iterator<Item = &'static BuiltIn> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner).clone();
    BUILT_IN.iter().chain(added.into_iter().flatten())
}

/// Those of this crate, in the order in which they are explained.
pub static BUILT_IN: &[BuiltIn] = &[
    BuiltIn::of::<generator::Generator>(),
    BuiltIn::of::<timer::Timer>(),
    BuiltIn::of::<file_lines::FileLines>(),
    BuiltIn::of::<from_bus::FromQueue>(),
    BuiltIn::of::<from_bus::FromTopic>(),
    BuiltIn::of::<from_http::FromHttp>(),
    BuiltIn::of::<map::Map>(),
    BuiltIn::of::<filter::Filter>(),
    BuiltIn::of::<flat_map::FlatMap>(),
    BuiltIn::of::<split::Split>(),
    BuiltIn::of::<merge::Merge>(),
    BuiltIn::of::<key_by::KeyBy>(),
    BuiltIn::of::<aggregate::Aggregate>(),
    BuiltIn::of::<window::Window>(),
    BuiltIn::of::<join::Join>(),
    BuiltIn::of::<deduplicate::Deduplicate>(),
    BuiltIn::of::<throttle::Throttle>(),
    BuiltIn::of::<prioritise::Prioritise>(),
    BuiltIn::of::<batch::Batch>(),
    BuiltIn::of::<enrich::Enrich>(),
    BuiltIn::of::<answer::Answer>(),
    BuiltIn::of::<to_file::ToFile>(),
    BuiltIn::of::<to_bus::ToQueue>(),
    BuiltIn::of::<to_bus::ToTopic>(),
    BuiltIn::of::<to_http::ToHttp>(),
    BuiltIn::of::<to_sqlite::ToSqlite>(),
    BuiltIn::of::<to_postgres::ToPostgres>(),
    BuiltIn::of::<to_prometheus::ToPrometheus>(),
];

/// The one with this id.
pub fn find(id: &str) -> Option<&'static BuiltIn> {
    all().find(|built_in| built_in.id() == id)
}
