//! Services: routes with handlers, the states that they share, and what runs them.

mod builder;
mod callback;
mod edges;
mod engine;
mod error;
mod explain;
mod flights;
mod handler;
mod live;
mod metrics;
mod pace;
mod plan;
mod route;
mod running;
mod settings;

pub use builder::Service;
pub use error::{Mistake, ServiceError};
pub use explain::{Conflict, Explanation, RouteExplained, RouteLive, StateExplained, Taken};
pub use handler::{Callable, Callbacks, Handler, Registered};
pub use live::{LoopsLive, StateLive, TimesExplained};
pub use metrics::ServicesCollector;
pub use running::Running;
pub use settings::Settings;
