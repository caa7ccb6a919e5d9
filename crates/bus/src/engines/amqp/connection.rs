//! The connection to the server, made again whenever it is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::StreamExt;
use kernel::Name;
use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::server::Server;
use crate::contract::QueueSettings;
use crate::deadline::Deadline;
use crate::error::BusError;

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a connection is looked at besides listening to its events.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A connection that lasted that long was a good one: the next pause is short again.
const GOOD_CONNECTION: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// A quorum queue that is younger than this may be gone after a crash of the server, with all that
/// was confirmed: the server stores the queue itself a little later than its messages.
const SETTLING: Duration = Duration::from_secs(2);
/// How many queues a connection remembers to have declared.
const REMEMBERED_QUEUES_MAX: usize = 10_000;

/// The connection, or why there is none.
#[derive(Clone)]
enum State {
    Down(Arc<str>),
    Up(Arc<Connected>),
}

/// Keeps a connection up.
pub(super) struct Link {
    state: watch::Receiver<State>,
    task: AbortHandle,
}

impl Link {
    pub fn start(servers: Vec<Server>, pause_max: Duration) -> Self {
        let (sender, state) = watch::channel(State::Down("not connected yet".into()));
        let task = tokio::spawn(keep_connected(servers, pause_max, sender)).abort_handle();
        Self { state, task }
    }

    /// The connection, as soon as there is one.
    pub async fn connected(
        &self,
        what: &str,
        deadline: Deadline,
    ) -> Result<Arc<Connected>, BusError> {
        let found = deadline.limit(self.connected_some_time()).await;
        found.map_err(|_| {
            let reason = self.trouble();
            deadline.timeout(what, reason.unwrap_or_else(|| "no answer".into()))
        })
    }

    /// Why there is no connection, if there is none.
    pub fn trouble(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Down(reason) => Some(reason.to_string()),
            State::Up(_) => None,
        }
    }

    /// The connection, however long that takes.
    pub async fn connected_some_time(&self) -> Arc<Connected> {
        let mut state = self.state.clone();
        loop {
            if let State::Up(connected) = &*state.borrow_and_update()
                && connected.is_up()
            {
                return connected.clone();
            }
            // An error here means that the task has ended with the runtime.
            if state.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_connected(servers: Vec<Server>, pause_max: Duration, state: watch::Sender<State>) {
    let mut pause = PAUSE_MIN;
    for server in servers.iter().cycle() {
        let properties = ConnectionProperties::default().with_connection_name("hivewire".into());
        let connecting = server.connect(properties);
        let began = Instant::now();
        let reason = match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(connection)) => {
                let connected = Arc::new(Connected::new(connection));
                state.send_replace(State::Up(connected.clone()));
                tracing::info!("connected to the AMQP server");
                let lost = connected.lost().await;
                if began.elapsed() > GOOD_CONNECTION {
                    pause = PAUSE_MIN;
                }
                lost
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {CONNECT_TIMEOUT:?}"),
        };
        tracing::warn!("no connection to the AMQP server: {reason}; trying again");
        state.send_replace(State::Down(reason.into()));
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(pause_max);
    }
}

/// What is known about a queue.
#[derive(Clone, Copy)]
struct KnownQueue {
    durable: bool,
    /// When it was made, unless it was there before.
    made: Option<Instant>,
    /// Whether something went wrong since, so that it may be missing.
    in_doubt: bool,
}

impl KnownQueue {
    /// Whether what it confirms survives a crash.
    fn is_safe(&self) -> bool {
        self.durable && self.made.is_none_or(|made| made.elapsed() > SETTLING)
    }
}

/// One connection, as long as it lasts.
pub(super) struct Connected {
    connection: Connection,
    queues: Mutex<HashMap<Name, KnownQueue>>,
    /// Kept for the next declaration; a refused one ends its channel.
    declaring: tokio::sync::Mutex<Option<Channel>>,
}

impl Connected {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            queues: Mutex::default(),
            declaring: tokio::sync::Mutex::default(),
        }
    }

    pub fn is_up(&self) -> bool {
        self.connection.status().connected()
    }

    pub async fn channel(&self) -> lapin::Result<Channel> {
        self.connection.create_channel().await
    }

    /// Waits until the connection is lost; says why.
    async fn lost(&self) -> String {
        let mut events = self.connection.events_listener();
        let mut reason = "the connection was closed".to_owned();
        while self.is_up() {
            match tokio::time::timeout(LOOK_EVERY, events.next()).await {
                Ok(Some(Event::Error(error))) => reason = error.to_string(),
                Ok(Some(Event::ConnectionBlocked(why))) => {
                    tracing::warn!("the AMQP server takes no publishes for now: {why}");
                }
                Ok(Some(_)) | Err(_) => {}
                Ok(None) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
        reason
    }

    /// Makes a queue with exactly these settings.
    pub async fn declare(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        quorum_members: u8,
        deadline: Deadline,
    ) -> Result<(), BusError> {
        let declared = self.make(queue, settings, quorum_members);
        match deadline.limit(declared).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if is_mismatch(&error) => Err(BusError::Refused {
                reason: format!(
                    "queue {queue} exists with other settings: delete it or declare it as it is ({error})"
                ),
            }),
            Ok(Err(error)) => Err(refusal(&error)
                .unwrap_or_else(|| deadline.timeout("a declaration", error.to_string()))),
            Err(_) => Err(deadline.timeout("a declaration", "no answer")),
        }
    }

    /// Makes sure that a queue exists, with these settings if it has to be made; says whether
    /// what it confirms survives a crash, as far as is known.
    pub async fn ensure(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        quorum_members: u8,
    ) -> lapin::Result<bool> {
        if let Some(known) = self.known(queue)
            && !known.in_doubt
        {
            return Ok(known.is_safe());
        }
        match self.make(queue, settings, quorum_members).await {
            Ok(()) => {}
            // Somebody made it otherwise. It serves, but nothing is promised about its disk.
            Err(error) if is_mismatch(&error) => self.remember(queue, false, None),
            Err(error) => return Err(error),
        }
        Ok(self.known(queue).is_some_and(|known| known.is_safe()))
    }

    fn known(&self, queue: &Name) -> Option<KnownQueue> {
        self.queues.lock().get(queue).copied()
    }

    fn remember(&self, queue: &Name, durable: bool, made: Option<Instant>) {
        let mut queues = self.queues.lock();
        if queues.len() >= REMEMBERED_QUEUES_MAX {
            queues.clear();
        }
        let made = made.or_else(|| queues.get(queue)?.made);
        let known = KnownQueue {
            durable,
            made,
            in_doubt: false,
        };
        queues.insert(queue.clone(), known);
    }

    /// A queue may be missing.
    pub fn doubt(&self, queue: &Name) {
        if let Some(known) = self.queues.lock().get_mut(queue) {
            known.in_doubt = true;
        }
    }

    /// Makes a queue if there is none, and checks that it has these settings.
    async fn make(
        &self,
        queue: &Name,
        settings: &QueueSettings,
        quorum_members: u8,
    ) -> lapin::Result<()> {
        let made = match self.try_declare(queue, looking()).await {
            Ok(()) => None,
            Err(error) if is_missing(&error) => Some(Instant::now()),
            Err(error) => return Err(error),
        };
        self.try_declare(queue, making(settings, quorum_members))
            .await?;
        self.remember(queue, settings.durable, made);
        Ok(())
    }

    async fn try_declare(
        &self,
        queue: &Name,
        (options, arguments): (QueueDeclareOptions, FieldTable),
    ) -> lapin::Result<()> {
        let mut declaring = self.declaring.lock().await;
        let channel = match declaring.take() {
            Some(channel) => channel,
            None => self.channel().await?,
        };
        let declared = channel.queue_declare(queue.as_str().into(), options, arguments);
        declared.await?;
        *declaring = Some(channel);
        Ok(())
    }
}

