//! Logs: what the node says about itself and what its workers write, kept in files with bounds, read back,
//! and followed on all nodes from one place.

mod line;
mod queue;
mod settings;
mod sharing;
mod store;
mod tap;
mod wanted;

pub(crate) use self::line::{Filter, Level, Line};
pub(crate) use self::settings::filter_of;
pub use self::settings::{LogError, LogSettings};
pub(crate) use self::sharing::{Batch, Following, LogSharing};
pub(crate) use self::store::{LogStore, OWN_TARGET};
pub(crate) use self::tap::TapLayer;
pub(crate) use self::wanted::Wanted;
