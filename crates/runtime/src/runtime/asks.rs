//! Sending and asking from outside a worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bus::QueueSettings;
use kernel::worker::{Incoming, Kind, ReplyTo};
use kernel::{Address, Destination, Message, Name};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Shared;
use crate::error::{AskError, SendError};
use crate::outgoing::{LocalTarget, Route};
use crate::stage::{NoRoom, Stage};
use crate::waiting::{Answers, WAITING, Waiter};

const LOOK: Duration = Duration::from_secs(1);
/// How long the queue for answers is read although nobody waits for one.
const IDLE_MAX: Duration = Duration::from_secs(10);
const CALL: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);
const CREDIT: u32 = 1_024;

/// Those who wait for answers that come over the bus.
#[derive(Clone, Default)]
pub(crate) struct Replies(Arc<Mutex<Asked>>);

#[derive(Default)]
struct Asked {
    waiting: HashMap<u64, oneshot::Sender<Message>>,
    /// Whether the queue for answers is read. It is while somebody waits, and a while longer.
    is_listening: bool,
}

/// Takes the waiter out again if the asker goes away.
struct Waiting {
    replies: Replies,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.replies.0.lock().waiting.remove(&self.number);
    }
}

impl Replies {
    fn answer(&self, message: Message) {
        let id = message.headers.get(Message::CORRELATION_ID);
        let number = id.and_then(|id| id.parse().ok());
        let waiter = number.and_then(|number: u64| self.0.lock().waiting.remove(&number));
        // One that nobody waits for any more came too late.
        if let Some(waiter) = waiter {
            let _ = waiter.send(message);
        }
    }

    /// Ends listening, unless somebody waits.
    fn stop_if_idle(&self) -> bool {
        let mut asked = self.0.lock();
        asked.is_listening = !asked.waiting.is_empty();
        !asked.is_listening
    }
}

impl Shared {
    pub async fn send(&self, to: &Address, message: Message) -> Result<(), SendError> {
        match self.route(to, &message) {
            Route::Bus(destination) => self.publish(to, &destination, message).await,
            Route::Gone => Ok(()),
            Route::Local(LocalTarget::Answer(answer)) => {
                answer.answer(message);
                Ok(())
            }
            Route::Local(LocalTarget::Stage(stage)) => {
                let sent = stage.dispatch(Incoming::new(message)).await;
                sent.map_err(|NoRoom { reason, .. }| SendError::NoRoom(reason))
            }
            Route::Local(LocalTarget::Cell(cell)) => {
                let sent = cell.stage.dispatch_to(&cell, Incoming::new(message)).await;
                sent.map_err(|NoRoom { reason, .. }| SendError::NoRoom(reason))
            }
        }
    }

    async fn publish(
        &self,
        to: &Address,
        destination: &Destination,
        message: Message,
    ) -> Result<(), SendError> {
        let timeout = Duration::from_millis(self.settings.send_timeout_ms);
        let mut batch = vec![message];
        match self.bus.publish(destination, &mut batch, timeout).await {
            Ok(_) => Ok(()),
            Err(error) => Err(SendError::Bus {
                to: to.clone(),
                error,
            }),
        }
    }

