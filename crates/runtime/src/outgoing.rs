//! Where messages go: to the bus, or straight to a worker in this process.

use std::sync::Arc;
use std::time::Duration;

use bus::DEAD_LETTERS;
use kernel::worker::{Answer, Incoming, ReplyTo, Value};
use kernel::{Address, Destination, Message, Name};

use crate::cell::Cell;
use crate::runtime::Shared;
use crate::stage::{NoRoom, Stage};

/// Where a message goes.
pub(crate) enum Route {
    /// Over the bus.
    Bus(Destination),
    /// To whoever in this process.
    Local(LocalTarget),
    /// To somebody in this process who no longer waits.
    Gone,
}

/// Somebody in this process.
pub(crate) enum LocalTarget {
    Stage(Arc<Stage>),
    Cell(Arc<Cell>),
    Answer(Arc<dyn Answer>),
}

/// A message that stays within this process.
pub(crate) struct Local {
    pub to: LocalTarget,
    pub message: Message,
    pub value: Option<Arc<dyn Value>>,
}

impl Shared {
    /// Finds out where a message for this address goes.
    pub fn route(&self, to: &Address, message: &Message) -> Route {
        match to {
            Address::Stage(address) => match self.stage(address) {
                Some(stage) if stage.is_memory() => Route::Local(LocalTarget::Stage(stage)),
                Some(stage) => Route::Bus(Destination::Queue(stage.queue_for(message))),
                None => Route::Bus(to.destination()),
            },
            Address::Worker(address) => {
                let Some(stage) = self.stage(address.stage()) else {
                    return Route::Bus(to.destination());
                };
                match stage.cell_at(address) {
                    Some(cell) if stage.is_memory() => Route::Local(LocalTarget::Cell(cell)),
                    Some(cell) => {
                        stage.listen_for(&cell);
                        Route::Bus(to.destination())
                    }
                    None => Route::Bus(to.destination()),
                }
            }
            Address::Queue(name) => match self.waiters.find(self.process, name) {
                Some(Some(waiter)) => Route::Local(LocalTarget::Answer(waiter)),
                Some(None) => Route::Gone,
                None => Route::Bus(to.destination()),
            },
            Address::Topic(_) => Route::Bus(to.destination()),
        }
    }

    /// Whether a message for this address stays within this process.
    pub fn is_local(&self, to: &Address) -> bool {
        match to {
            Address::Stage(stage) => self.stage(stage).is_some_and(|stage| stage.is_memory()),
            _ => false,
        }
    }

    /// Puts a message that never was on the bus among the dead letters.
    pub async fn bury(&self, queue: &Name, message: Message, reason: &str, tries: u32) {
        let now = self.clock.now();
        let (tries, at) = (tries.to_string(), now.as_millis().to_string());
        let headers = message.headers.with([
            (Message::DEAD_QUEUE, queue.as_str()),
            (Message::DEAD_REASON, reason),
            (Message::DEAD_TRIES, tries.as_str()),
            (Message::DEAD_AT, at.as_str()),
        ]);
        let letter = match headers {
            Ok(headers) => Message { headers, ..message },
            // The reason is worth more than headers that leave no room for it.
            Err(_) => Message {
                headers: kernel::Headers::from_pairs([(Message::DEAD_QUEUE, queue.as_str())])
                    .unwrap_or_default(),
                ..message
            },
        };
        let dead = Destination::Queue(Name::new(DEAD_LETTERS).expect("it is a name"));
        let timeout = Duration::from_millis(self.settings.commit_timeout_ms);
        if let Err(error) = self.bus.publish(&dead, &mut vec![letter], timeout).await {
            tracing::error!(%queue, %error, reason, "a message is lost: it could not be put among the dead letters");
        }
    }
}

impl Local {
    /// Hands the message over, waiting for room as long as a send may wait.
    pub async fn deliver(self, shared: &Shared) {
        let mut incoming = Incoming {
            value: self.value,
            ..Incoming::new(self.message)
        };
        let refused = match self.to {
            LocalTarget::Answer(answer) => {
                incoming.encode_value();
                answer.answer(incoming.message);
                return;
            }
            LocalTarget::Stage(stage) => {
                let refused = stage.dispatch(incoming).await.err();
                refused.map(|refused| (stage.address.queue(), refused))
            }
            LocalTarget::Cell(cell) => {
                let refused = cell.stage.dispatch_to(&cell, incoming).await.err();
                refused.map(|refused| (cell.address().queue(), refused))
            }
        };
        if let Some((
            queue,
            NoRoom {
                mut incoming,
                reason,
            },
        )) = refused
        {
            incoming.encode_value();
            shared
                .bury(&queue, incoming.message, &reason, incoming.tries)
                .await;
        }
    }
}

/// The one who waits, if the answer goes to somebody in this process.
pub(crate) fn answer_of(reply_to: &ReplyTo) -> Option<Arc<dyn Answer>> {
    match reply_to {
        ReplyTo::Waiting(answer) => Some(answer.clone()),
        ReplyTo::Headers => None,
    }
}
