//! What becomes of a message that cannot be delivered or handled.

use kernel::{Destination, Headers, Message, Name};

/// How much of a reason a dead letter keeps.
const REASON_BYTES_MAX: usize = 1_024;

/// The queue of dead letters, unless this is where they come from: there messages end.
pub(crate) fn dead_letters(from: &Destination) -> Option<Name> {
    let name = Name::new(crate::DEAD_LETTERS).ok()?;
    let is_there = matches!(from, Destination::Queue(queue) if *queue == name);
    (!is_there).then_some(name)
}

/// The message as it goes to the dead letters: with where it was, why it failed, how often it was
/// tried and when it was given up.
pub(crate) fn dead_letter(
    from: &Destination,
    message: &Message,
    reason: &str,
    tries: u32,
) -> Message {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let at = now.unwrap_or_default().as_millis().to_string();
    let tries = tries.to_string();
    let origin = match from {
        Destination::Queue(name) => (Message::DEAD_QUEUE, name.as_str()),
        Destination::Topic(name) => (Message::DEAD_TOPIC, name.as_str()),
    };
    let pairs = [
        origin,
        (Message::DEAD_REASON, shortened(reason)),
        (Message::DEAD_TRIES, tries.as_str()),
        (Message::DEAD_AT, at.as_str()),
    ];
    // Where the sender's headers leave no room, where it came from and why matters more.
    let headers = message.headers.with(pairs);
    let headers = headers.or_else(|_| Headers::from_pairs(pairs));
    message.clone().with_headers(headers.unwrap_or_default())
}

fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}