    pub async fn ask(
        self: &Arc<Self>,
        to: &Address,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, AskError> {
        match self.route(to, &message) {
            Route::Bus(destination) => self.ask_bus(to, destination, message, timeout).await,
            route => self.ask_local(to, route, message, timeout).await,
        }
    }

    /// Asks somebody in this process: the answer comes straight back.
    async fn ask_local(
        &self,
        to: &Address,
        route: Route,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, AskError> {
        match route {
            Route::Local(LocalTarget::Stage(stage)) => {
                self.ask_stage(&stage, message, timeout).await
            }
            Route::Local(LocalTarget::Cell(cell)) => {
                let (waiter, incoming) = self.question(message);
                let sent = cell.stage.dispatch_to(&cell, incoming).await;
                sent.map_err(|NoRoom { reason, .. }| SendError::NoRoom(reason))?;
                let answer = wait(&waiter, &cell.stage.answers, timeout).await;
                answer.ok_or_else(|| AskError::TimedOut {
                    to: to.clone(),
                    waited: timeout,
                })
            }
            Route::Local(LocalTarget::Answer(_)) | Route::Gone | Route::Bus(_) => {
                Err(AskError::NoAnswer { to: to.clone() })
            }
        }
    }

    /// Asks a stage whose messages are in memory.
    pub async fn ask_stage(
        &self,
        stage: &Stage,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, AskError> {
        let (waiter, incoming) = self.question(message);
        let sent = stage.dispatch_ask(incoming).await;
        sent.map_err(|NoRoom { reason, .. }| SendError::NoRoom(reason))?;
        let answer = wait(&waiter, &stage.answers, timeout).await;
        answer.ok_or_else(|| AskError::TimedOut {
            to: stage.address.clone().into(),
            waited: timeout,
        })
    }

    /// A message, and the one who waits for its answer.
    fn question(&self, message: Message) -> (Arc<Waiter>, Incoming) {
        let waiter = Waiter::new(&self.waiters, self.process);
        let incoming = Incoming {
            message,
            value: None,
            kind: Kind::Message,
            reply_to: ReplyTo::Waiting(waiter.clone()),
            tries: 0,
        };
        (waiter, incoming)
    }

    /// Asks over the bus: the answer comes to a queue of this process.
    async fn ask_bus(
        self: &Arc<Self>,
        to: &Address,
        destination: Destination,
        message: Message,
        timeout: Duration,
    ) -> Result<Message, AskError> {
        let number = self.next_ticket();
        let (sender, answer) = oneshot::channel();
        let queue = self.listen_for_reply(number, sender);
        let _waiting = Waiting {
            replies: self.replies.clone(),
            number,
        };
        let (reply_to, id) = (format!("queue:{queue}"), number.to_string());
        let headers = message.headers.with([
            (Message::REPLY_TO, reply_to.as_str()),
            (Message::CORRELATION_ID, id.as_str()),
        ]);
        let headers = headers.map_err(|error| SendError::Bus {
            to: to.clone(),
            error: bus::BusError::Refused {
                reason: error.to_string(),
            },
        })?;
        let asked = async {
            self.publish(to, &destination, Message { headers, ..message })
                .await?;
            answer
                .await
                .map_err(|_| AskError::NoAnswer { to: to.clone() })
        };
        match tokio::time::timeout(timeout, asked).await {
            Ok(outcome) => outcome,
            Err(_) => Err(AskError::TimedOut {
                to: to.clone(),
                waited: timeout,
            }),
        }
    }

    /// Remembers who waits; gives the queue where answers come, which is read from now on.
    fn listen_for_reply(&self, number: u64, waiter: oneshot::Sender<Message>) -> Name {
        let queue = Name::new(&format!("{WAITING}{}", self.process)).expect("it is a name");
        let mut asked = self.replies.0.lock();
        asked.waiting.insert(number, waiter);
        if !std::mem::replace(&mut asked.is_listening, true) {
            let (queue, bus, replies) = (queue.clone(), self.bus.clone(), self.replies.clone());
            self.tokio.spawn(async move {
                while let Err(error) = hand_out(&*bus, &queue, &replies).await {
                    tracing::warn!(%error, "answers cannot be read; trying again");
                    tokio::time::sleep(PAUSE).await;
                    if replies.stop_if_idle() {
                        break;
                    }
                }
            });
        }
        queue
    }
}

/// Waits for an answer. The waiter is kept until then: whoever has only its address may answer.
async fn wait(waiter: &Waiter, answers: &Answers, timeout: Duration) -> Option<Message> {
    if let Some(answer) = waiter.take() {
        return Some(answer);
    }
    if answers.look_for(|| waiter.is_answered()) {
        return waiter.take();
    }
    tokio::time::timeout(timeout, waiter.answered()).await.ok()
}

/// Hands answers to those who wait for them, until nobody has for a while.
async fn hand_out(
    bus: &dyn bus::Bus,
    queue: &Name,
    replies: &Replies,
) -> Result<(), bus::BusError> {
    let settings = QueueSettings {
        durable: false,
        ..QueueSettings::default()
    };
    bus.declare(queue, &settings, CALL).await?;
    let from = Destination::Queue(queue.clone());
    let subscription = bus.subscribe(&from, CREDIT, CALL).await?;
    let mut last_answer = Instant::now();
    loop {
        let answers = subscription.next_batch(CREDIT as usize, LOOK).await?;
        if answers.is_empty() {
            if last_answer.elapsed() >= IDLE_MAX && replies.stop_if_idle() {
                return Ok(());
            }
            continue;
        }
        last_answer = Instant::now();
        let receipts: Vec<_> = answers.iter().map(|answer| answer.receipt).collect();
        for answer in answers {
            replies.answer(answer.message);
        }
        subscription.acknowledge(&receipts, CALL).await?;
    }
}
