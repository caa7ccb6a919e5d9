//! The connection to the server, made again whenever it is lost.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::StreamExt;
use kernel::Name;
use lapin::options::QueueDeclareOptions;
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, Event};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

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
    pub fn start(uri: AMQPUri, pause_max: Duration) -> Self {
        let (sender, state) = watch::channel(State::Down("not connected yet".into()));
        let task = tokio::spawn(keep_connected(uri, pause_max, sender)).abort_handle();
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

async fn keep_connected(uri: AMQPUri, pause_max: Duration, state: watch::Sender<State>) {
    let mut pause = PAUSE_MIN;
    loop {
        let properties = ConnectionProperties::default().with_connection_name("hivewire".into());
        let connecting = Connection::connect_uri(uri.clone(), properties);
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

/// One connection, as long as it lasts.
pub(super) struct Connected {
    connection: Connection,
    /// Queues that are known to exist, and whether they are durable as far as is known.
    queues: Mutex<HashMap<Name, bool>>,
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
        let declared = self.try_declare(queue, settings.durable, quorum_members);
        match deadline.limit(declared).await {
            Ok(Ok(())) => {
                self.remember(queue, settings.durable);
                Ok(())
            }
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

    /// Makes sure that a queue exists, with these settings if it has to be made; says whether it
    /// is durable as far as is known.
    pub async fn ensure(
        &self,
        queue: &Name,
        durable: bool,
        quorum_members: u8,
    ) -> lapin::Result<bool> {
        if let Some(durable) = self.queues.lock().get(queue) {
            return Ok(*durable);
        }
        let durable = match self.try_declare(queue, durable, quorum_members).await {
            Ok(()) => durable,
            // Somebody made it otherwise. It serves, but nothing is promised about its disk.
            Err(error) if is_mismatch(&error) => false,
            Err(error) => return Err(error),
        };
        self.remember(queue, durable);
        Ok(durable)
    }

    fn remember(&self, queue: &Name, durable: bool) {
        let mut queues = self.queues.lock();
        if queues.len() >= REMEMBERED_QUEUES_MAX {
            queues.clear();
        }
        queues.insert(queue.clone(), durable);
    }

    /// A queue turned out to be missing.
    pub fn forget(&self, queue: &Name) {
        self.queues.lock().remove(queue);
    }

    async fn try_declare(
        &self,
        queue: &Name,
        durable: bool,
        quorum_members: u8,
    ) -> lapin::Result<()> {
        let mut declaring = self.declaring.lock().await;
        let channel = match declaring.take() {
            Some(channel) => channel,
            None => self.channel().await?,
        };
        let options = QueueDeclareOptions {
            durable,
            ..QueueDeclareOptions::default()
        };
        let mut arguments = FieldTable::default();
        if durable {
            let kind = AMQPValue::LongString("quorum".into());
            arguments.insert("x-queue-type".into(), kind);
            if quorum_members > 1 {
                let members = AMQPValue::LongInt(i32::from(quorum_members));
                arguments.insert("x-quorum-initial-group-size".into(), members);
            }
        }
        let declared = channel.queue_declare(queue.as_str().into(), options, arguments);
        declared.await?;
        *declaring = Some(channel);
        Ok(())
    }
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
