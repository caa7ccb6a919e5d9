//! RabbitMQ's STOMP plug-in.
//!
//! - The headers of the first SEND or SUBSCRIBE to a queue on a connection make the queue: a quorum
//!   queue if durable, else a classic one that ends with the server. If it exists with other
//!   settings the server ends the connection, and the caller is refused.
//! - A receipt is the confirmation of its own message. One that the queue turned down gets none, so
//!   each message asks for one.
//! - A connection passes acknowledgements on to a quorum queue a few at a time (32 in RabbitMQ 3.10),
//!   and forgets the others when it ends. So one that wants to leave waits for a moment.
//! - The plug-in cannot tell that a queue was deleted while a connection uses it: what is sent
//!   there afterwards is confirmed and gone.

use std::time::Duration;

use kernel::Destination;

use super::{Confirm, Dialect, Headers, Judgement, NEEDS_STORE, not_a_name, says};
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::contract::QueueSettings;
use crate::error::BusError;

/// A quorum queue that is younger than this may be gone after a crash of the server, with all that
/// was confirmed. Whether one is older cannot be asked, so the time counts from its first use.
const SETTLING: Duration = Duration::from_secs(2);

/// What a server that has little else to do needs for a thousand acknowledgements, several times
/// over. If it needs longer, some messages come again.
const ACKNOWLEDGING: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct RabbitMq;

impl Dialect for RabbitMq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn server(&self) -> &'static str {
        "rabbitmq"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "stomp, rabbitmq",
            durable_level: AckLevel::Synced,
            commit: NEEDS_STORE,
            order_after_retry: Given::No("a retry joins the end of the queue"),
            counts_lost_subscribers: Given::No(
                "the server cannot tell what was handled from what was only prefetched",
            ),
            in_turn: Given::No("the STOMP plug-in knows no single active consumer: AMQP does"),
            reconnects: Given::Yes,
        }
    }

    fn acknowledges_within(&self) -> Duration {
        ACKNOWLEDGING
    }

    fn destination(&self, destination: &Destination) -> Result<String, BusError> {
        let name = destination.name().as_str();
        if name.contains("%2F") {
            return Err(not_a_name(destination, "RabbitMQ", "%2F"));
        }
        let written = name.replace('/', "%2F");
        match destination {
            Destination::Queue(_) => Ok(format!("/queue/{written}")),
            // These two would stand for any words when subscribing.
            Destination::Topic(_) if name.split('.').any(|word| word == "*" || word == "#") => {
                Err(not_a_name(destination, "RabbitMQ", "the words * and #"))
            }
            Destination::Topic(_) => Ok(format!("/topic/{written}")),
        }
    }

    fn send_headers(&self, to: &Destination, queue: &QueueSettings) -> Headers {
        let mut headers = self.queue_headers(to, queue);
        // This also stands for `durable` here, so it must not contradict it.
        headers.extend(self.later_send_headers(to, queue));
        headers
    }

    /// A connection looks at the headers that make a queue only once, but reads them each time.
    fn later_send_headers(&self, to: &Destination, queue: &QueueSettings) -> Headers {
        match queue.durable && matches!(to, Destination::Queue(_)) {
            true => vec![("persistent", "true")],
            false => vec![],
        }
    }

    fn queue_headers(&self, from: &Destination, queue: &QueueSettings) -> Headers {
        let mut headers = match from {
            Destination::Topic(_) => return vec![],
            Destination::Queue(_) if queue.durable => {
                vec![("durable", "true"), ("x-queue-type", "quorum")]
            }
            // A classic queue that goes with the server.
            Destination::Queue(_) => vec![("durable", "false")],
        };
        headers.extend([("auto-delete", "false"), ("exclusive", "false")]);
        headers
    }

    fn credit_header(&self) -> &'static str {
        "prefetch-count"
    }

    /// A property of AMQP: where no other header is, the server is spared a table for each message.
    fn commit_id_header(&self) -> &'static str {
        "amqp-message-id"
    }

    fn confirm(&self, _messages: usize) -> Confirm {
        Confirm::Each
    }

    fn level(&self, _told: Option<AckLevel>, durable: bool, used_for: Duration) -> AckLevel {
        match durable && used_for > SETTLING {
            true => AckLevel::Synced,
            false => AckLevel::Memory,
        }
    }

    /// A SEND in a transaction that is aborted makes the queue and sends nothing.
    fn declares(&self) -> bool {
        true
    }

    fn judge(&self, complaint: &str) -> Judgement {
        let refused = [
            "precondition_failed",
            "access_refused",
            "access refused",
            "not_allowed",
            "resource_locked",
            "invalid destination",
            "unknown destination",
            "bad connect",
        ];
        match says(complaint, &refused) {
            true => Judgement::Refused,
            false => Judgement::Again,
        }
    }
}
