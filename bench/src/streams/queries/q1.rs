//! Nexmark's query 1: every bid with its price in another currency.

use std::sync::Arc;

use async_trait::async_trait;
use kernel::worker::{Failure, Incoming, Turn, Worker};

use super::end::End;
use crate::streams::events::{Bid, Event};

/// What a hundred cents become.
const CONVERTED: u64 = 89;

pub struct Convert;

/// The bid with its new price, if it is a bid.
pub fn convert(event: &Event) -> Option<Bid> {
    match event {
        Event::Bid(bid) => Some(Bid {
            price: bid.price * CONVERTED / 100,
            ..bid.clone()
        }),
        Event::Person(_) | Event::Auction(_) => None,
    }
}

#[async_trait]
impl Worker for Convert {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.handle(std::slice::from_ref(message), turn).await
    }

    async fn handle(&mut self, messages: &[Incoming], turn: &mut Turn) -> Result<(), Failure> {
        for message in messages {
            match message.value::<Event>() {
                Some(event) => {
                    if let Some(bid) = convert(event) {
                        turn.emit_value("out", Arc::new(bid))?;
                    }
                }
                None => turn.emit_value("out", Arc::new(End))?,
            }
        }
        Ok(())
    }
}
