//! A few connections to the server, made again whenever they are lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tokio_postgres::{Client, Error};

use super::address::Address;
use super::schema::{self, SchemaError};
use super::statements::Statements;
use crate::capabilities::AckLevel;

/// How long one attempt to connect may take, with all that is prepared.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a connection is asked whether it lives, and how long its answer may take.
const ASK_EVERY: Duration = Duration::from_secs(3);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// A connection that lasted that long was a good one: the next pause is short again.
const GOOD_CONNECTION: Duration = Duration::from_secs(2);
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Said once to every connection.
const SESSION: &str = "SET synchronous_commit = on; SET statement_timeout = '30s'; \
    SET client_min_messages = warning";

/// One connection, as long as it lasts.
pub(super) struct Connected {
    pub client: Client,
    pub statements: Statements,
    /// How many calls are on their way.
    calls: AtomicUsize,
}

/// A connection in use for one call.
pub(super) struct Busy(pub Arc<Connected>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What all connections share.
struct Common {
    address: Address,
    pause_max: Duration,
    /// A connection for each place, or none at present.
    places: RwLock<Vec<Option<Arc<Connected>>>>,
    came: Notify,
    trouble: RwLock<String>,
    level: AtomicU8,
}

/// Keeps a few connections up.
pub(super) struct Pool {
    common: Arc<Common>,
    tasks: Vec<AbortHandle>,
}

impl Pool {
    /// Starts connecting and returns at once.
    pub fn start(address: Address, connections: usize, pause_max: Duration) -> Self {
        let common = Arc::new(Common {
            address,
            pause_max,
            places: RwLock::new((0..connections).map(|_| None).collect()),
            came: Notify::new(),
            trouble: RwLock::new("not connected yet".into()),
            level: AtomicU8::new(AckLevel::Synced as u8),
        });
        let keep = |place| tokio::spawn(keep_connected(common.clone(), place)).abort_handle();
        let tasks = (0..connections).map(keep).collect();
        Self { common, tasks }
    }

    /// The connection with the least to do, however long it takes until there is one.
    pub async fn connected(&self) -> Busy {
        loop {
            let came = self.common.came.notified();
            tokio::pin!(came);
            came.as_mut().enable();
            if let Some(found) = self.least_busy() {
                return found;
            }
            came.await;
        }
    }

    fn least_busy(&self) -> Option<Busy> {
        let places = self.common.places.read();
        let alive = places.iter().flatten().filter(|c| !c.client.is_closed());
        let chosen = alive.min_by_key(|c| c.calls.load(Ordering::Relaxed))?;
        chosen.calls.fetch_add(1, Ordering::Relaxed);
        Some(Busy(chosen.clone()))
    }

    /// What went wrong last.
    pub fn trouble(&self) -> String {
        self.common.trouble.read().clone()
    }

    /// What the server's promise is worth, as it said when it was last connected to.
    pub fn level(&self) -> AckLevel {
        let level = self.common.level.load(Ordering::Relaxed);
        let all = [AckLevel::Memory, AckLevel::Synced, AckLevel::Replicated];
        let found = all.into_iter().find(|one| *one as u8 == level);
        found.unwrap_or(AckLevel::Memory)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Ends a task with whoever holds this.
struct Ending(JoinHandle<Result<(), Error>>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep_connected(common: Arc<Common>, place: usize) {
    let mut pause = PAUSE_MIN;
    loop {
        let reason = match tokio::time::timeout(CONNECT_TIMEOUT, connect(&common)).await {
            Ok(Ok((connected, driver))) => {
                let began = Instant::now();
                common.places.write()[place] = Some(connected.clone());
                common.came.notify_waiters();
                let reason = lost(&connected, driver).await;
                common.places.write()[place] = None;
                if began.elapsed() > GOOD_CONNECTION {
                    pause = PAUSE_MIN;
                }
                reason
            }
            Ok(Err(error)) => describe_schema(&error),
            Err(_) => format!("no answer within {CONNECT_TIMEOUT:?}"),
        };
        tracing::warn!("no connection to the shared store: {reason}; trying again");
        *common.trouble.write() = reason;
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(common.pause_max);
    }
}

async fn connect(common: &Common) -> Result<(Arc<Connected>, Ending), SchemaError> {
    let Address {
        config,
        tls,
        schema,
    } = &common.address;
    let (mut client, connection) = config.connect(tls.clone()).await?;
    let driver = Ending(tokio::spawn(connection));
    schema::prepare(&mut client, schema).await?;
    client.batch_execute(SESSION).await?;
    let level = level(&client).await?;
    common.level.store(level as u8, Ordering::Relaxed);
    let statements = Statements::prepare(&client, schema).await?;
    let connected = Connected {
        client,
        statements,
        calls: AtomicUsize::new(0),
    };
    Ok((Arc::new(connected), driver))
}

/// What the server does before it says that something is permanent.
async fn level(client: &Client) -> Result<AckLevel, Error> {
    let sql = "SELECT current_setting('fsync') = 'on', current_setting('synchronous_standby_names') <> ''";
    let row = client.query_one(sql, &[]).await?;
    Ok(match (row.get(0), row.get(1)) {
        (_, true) => AckLevel::Replicated,
        (true, false) => AckLevel::Synced,
        (false, false) => AckLevel::Memory,
    })
}

/// Waits until the connection is lost; says why.
async fn lost(connected: &Connected, mut driver: Ending) -> String {
    loop {
        tokio::select! {
            ended = &mut driver.0 => return match ended {
                Ok(Ok(())) => "the connection was closed".to_owned(),
                Ok(Err(error)) => describe(&error),
                Err(error) => error.to_string(),
            },
            () = tokio::time::sleep(ASK_EVERY) => {}
        }
        let asked = connected.client.simple_query("SELECT 1");
        match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return describe(&error),
            // Dropping the driver closes the socket, and all calls on it end.
            Err(_) => return format!("the server did not answer within {ANSWER_TIMEOUT:?}"),
        }
    }
}

fn describe_schema(error: &SchemaError) -> String {
    match error {
        SchemaError::Server(error) => describe(error),
        other => other.to_string(),
    }
}

/// The error with its cause, which some of them keep to themselves.
pub(super) fn describe(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("the server says: {} ({})", db.message(), db.code().code());
    }
    let text = error.to_string();
    match std::error::Error::source(error).map(ToString::to_string) {
        Some(cause) if !text.contains(&cause) => format!("{text}: {cause}"),
        _ => text,
    }
}
