//! A Hivewire broker: it counts tries, keeps dead letters, and says what a receipt is worth.

use std::time::Duration;

use kernel::Destination;
use wire::stomp::additions::IN_TURN;

use super::{Confirm, Dialect, Headers, Judgement, NEEDS_STORE, says};
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::contract::QueueSettings;
use crate::error::BusError;

#[derive(Debug)]
pub(super) struct Hivewire;

impl Dialect for Hivewire {
    fn name(&self) -> &'static str {
        "hivewire"
    }

    fn server(&self) -> &'static str {
        "hivewire"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "stomp, hivewire",
            durable_level: AckLevel::Synced,
            commit: NEEDS_STORE,
            order_after_retry: Given::Yes,
            counts_lost_subscribers: Given::Yes,
            in_turn: Given::Yes,
            reconnects: Given::Yes,
        }
    }

    fn destination(&self, destination: &Destination) -> Result<String, BusError> {
        Ok(match destination {
            Destination::Queue(name) => format!("/queue/{name}"),
            Destination::Topic(name) => format!("/topic/{name}"),
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
            true => vec![(IN_TURN, "true")],
            false => vec![],
        }
    }

    fn credit_header(&self) -> &'static str {
        "prefetch-count"
    }

    /// Messages are taken in order, and the first that is refused ends the connection.
    fn confirm(&self, _messages: usize) -> Confirm {
        Confirm::Last
    }

    fn level(&self, told: Option<AckLevel>, _durable: bool, _used_for: Duration) -> AckLevel {
        told.unwrap_or(AckLevel::Memory)
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn judge(&self, complaint: &str) -> Judgement {
        let full = ["is full", "disk is full", "no space"];
        let refused = [
            "malformed frame",
            "headers too large",
            "bad destination",
            "is no destination",
            "access refused",
            "no such queue",
            "queues or topics already",
            "too many subscriptions",
            "too large",
            "longer than",
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
