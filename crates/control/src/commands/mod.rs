//! Commands to one node, with an answer: each node has a queue for commands and one for the answers to its
//! own. Only nodes may write to them or read them. Nothing of it is kept: whoever asked and got no answer
//! in time is told so, and asks again.

mod asked;
mod taken;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bus::{Bus, BusError, QueueSettings};
use kernel::{Destination, Message, Name};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::asked::{ANSWER_BYTES_MAX, Asked, Piece, cut};
use self::taken::{Command, Taken, Verdict};

/// How the names of queues begin in which commands wait for a node.
pub const COMMANDS: &str = "hivewire.command.";
/// How the names of queues begin in which answers wait for a node.
pub const ANSWERS: &str = "hivewire.answer.";

const CALL: Duration = Duration::from_secs(5);
/// How long one look for messages waits.
const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);
const CREDIT: u32 = 64;

/// Does what other nodes ask for.
#[async_trait]
pub trait CommandHandler: Send + Sync {
    /// Does a command that a node sent. What it says, either way, is the answer.
    async fn handle(&self, from: &str, command: Value) -> Result<Value, Value>;
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// None came in time.
    #[error("{node} has not answered within {after:?}: it may have done it or not")]
    NoAnswer {
        /// The node.
        node: Name,
        /// How long it was waited for.
        after: Duration,
    },
    /// The node said no, and why.
    #[error("the node refuses: {0}")]
    Refused(Value),
    /// It has started anew since it was asked.
    #[error("{node} has just started anew: try again")]
    Restarted {
        /// The node.
        node: Name,
    },
    /// Too much is asked at a time.
    #[error("{who} has too many commands at a time: try again")]
    Busy {
        /// The node that has.
        who: Name,
    },
    /// The answer cannot be understood, which is a bug or another version.
    #[error(
        "{node} answered something that cannot be understood: do all nodes have the same version?"
    )]
    Strange {
        /// The node.
        node: Name,
    },
    /// The bus did not take it.
    #[error(transparent)]
    Bus(#[from] BusError),
}

/// An answer as it travels.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done(Value),
    Refused(Value),
    Stale,
    Busy,
}

/// What a node asks others and does for them. Dropping it ends both.
pub struct Commands {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

struct Shared {
    bus: Arc<dyn Bus>,
    name: Name,
    handler: Arc<dyn CommandHandler>,
    taken: Mutex<Taken>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    asked: Asked,
    waiters: HashMap<String, oneshot::Sender<String>>,
}

impl Commands {
    /// Does what others ask of this node from now on. `start` is the number of its start.
    pub fn start(
        bus: Arc<dyn Bus>,
        name: Name,
        start: u64,
        handler: Arc<dyn CommandHandler>,
    ) -> Self {
        let shared = Arc::new(Shared {
            bus,
            name,
            handler,
            taken: Mutex::new(Taken::new(start)),
            waiting: Mutex::default(),
        });
        let tasks = vec![
            tokio::spawn(shared.clone().take_commands()),
            tokio::spawn(shared.clone().take_answers()),
        ];
        Self { shared, tasks }
    }

    /// Asks a node of which this start is known, and waits for the answer.
    pub async fn ask(
        &self,
        node: &Name,
        start: u64,
        command: Value,
        timeout: Duration,
    ) -> Result<Value, CommandError> {
        let (waiter, answer) = oneshot::channel();
        let question = self.shared.ask(waiter).ok_or_else(|| CommandError::Busy {
            who: self.shared.name.clone(),
        })?;
        let command = Command {
            id: question.id.clone(),
            from: self.shared.name.to_string(),
            start,
            command,
        };
        let no_answer = || CommandError::NoAnswer {
            node: node.clone(),
            after: timeout,
        };
        let asking = async {
            self.shared
                .send(COMMANDS, node.as_str(), vec![&command])
                .await?;
            answer.await.map_err(|_| no_answer())
        };
        let answer = tokio::time::timeout(timeout, asking).await;
        let answer = answer.map_err(|_| no_answer())??;
        let node = node.clone();
        match serde_json::from_str(&answer) {
            Ok(Answer::Done(value)) => Ok(value),
            Ok(Answer::Refused(value)) => Err(CommandError::Refused(value)),
            Ok(Answer::Stale) => Err(CommandError::Restarted { node }),
            Ok(Answer::Busy) => Err(CommandError::Busy { who: node }),
            Err(_) => Err(CommandError::Strange { node }),
        }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// A question that is forgotten when nobody waits any more.
struct Question<'a> {
    shared: &'a Shared,
    id: String,
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting.lock();
        waiting.asked.forget(&self.id);
        waiting.waiters.remove(&self.id);
    }
}

impl Shared {
    fn ask(&self, waiter: oneshot::Sender<String>) -> Option<Question<'_>> {
        let id = format!("{:032x}", fastrand::u128(..));
        let mut waiting = self.waiting.lock();
        if !waiting.asked.ask(&id) {
            return None;
        }
        waiting.waiters.insert(id.clone(), waiter);
        drop(waiting);
        Some(Question { shared: self, id })
    }

