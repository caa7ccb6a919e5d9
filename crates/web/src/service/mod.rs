//! Services: routes with handlers, the states that they share, and what runs them.

mod builder;
mod callback;
mod engine;
mod error;
mod explain;
mod flights;
mod handler;
mod numbers;
mod pace;
mod plan;
mod route;
mod running;
mod settings;

pub use builder::Service;
pub use error::{Mistake, ServiceError};
pub use explain::{Conflict, Explanation, RouteExplained, RouteLive, StateExplained, Taken};
pub use handler::{Callable, Callbacks, Handler, Registered};
pub use running::Running;
pub use settings::Settings;
