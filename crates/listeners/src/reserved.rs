//! Names that belong to Hivewire itself: only nodes may send there.

use broker::DEAD_LETTERS;
use kernel::Destination;

/// How these names begin.
const RESERVED: &str = "hivewire.";

/// Queues among them that anyone may send to: those in which a node waits for answers, and those
/// that `hivewire bench` fills.
const OPEN_QUEUES: [&str; 2] = ["hivewire.waiting.", "hivewire.bench."];

/// Whether only nodes may send there.
pub(crate) fn is_for_nodes(destination: &Destination) -> bool {
    let name = destination.name().as_str();
    if !name.starts_with(RESERVED) {
        return false;
    }
    match destination {
        Destination::Queue(_) => {
            let is_open = OPEN_QUEUES.iter().any(|start| name.starts_with(start));
            name != DEAD_LETTERS && !is_open
        }
        Destination::Topic(_) => true,
    }
}

/// What only nodes may listen to: their logs, their numbers, what they ask each other, and the answers.
const HIDDEN_TOPICS: [&str; 2] = ["hivewire.logs", "hivewire.live"];
const HIDDEN_QUEUES: [&str; 2] = ["hivewire.command.", "hivewire.answer."];

/// Whether only nodes may subscribe there.
pub(crate) fn is_hidden(destination: &Destination) -> bool {
    let name = destination.name().as_str();
    match destination {
        Destination::Queue(_) => HIDDEN_QUEUES.iter().any(|start| name.starts_with(start)),
        Destination::Topic(_) => HIDDEN_TOPICS.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::Name;

    #[test]
    fn a_few_of_our_own_queues_are_open_to_anyone() {
        let queue = |name| is_for_nodes(&Destination::Queue(Name::new(name).unwrap()));
        let topic = |name| is_for_nodes(&Destination::Topic(Name::new(name).unwrap()));
        assert!(queue("hivewire.nodes") && topic("hivewire.nodes"));
        assert!(!queue("hivewire") && !queue("hivewired.x") && !topic("x.hivewire.y"));
        assert!(!queue("hivewire.dead") && topic("hivewire.dead"));
        assert!(queue("hivewire.deadly"));
        assert!(!queue("hivewire.waiting.7") && !queue("hivewire.bench.12"));
        assert!(queue("hivewire.waiting"));
    }

    #[test]
    fn what_nodes_tell_each_other_is_for_nodes_to_hear() {
        let queue = |name| is_hidden(&Destination::Queue(Name::new(name).unwrap()));
        let topic = |name| is_hidden(&Destination::Topic(Name::new(name).unwrap()));
        assert!(
            queue("hivewire.command.a")
                && queue("hivewire.answer.a")
                && topic("hivewire.logs")
                && topic("hivewire.live")
        );
        assert!(!queue("hivewire.dead") && !queue("orders") && !topic("hivewire.nodes"));
    }
}
