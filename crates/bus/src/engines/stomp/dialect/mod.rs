//! What the servers do differently. One server is one file, and one line in the table of all.

mod activemq;
mod hivewire;
mod rabbitmq;

use std::fmt;
use std::time::Duration;

use kernel::Destination;
use wire::stomp::additions::SENDERS_MESSAGE_ID;

use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::contract::QueueSettings;
use crate::error::BusError;

/// Every dialect there is.
const ALL: &[&dyn Dialect] = &[
    &hivewire::Hivewire,
    &rabbitmq::RabbitMq,
    &activemq::ActiveMq,
];

/// Why no engine of this kind has state.
const NEEDS_STORE: Given = Given::No("state and epochs need the shared store");

/// Headers of a frame.
pub(super) type Headers = Vec<(&'static str, &'static str)>;

/// How publishes are confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirm {
    /// The receipt of the last one speaks for all before it: the server stops at the first that it
    /// refuses.
    Last,
    /// Each has a receipt of its own.
    Each,
    /// They are one transaction, and its end has a receipt.
    Transaction,
}

/// What the server's complaint means for what was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It may pass when asked again.
    Again,
    /// There is no room for now.
    Full,
    /// It will be refused again.
    Refused,
}

/// A server's way of speaking STOMP.
pub(super) trait Dialect: fmt::Debug + Send + Sync {
    /// How an address names it.
    fn name(&self) -> &'static str;

    /// How the `server` header of CONNECTED begins, in small letters.
    fn server(&self) -> &'static str;

    /// What the engine promises over this server.
    fn capabilities(&self) -> Capabilities;

    /// The destination as the server wants it, if there can be one of that name.
    fn destination(&self, destination: &Destination) -> Result<String, BusError>;

    /// The headers of a SEND that make the message, and its queue, what they should be.
    fn send_headers(&self, to: &Destination, queue: &QueueSettings) -> Headers;

    /// The same, for a destination that a SEND of the same connection went to before.
    fn later_send_headers(&self, to: &Destination, queue: &QueueSettings) -> Headers {
        self.send_headers(to, queue)
    }

    /// The headers of a SUBSCRIBE that make the queue what it should be.
    fn queue_headers(&self, from: &Destination, queue: &QueueSettings) -> Headers;

    /// The header of a SUBSCRIBE that bounds how many messages are unacknowledged.
    fn credit_header(&self) -> &'static str;

    /// The header for the id that a commit gave to what it sends. It is on every message between
    /// stages.
    fn commit_id_header(&self) -> &'static str {
        SENDERS_MESSAGE_ID
    }

    /// How that many messages for one destination are confirmed.
    fn confirm(&self, messages: usize) -> Confirm;

    /// What a confirmation is worth, given what the receipt said and how long this connection has
    /// used the queue.
    fn level(&self, told: Option<AckLevel>, durable: bool, used_for: Duration) -> AckLevel;

    /// How long acknowledgements are under way within the server after it has read them; those that
    /// still are when the connection ends are lost.
    fn acknowledges_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether a queue can be made without sending anything to it.
    fn declares(&self) -> bool {
        false
    }

    /// Whether the server is of our own making: it keeps headers as they are, counts tries, keeps
    /// dead letters, and knows our additions to ACK and NACK (`through`, `reason`, `dead`,
    /// `unseen`).
    fn is_ours(&self) -> bool {
        false
    }

    /// What a complaint of the server means.
    fn judge(&self, complaint: &str) -> Judgement;
}

/// The dialect that an address names.
pub(super) fn named(name: &str) -> Option<&'static dyn Dialect> {
    ALL.iter().copied().find(|dialect| dialect.name() == name)
}

/// The dialect of the server that calls itself so.
pub(super) fn of_server(server: &str) -> Option<&'static dyn Dialect> {
    let server = server.to_ascii_lowercase();
    let mut all = ALL.iter().copied();
    all.find(|dialect| server.starts_with(dialect.server()))
}

/// The names of all dialects, for people.
pub(super) fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|dialect| dialect.name()).collect();
    names.join(", ")
}

/// What is promised before any server was reached: nothing.
pub(super) fn unknown() -> Capabilities {
    let unknown = Given::No("the server was not reached yet, so it is not known what it gives");
    Capabilities {
        engine: "stomp",
        durable_level: AckLevel::Memory,
        commit: NEEDS_STORE,
        order_after_retry: unknown,
        counts_lost_subscribers: unknown,
        in_turn: unknown,
        reconnects: Given::Yes,
    }
}

/// Whether a complaint holds one of these words, which stand in small letters.
fn says(complaint: &str, words: &[&str]) -> bool {
    let complaint = complaint.to_ascii_lowercase();
    words.iter().any(|word| complaint.contains(word))
}

/// Refuses a name that means something else to the server.
fn not_a_name(destination: &Destination, server: &str, without: &str) -> BusError {
    BusError::Refused {
        reason: format!("{server} cannot have the {destination}: choose a name without {without}"),
    }
}

#[cfg(test)]
mod tests {
    use kernel::Name;

    use super::*;

    #[test]
    fn servers_are_recognised_by_what_they_call_themselves() {
        for (server, name) in [
            ("hivewire/0.1.0", "hivewire"),
            ("RabbitMQ/3.10.8", "rabbitmq"),
            ("ActiveMQ/5.17.2", "activemq"),
        ] {
            assert_eq!(of_server(server).map(|d| d.name()), Some(name));
            assert_eq!(named(name).map(|d| d.name()), Some(name));
        }
        assert!(of_server("apache-artemis/2.0").is_none());
        assert!(named("artemis").is_none());
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        let queue = |name: &str| Destination::Queue(Name::new(name).unwrap());
        let topic = |name: &str| Destination::Topic(Name::new(name).unwrap());
        let rabbitmq = named("rabbitmq").unwrap();
        assert_eq!(
            rabbitmq.destination(&queue("flow/stage")).unwrap(),
            "/queue/flow%2Fstage"
        );
        assert!(rabbitmq.destination(&queue("a%2Fb")).is_err());
        assert!(rabbitmq.destination(&topic("a.*")).is_err());
        let activemq = named("activemq").unwrap();
        assert_eq!(
            activemq.destination(&queue("flow/stage")).unwrap(),
            "/queue/flow/stage"
        );
        for wrong in ["a,b", "a?b", "a.>", "*.b"] {
            assert!(activemq.destination(&queue(wrong)).is_err(), "{wrong}");
        }
        let hivewire = named("hivewire").unwrap();
        assert_eq!(hivewire.destination(&topic("a.*")).unwrap(), "/topic/a.*");
    }
}
