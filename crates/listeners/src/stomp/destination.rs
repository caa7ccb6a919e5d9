//! What a `destination` header means.

use kernel::{Destination, Name, NameError};

/// Why a destination was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadDestination {
    #[error("`{0}` is no destination: write /queue/NAME, /topic/NAME or /temp-queue/NAME")]
    Unknown(String),
    #[error("bad destination `{0}`: {1}")]
    Name(String, NameError),
}

/// Reads a destination. A temporary queue gets a name that holds the session's, so that the same
/// short name in two sessions means two queues.
pub(super) fn parse(text: &str, session: &str) -> Result<Destination, BadDestination> {
    let name = |name: &str| Name::new(name).map_err(|e| BadDestination::Name(text.to_owned(), e));
    if let Some(rest) = text.strip_prefix("/queue/") {
        return name(rest).map(Destination::Queue);
    }
    if let Some(rest) = text.strip_prefix("/topic/") {
        return name(rest).map(Destination::Topic);
    }
    if let Some(rest) = text.strip_prefix(TEMPORARY) {
        return name(&temporary(rest, session)).map(Destination::Queue);
    }
    Err(BadDestination::Unknown(text.to_owned()))
}

/// How temporary queues begin.
pub(super) const TEMPORARY: &str = "/temp-queue/";

/// How the queues behind them begin.
const TEMPORARY_QUEUES: &str = "temp.";

/// The name of the queue behind a temporary queue.
pub(super) fn temporary(name: &str, session: &str) -> String {
    format!("{TEMPORARY_QUEUES}{session}.{name}")
}

/// Whether a destination is the queue behind a temporary queue, as others see it.
pub(super) fn names_temporary(text: &str) -> bool {
    text.strip_prefix("/queue/")
        .is_some_and(|name| name.starts_with(TEMPORARY_QUEUES))
}

/// Whether a queue belongs to another session: anyone may send there, and nobody else may read.
pub(super) fn is_foreign_temporary(destination: &Destination, session: &str) -> bool {
    let Destination::Queue(name) = destination else {
        return false;
    };
    name.as_str()
        .strip_prefix(TEMPORARY_QUEUES)
        .is_some_and(|rest| {
            rest.split_once('.')
                .is_some_and(|(owner, _)| owner != session)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read() {
        let queue = |name: &str| Destination::Queue(Name::new(name).unwrap());
        assert_eq!(parse("/queue/a/b", "s1"), Ok(queue("a/b")));
        assert_eq!(parse("/temp-queue/a", "s1"), Ok(queue("temp.s1.a")));
        assert!(matches!(parse("/topic/x", "s1"), Ok(Destination::Topic(_))));
        assert!(matches!(parse("x", "s1"), Err(BadDestination::Unknown(_))));
        assert!(matches!(
            parse("/queue/", "s1"),
            Err(BadDestination::Name(..))
        ));
    }

    #[test]
    fn temporary_queues_are_read_by_their_owner_alone() {
        let own = parse("/temp-queue/a", "s1").unwrap();
        assert!(!is_foreign_temporary(&own, "s1"));
        assert!(is_foreign_temporary(&own, "s2"));
    }
}
