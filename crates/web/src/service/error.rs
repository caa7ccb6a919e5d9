//! Why a service cannot be built.

use std::fmt;

use crate::access::Wrong;

/// Why a service cannot be built: all that is wrong with it.
#[derive(Debug, thiserror::Error)]
pub struct ServiceError {
    pub(super) mistakes: Vec<Mistake>,
}

impl ServiceError {
    /// All that is wrong.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the service cannot be built")?;
        let mut mistakes = self.mistakes.iter();
        mistakes.try_for_each(|mistake| write!(formatter, "\n- {mistake}"))
    }
}

/// One thing that is wrong with a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistake {
    /// A handler cannot have what it takes.
    #[error("{route}: {wrong}")]
    Handler {
        /// Its method and path.
        route: String,
        /// What is wrong.
        wrong: Wrong,
    },
    /// Two states have the same type, so handlers could not say which they mean.
    #[error(
        "the state {state} is shared twice: a state is known by its type, so wrap one in a type of its own"
    )]
    SharedTwice {
        /// The name of the type.
        state: String,
    },
    /// The same is routed to two handlers.
    #[error("{route}: there is a handler for this already")]
    RoutedTwice {
        /// The method and path.
        route: String,
    },
    /// Routes do not fit together, or are written wrongly.
    #[error("the routes cannot be built: {reason}")]
    Routes {
        /// What the router says.
        reason: String,
    },
}
