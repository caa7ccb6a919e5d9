//! Sending and asking from outside a worker.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bus::QueueSettings;
use kernel::worker::{Incoming, Kind, ReplyTo};
use kernel::{Address, Destination, Message, Name};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, oneshot};

use super::Shared;
use crate::error::{AskError, SendError};
use crate::outgoing::{LocalTarget, Route};
use crate::stage::{NoRoom, Stage};
use crate::waiting::{Answers, WAITING, Waiter};

const LOOK: Duration = Duration::from_secs(5);
const CALL: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);
const CREDIT: u32 = 1_024;

/// Those who wait for answers that come over the bus.
#[derive(Default)]
pub(crate) struct Replies {
    waiting: Arc<Mutex<HashMap<u64, oneshot::Sender<Message>>>>,
    /// Set once the queue for the answers is read.
    listening: OnceCell<()>,
}

/// Takes the waiter out again if the asker goes away.
struct Waiting {
    replies: Arc<Mutex<HashMap<u64, oneshot::Sender<Message>>>>,
    number: u64,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.replies.lock().remove(&self.number);
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
        let queue = self.listen_for_replies().await;
        let number = self.next_ticket();
        let (sender, answer) = oneshot::channel();
        self.replies.waiting.lock().insert(number, sender);
        let _waiting = Waiting {
            replies: self.replies.waiting.clone(),
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

    /// The queue where answers come, which is read from the first ask on.
    async fn listen_for_replies(self: &Arc<Self>) -> Name {
        let queue = Name::new(&format!("{WAITING}{}", self.process)).expect("it is a name");
        let listen = || async {
            let shared = Arc::downgrade(self);
            let (queue, bus) = (queue.clone(), self.bus.clone());
            let waiting = self.replies.waiting.clone();
            self.tokio.spawn(async move {
                while shared.strong_count() > 0 {
                    if let Err(error) = hand_out(&*bus, &queue, &waiting).await {
                        tracing::warn!(%error, "answers cannot be read; trying again");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        };
        self.replies.listening.get_or_init(listen).await;
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

/// Hands answers to those who wait for them. One that nobody waits for any more came too late.
async fn hand_out(
    bus: &dyn bus::Bus,
    queue: &Name,
    waiting: &Mutex<HashMap<u64, oneshot::Sender<Message>>>,
) -> Result<(), bus::BusError> {
    let settings = QueueSettings {
        durable: false,
        ..QueueSettings::default()
    };
    bus.declare(queue, &settings, CALL).await?;
    let from = Destination::Queue(queue.clone());
    let subscription = bus.subscribe(&from, CREDIT, CALL).await?;
    loop {
        let answers = subscription.next_batch(CREDIT as usize, LOOK).await?;
        let receipts: Vec<_> = answers.iter().map(|answer| answer.receipt).collect();
        for answer in answers {
            let id = answer.message.headers.get(Message::CORRELATION_ID);
            let number = id.and_then(|id| id.parse().ok());
            let waiter = number.and_then(|number: u64| waiting.lock().remove(&number));
            if let Some(waiter) = waiter {
                let _ = waiter.send(answer.message);
            }
        }
        subscription.acknowledge(&receipts, CALL).await?;
    }
}