/// Only looks whether the queue is there.
fn looking() -> (QueueDeclareOptions, FieldTable) {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    (options, FieldTable::default())
}

fn making(settings: &QueueSettings, quorum_members: u8) -> (QueueDeclareOptions, FieldTable) {
    let options = QueueDeclareOptions {
        durable: settings.durable,
        ..QueueDeclareOptions::default()
    };
    let mut arguments = FieldTable::default();
    if settings.in_turn {
        let one = "x-single-active-consumer".into();
        arguments.insert(one, AMQPValue::Boolean(true));
    }
    if settings.durable {
        let kind = AMQPValue::LongString("quorum".into());
        arguments.insert("x-queue-type".into(), kind);
        if quorum_members > 1 {
            let members = AMQPValue::LongInt(i32::from(quorum_members));
            arguments.insert("x-quorum-initial-group-size".into(), members);
        }
    }
    (options, arguments)
}

fn soft_error(error: &lapin::Error) -> Option<AMQPSoftError> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => match error.kind() {
            AMQPErrorKind::Soft(soft) => Some(soft.clone()),
            AMQPErrorKind::Hard(_) => None,
        },
        _ => None,
    }
}

fn is_mismatch(error: &lapin::Error) -> bool {
    soft_error(error) == Some(AMQPSoftError::PRECONDITIONFAILED)
}

fn is_missing(error: &lapin::Error) -> bool {
    soft_error(error) == Some(AMQPSoftError::NOTFOUND)
}

/// The error of something that the server will refuse again, if it is such.
pub(super) fn refusal(error: &lapin::Error) -> Option<BusError> {
    let is_final = match error.kind() {
        ErrorKind::SerialisationError(_) => true,
        _ => matches!(
            soft_error(error),
            Some(
                AMQPSoftError::ACCESSREFUSED
                    | AMQPSoftError::PRECONDITIONFAILED
                    | AMQPSoftError::CONTENTTOOLARGE
                    | AMQPSoftError::RESOURCELOCKED
            )
        ),
    };
    is_final.then(|| BusError::Refused {
        reason: format!("the AMQP server says: {error}"),
    })
}
