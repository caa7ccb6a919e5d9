//! Flow documents: one text that says what a flow is, checked before anything of it runs.
//!
//! ```
//! use flows::document::Document;
//!
//! let text = r#"
//!     flow = "word-count"
//!     [stages.lines]
//!     plugin = "file-lines"
//!     parameters = { path = "book.txt" }
//!     to = "words"
//!     [stages.words]
//!     plugin = "flat-map"
//!     workers = 2
//! "#;
//! let document = Document::parse(text).unwrap().document;
//! assert_eq!(document.edges()[0].to, "words");
//! let problems = Document::parse(&text.replace("workers", "wrokers")).unwrap_err();
//! assert_eq!(problems.iter().next().and_then(|problem| problem.line), Some(9));
//! ```

mod built_ins;
mod check;
mod difference;
mod export;
mod fields;
mod graph;
mod http;
mod json_text;
mod model;
mod parameters;
mod period;
mod place;
mod plan;
mod plugin_reference;
mod problem;
mod read;
mod router;
mod scale;
mod schema;
mod spec;
mod suggest;
mod text;

pub use built_ins::BuiltIns;
pub use check::{Catalogue, Found, check};
pub use difference::{Difference, Line, Sign, difference};
pub use graph::{Cycle, Edge};
pub use http::{HttpPattern, HttpRoute, HttpTable, OpenParts, ROUTES_MAX};
pub use model::{Document, Limits, Position, Promise, Scale, Stage, USUAL_OUTPUT};
pub use period::{Period, PeriodError};
pub use place::{OneOrMany, Place, Sender};
pub use plan::{Aspect, Plan, Step, plan};
pub use plugin_reference::{PluginReference, PluginReferenceError};
pub use problem::{PROBLEMS_MAX, Path, Problem, Problems, Severity};
pub use read::Parsed;
pub use router::RouterChoice;
pub use schema::schema;

/// How many bytes a document may have: together with notes about it, it has to fit into a document of the bus.
pub const DOCUMENT_BYTES_MAX: usize = 960 << 10;
/// How many stages a flow may have.
pub const STAGES_MAX: usize = 10_000;
/// How many edges a flow may have.
pub const EDGES_MAX: usize = 50_000;
/// How long the name of an output may be.
pub const OUTPUT_NAME_BYTES_MAX: usize = 100;
