//! ActiveMQ 5 ("Classic").
//!
//! - Queues come into being by themselves; whether a message survives is said with the message.
//! - A SEND that fails without having asked for a receipt fails without a word. So several are sent
//!   as one transaction, which the server refuses as a whole if one of them failed, and which it
//!   writes to disk once.
//! - A NACK means "poison" to this server: it is never used.

use std::time::Duration;

use kernel::Destination;

use super::{Confirm, Dialect, Headers, Judgement, NEEDS_STORE, not_a_name, says};
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::contract::QueueSettings;
use crate::error::BusError;

#[derive(Debug)]
pub(super) struct ActiveMq;

impl Dialect for ActiveMq {
    fn name(&self) -> &'static str {
        "activemq"
    }

    fn server(&self) -> &'static str {
        "activemq"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "stomp, activemq",
            durable_level: AckLevel::Synced,
            commit: NEEDS_STORE,
            order_after_retry: Given::No("a retry joins the end of the queue"),
            counts_lost_subscribers: Given::No(
                "the server cannot tell what was handled from what was only prefetched",
            ),
            in_turn: Given::Yes,
            reconnects: Given::Yes,
        }
    }

    fn destination(&self, destination: &Destination) -> Result<String, BusError> {
        let name = destination.name().as_str();
        // A comma separates several destinations, a question mark starts options.
        let is_several = name.contains([',', '?']) || name.contains("://");
        let is_pattern = name.split('.').any(|word| word == "*" || word == ">");
        if is_several || is_pattern {
            let without = "commas, question marks, :// and the words * and >";
            return Err(not_a_name(destination, "ActiveMQ", without));
        }
        Ok(match destination {
            Destination::Queue(_) => format!("/queue/{name}"),
            Destination::Topic(_) => format!("/topic/{name}"),
        })
    }

    fn send_headers(&self, _to: &Destination, queue: &QueueSettings) -> Headers {
        match queue.durable {
            true => vec![("persistent", "true")],
            false => vec![],
        }
    }

    fn queue_headers(&self, _from: &Destination, queue: &QueueSettings) -> Headers {
        match queue.in_turn {
            true => vec![("activemq.exclusive", "true")],
            false => vec![],
        }
    }

    fn credit_header(&self) -> &'static str {
        "activemq.prefetchSize"
    }

    fn confirm(&self, messages: usize) -> Confirm {
        match messages {
            0 | 1 => Confirm::Last,
            _ => Confirm::Transaction,
        }
    }

    fn level(&self, _told: Option<AckLevel>, durable: bool, _used_for: Duration) -> AckLevel {
        match durable {
            true => AckLevel::Synced,
            false => AckLevel::Memory,
        }
    }

    fn judge(&self, complaint: &str) -> Judgement {
        let full = ["resourceallocationexception", "usage manager"];
        let refused = [
            "securityexception",
            "not authorized",
            "user name",
            "illegal destination",
            "invaliddestinationexception",
        ];
        if says(complaint, &full) {
            Judgement::Full
        } else if says(complaint, &refused) {
            Judgement::Refused
        } else {
            Judgement::Again
        }
    }
}
