//! Where messages go: to the bus, or straight to a worker in this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bus::DEAD_LETTERS;
use kernel::worker::{Answer, Incoming, ReplyTo};
use kernel::{Address, Destination, Message, Name};

use crate::cell::Cell;
use crate::messages::Messages;
use crate::outputs::{EdgeCount, Sampler, Taken};
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

/// Messages that stay within this process, as many as possible of them together, and what is counted once they have arrived.
#[derive(Default)]
pub(crate) struct Locals {
    messages: Vec<Local>,
    /// Most turns send over one edge.
    first_count: Option<(Arc<EdgeCount>, u64)>,
    counts: Vec<(Arc<EdgeCount>, u64)>,
    samples: Vec<(Arc<Sampler>, Taken)>,
}

/// How messages come to a stage, and so how long they wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By address: for the time that a send may take.
    Sent,
    /// Over an edge of the flow: as long as the stage works.
    Edge,
    /// Over an edge within a cycle of stages: not for room in mailboxes, because whoever could make it may wait
    /// for them. Only the budget of the cycle limits them.
    Inside,
}

/// Messages for one receiver.
struct Local {
    to: LocalTarget,
    way: Way,
    messages: Messages,
}

/// How often is looked whether a stage has been built anew.
const FOLLOWER_EVERY: Duration = Duration::from_millis(5);

impl Shared {
    /// The stage that has taken the place of one that was stopped for it, as soon as it is there.
    async fn follower(&self, stage: &Arc<Stage>) -> Option<Arc<Stage>> {
        let patience = Duration::from_millis(self.settings.send_timeout_ms);
        let end = tokio::time::Instant::now() + patience;
        loop {
            let now = self.stage(&stage.address)?;
            if !Arc::ptr_eq(&now, stage) {
                return Some(now);
            }
            if tokio::time::Instant::now() > end {
                return None;
            }
            tokio::time::sleep(FOLLOWER_EVERY).await;
        }
    }

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

impl Locals {
    /// Adds a message for whoever in this process.
    pub fn push(&mut self, to: LocalTarget, incoming: Incoming) {
        match to {
            LocalTarget::Stage(stage) => self.batch(&stage, Way::Sent).push(incoming),
            to => {
                let mut messages = Messages::default();
                messages.push(incoming);
                self.messages.push(Local {
                    to,
                    way: Way::Sent,
                    messages,
                });
            }
        }
    }

    /// The messages for this stage that come the same way, to which others can be added. None of them is overtaken by
    /// those that come another way or go to one of its workers by name.
    pub fn batch(&mut self, stage: &Arc<Stage>, way: Way) -> &mut Messages {
        let related = |local: &Local| match &local.to {
            LocalTarget::Stage(known) => Arc::ptr_eq(known, stage),
            LocalTarget::Cell(cell) => Arc::ptr_eq(&cell.stage, stage),
            LocalTarget::Answer(_) => false,
        };
        let last = self.messages.iter().rposition(related);
        let fits = |at: &usize| {
            let local = &self.messages[*at];
            local.way == way && matches!(local.to, LocalTarget::Stage(_))
        };
        let at = last.filter(fits).unwrap_or_else(|| {
            self.messages.push(Local {
                to: LocalTarget::Stage(stage.clone()),
                way,
                messages: Messages::recycled(),
            });
            self.messages.len() - 1
        });
        &mut self.messages[at].messages
    }

    /// So many messages go over an edge.
    pub fn count(&mut self, edge: &Arc<EdgeCount>, sent: u64) {
        let count = (edge.clone(), sent);
        match self.first_count {
            None => self.first_count = Some(count),
            Some(_) => self.counts.push(count),
        }
    }

    /// Somebody wants to see some of them.
    pub fn sample(&mut self, sampler: &Arc<Sampler>, taken: Taken) {
        if !taken.is_empty() {
            self.samples.push((sampler.clone(), taken));
        }
    }

    /// Hands all of them over, waiting for room.
    pub async fn deliver(self, shared: &Shared) {
        for local in self.messages {
            local.deliver(shared).await;
        }
        for (edge, sent) in self.first_count.into_iter().chain(self.counts) {
            edge.add(sent);
        }
        for (sampler, taken) in self.samples {
            sampler.add(taken, Instant::now(), shared.clock.now());
        }
    }
}

impl Local {
    async fn deliver(mut self, shared: &Shared) {
        let (queue, refused) = match self.to {
            LocalTarget::Answer(answer) => {
                while let Some(mut incoming) = self.messages.pop() {
                    incoming.encode_value();
                    answer.answer(incoming.message);
                }
                return;
            }
            LocalTarget::Stage(stage) => {
                let to = stage.clone();
                let refused = deliver_to_stage(shared, to, &mut self.messages, self.way).await;
                self.messages.recycle();
                if refused.is_empty() {
                    return;
                }
                stage.book.turned_down(refused.len() as u64);
                (stage.address.queue(), refused)
            }
            LocalTarget::Cell(cell) => {
                let mut refused = Vec::new();
                while let Some(incoming) = self.messages.pop() {
                    refused.extend(cell.stage.dispatch_to(&cell, incoming).await.err());
                }
                if cell.stage.counts(&cell) {
                    cell.stage.book.turned_down(refused.len() as u64);
                }
                (cell.address().queue(), refused)
            }
        };
        for NoRoom {
            mut incoming,
            reason,
        } in refused
        {
            incoming.encode_value();
            shared
                .bury(&queue, incoming.message, &reason, incoming.tries)
                .await;
        }
    }
}

/// Hands messages to a stage or, if that is being built anew, to the one that takes its place. Gives those for which there is
/// no place.
async fn deliver_to_stage(
    shared: &Shared,
    mut stage: Arc<Stage>,
    messages: &mut Messages,
    way: Way,
) -> Vec<NoRoom> {
    loop {
        let refused = stage.dispatch_batch(messages, way).await;
        if refused.is_empty() || !stage.is_followed.load(Ordering::Relaxed) {
            return refused;
        }
        let Some(next) = shared.follower(&stage).await else {
            return refused;
        };
        refused
            .into_iter()
            .for_each(|one| messages.push(one.incoming));
        stage = next;
    }
}

/// The one who waits, if the answer goes to somebody in this process.
pub(crate) fn answer_of(reply_to: &ReplyTo) -> Option<Arc<dyn Answer>> {
    match reply_to {
        ReplyTo::Waiting(answer) => Some(answer.clone()),
        ReplyTo::Headers => None,
    }
}