    async fn take_commands(self: Arc<Self>) {
        let this = self.clone();
        self.take(COMMANDS, move |command: Command| this.commanded(command))
            .await;
    }

    async fn take_answers(self: Arc<Self>) {
        let this = self.clone();
        self.take(ANSWERS, move |piece: Piece| this.answered(piece))
            .await;
    }

    /// Takes what comes to a queue of this node, for ever.
    async fn take<T: DeserializeOwned>(&self, kind: &str, mut came: impl FnMut(T) + Send) {
        loop {
            if let Err(error) = self.take_once(kind, &mut came).await {
                tracing::warn!(%error, "no commands and answers can be heard; trying again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn take_once<T: DeserializeOwned>(
        &self,
        kind: &str,
        came: &mut (impl FnMut(T) + Send),
    ) -> Result<(), BusError> {
        let queue = self.declared(kind, self.name.as_str()).await?;
        let subscription = self.bus.subscribe(&queue, CREDIT, CALL).await?;
        loop {
            let deliveries = subscription.next_batch(CREDIT as usize, LOOK).await?;
            if deliveries.is_empty() {
                continue;
            }
            let receipts: Vec<_> = deliveries.iter().map(|one| one.receipt).collect();
            // First: what made this process end must not come again.
            subscription.acknowledge(&receipts, CALL).await?;
            for delivery in &deliveries {
                match serde_json::from_slice(&delivery.message.body) {
                    Ok(one) => came(one),
                    Err(error) => tracing::warn!(%error, "a command or answer cannot be read"),
                }
            }
        }
    }

    async fn declared(&self, kind: &str, node: &str) -> Result<Destination, BusError> {
        let name = Name::new(&format!("{kind}{node}")).map_err(|error| BusError::Refused {
            reason: error.to_string(),
        })?;
        let settings = QueueSettings {
            durable: false,
            ..QueueSettings::default()
        };
        self.bus.declare(&name, &settings, CALL).await?;
        Ok(Destination::Queue(name))
    }

    async fn send<T: Serialize>(
        &self,
        kind: &str,
        node: &str,
        what: Vec<&T>,
    ) -> Result<(), BusError> {
        let queue = self.declared(kind, node).await?;
        for one in what {
            let body = serde_json::to_vec(one).map_err(|error| BusError::Refused {
                reason: format!("it cannot be written: {error}"),
            })?;
            let mut batch = vec![Message::new(body)];
            self.bus.publish(&queue, &mut batch, CALL).await?;
        }
        Ok(())
    }

    fn commanded(self: &Arc<Self>, command: Command) {
        let verdict = self.taken.lock().came(&command);
        let this = self.clone();
        match verdict {
            Verdict::Drop => {}
            Verdict::Stale => drop(tokio::spawn(this.answer(command, Answer::Stale))),
            Verdict::Busy => drop(tokio::spawn(this.answer(command, Answer::Busy))),
            Verdict::Do => drop(tokio::spawn(this.obey(command))),
        }
    }

    async fn obey(self: Arc<Self>, mut command: Command) {
        let doing = Doing(self.clone());
        let what = command.command.take();
        let answer = match self.handler.handle(&command.from, what).await {
            Ok(value) => Answer::Done(value),
            Err(value) => Answer::Refused(value),
        };
        drop(doing);
        self.answer(command, answer).await;
    }

    async fn answer(self: Arc<Self>, command: Command, answer: Answer) {
        let text = match serde_json::to_string(&answer) {
            Ok(text) if text.len() <= ANSWER_BYTES_MAX => text,
            Ok(text) => {
                let bytes = text.len();
                return tracing::warn!(bytes, "an answer is too long and is not sent");
            }
            Err(error) => return tracing::error!(%error, "an answer cannot be written"),
        };
        let pieces = cut(&command.id, &text);
        let sent = self.send(ANSWERS, &command.from, pieces.iter().collect());
        if let Err(error) = sent.await {
            tracing::warn!(%error, to = command.from, "an answer could not be sent");
        }
    }

    fn answered(&self, piece: Piece) {
        let mut waiting = self.waiting.lock();
        let Some((id, answer)) = waiting.asked.came(piece) else {
            return;
        };
        if let Some(waiter) = waiting.waiters.remove(&id) {
            // Whoever waited may have gone this moment.
            let _ = waiter.send(answer);
        }
    }
}

/// Counts a command as done, also if doing it panicked.
struct Doing(Arc<Shared>);

impl Drop for Doing {
    fn drop(&mut self) {
        self.0.taken.lock().done();
    }
}
