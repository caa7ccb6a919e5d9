//! Nexmark's query 2: the prices of bids on a few auctions.

use std::mem::size_of;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, Incoming, Turn, Value, Worker};
use serde::Serialize;

use super::end::End;
use crate::streams::checksum::{Summed, mix};
use crate::streams::events::{Event, json};

/// Every auction whose number this divides is looked at.
const DIVISOR: u64 = 123;

/// A bid on one of the auctions.
#[derive(Debug, Serialize)]
pub struct Selected {
    /// The auction.
    pub auction: u64,
    /// What was bid.
    pub price: u64,
}

impl Summed for Selected {
    fn sum(&self) -> u64 {
        mix(&[self.auction, self.price])
    }
}

impl Value for Selected {
    fn encode(&self) -> Bytes {
        json(self)
    }

    fn len_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

pub struct Select;

/// The bid, if it is one on such an auction.
pub fn select(event: &Event) -> Option<Selected> {
    match event {
        Event::Bid(bid) if bid.auction.is_multiple_of(DIVISOR) => Some(Selected {
            auction: bid.auction,
            price: bid.price,
        }),
        _ => None,
    }
}

#[async_trait]
impl Worker for Select {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            match message.value::<Event>() {
                Some(event) => {
                    if let Some(selected) = select(event) {
                        turn.emit_value("out", Arc::new(selected))?;
                    }
                }
                None => turn.emit_value("out", Arc::new(End))?,
            }
        }
        Ok(())
    }
}
