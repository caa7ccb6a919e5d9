//! Lines on their way to those who follow on other nodes. They travel over the bus, and only while somebody
//! wants them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Bus, BusError};
use kernel::{Destination, Message, Name};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;

use super::line::Line;
use super::store::LogStore;
use super::wanted::{Budget, Followers, RENEWED_EVERY, Wanted};

/// The topic of the lines. Only nodes may write to it or read it.
const LOGS: &str = "hivewire.logs";
/// The topic where those who follow say so.
const WANTED: &str = "hivewire.logs.wanted";

const CALL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);
const CREDIT: u32 = 256;
/// How many lines one message has at most.
const LINES_AT_ONCE: usize = 200;
/// How many batches wait for whoever reads them.
const BATCHES_WAITING_MAX: usize = 64;

/// Lines of one node, as they travel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub node: String,
    pub lines: Vec<Line>,
    /// How many were left out before them.
    pub lost: u64,
}

/// A node's part in the logs that all nodes share.
pub(crate) struct LogSharing {
    node: String,
    /// None if the node stands alone.
    bus: Option<Arc<dyn Bus>>,
    store: Arc<LogStore>,
    followers: Mutex<Followers>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

fn topic(name: &str) -> Destination {
    Destination::Topic(Name::new(name).expect("it is a name"))
}

impl LogSharing {
    /// From now on others can follow this node, if it shares a bus with them.
    pub fn start(node: &str, bus: Option<Arc<dyn Bus>>, store: Arc<LogStore>) -> Arc<Self> {
        let sharing = Arc::new(Self {
            node: node.to_owned(),
            bus: bus.clone(),
            store,
            followers: Mutex::new(Followers::of(node)),
            tasks: Mutex::default(),
        });
        if let Some(bus) = bus {
            let (listening, sending) = (sharing.clone(), sharing.clone());
            let to = bus.clone();
            *sharing.tasks.lock() = vec![
                tokio::spawn(async move {
                    let heard = |wanted| listening.wanted(wanted);
                    listen(&*bus, WANTED, heard).await;
                }),
                tokio::spawn(async move { sending.send(&*to).await }),
            ];
        }
        sharing
    }

    /// Somebody on another node follows this one.
    pub fn wanted(&self, wanted: Wanted) {
        self.followers.lock().heard(wanted, Instant::now());
    }

    /// Ends it.
    pub fn stop(&self) {
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }

    /// Sends what is wanted, for ever.
    async fn send(&self, bus: &dyn Bus) {
        let mut live = self.store.follow();
        let mut budget = Budget::new(Instant::now());
        let mut lost = 0;
        loop {
            let lines = match live.recv().await {
                Ok(lines) => lines,
                Err(RecvError::Lagged(missed)) => {
                    // At least one in each.
                    lost += missed;
                    self.store.counters().unfollowed.inc_by(missed);
                    continue;
                }
                Err(RecvError::Closed) => return,
            };
            let (wanted, left_out) = self.chosen(&lines, &mut budget);
            lost += left_out;
            self.store.counters().unfollowed.inc_by(left_out);
            for lines in wanted.chunks(LINES_AT_ONCE) {
                let batch = Batch {
                    node: self.node.clone(),
                    lines: lines.to_vec(),
                    lost: std::mem::take(&mut lost),
                };
                if let Err(error) = publish(bus, LOGS, &batch).await {
                    lost += batch.lost + batch.lines.len() as u64;
                    tracing::debug!(%error, "lines of the log could not be sent");
                }
            }
        }
    }

    /// The lines that somebody wants, and how many more than may be sent.
    fn chosen(&self, lines: &[Line], budget: &mut Budget) -> (Vec<Line>, u64) {
        let now = Instant::now();
        let per_second_max = self.store.followed_lines_per_second_max();
        let mut followers = self.followers.lock();
        if !followers.are_there(now) {
            return (Vec::new(), 0);
        }
        let mut left_out = 0;
        let wanted = lines.iter().filter(|line| followers.want(line));
        let sent = wanted.filter(|_| {
            let has_room = budget.take(per_second_max, now);
            left_out += u64::from(!has_room);
            has_room
        });
        (sent.cloned().collect(), left_out)
    }

    /// Begins to follow: this node, and all others that hear of it.
    pub fn follow(self: &Arc<Self>, wanted: &Wanted) -> Following {
        let (to, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let is_meant = |node: &str| wanted.node.as_deref().is_none_or(|only| only == node);
        let mut tasks = Vec::new();
        if is_meant(&self.node) {
            tasks.push(tokio::spawn(own(self.clone(), to.clone())));
        }
        let is_only_me = wanted.node.as_deref() == Some(&self.node);
        if let Some(bus) = self.bus.clone().filter(|_| !is_only_me) {
            let me = self.node.clone();
            let (announced, announcing) = (wanted.clone(), bus.clone());
            tasks.push(tokio::spawn(async move {
                let mut lost = 0;
                let heard = |mut batch: Batch| {
                    if batch.node == me {
                        return;
                    }
                    batch.lost += std::mem::take(&mut lost);
                    // Whoever reads too slowly misses some and is told with the next batch.
                    if let Err(TrySendError::Full(batch)) = to.try_send(batch) {
                        lost = batch.lost + batch.lines.len() as u64;
                    }
                };
                listen(&*bus, LOGS, heard).await;
            }));
            tasks.push(tokio::spawn(async move {
                loop {
                    if let Err(error) = publish(&*announcing, WANTED, &announced).await {
                        tracing::warn!(%error, "other nodes could not be told that their logs are followed; trying again");
                    }
                    tokio::time::sleep(RENEWED_EVERY).await;
                }
            }));
        }
        Following { batches, tasks }
    }
}

/// What comes to one who follows. Dropping it ends that.
pub(crate) struct Following {
    batches: mpsc::Receiver<Batch>,
    tasks: Vec<JoinHandle<()>>,
}

impl Following {
    /// The next lines. It may wait for ever: put a time limit around it.
    pub async fn next(&mut self) -> Option<Batch> {
        self.batches.recv().await
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Hands on what this node logs.
async fn own(sharing: Arc<LogSharing>, to: mpsc::Sender<Batch>) {
    let mut live = sharing.store.follow();
    let mut lost = 0;
    loop {
        match live.recv().await {
            Ok(lines) => {
                let batch = Batch {
                    node: sharing.node.clone(),
                    lines: lines.to_vec(),
                    lost: std::mem::take(&mut lost),
                };
                if to.send(batch).await.is_err() {
                    return;
                }
            }
            Err(RecvError::Lagged(missed)) => lost += missed,
            Err(RecvError::Closed) => return,
        }
    }
}

async fn publish<T: Serialize>(bus: &dyn Bus, to: &str, what: &T) -> Result<(), BusError> {
    let body = serde_json::to_vec(what).map_err(|error| BusError::Refused {
        reason: format!("it cannot be written: {error}"),
    })?;
    bus.publish(&topic(to), &mut vec![Message::new(body)], CALL)
        .await?;
    Ok(())
}

/// Listens to a topic, for ever.
async fn listen<T: DeserializeOwned>(bus: &dyn Bus, to: &str, mut heard: impl FnMut(T)) {
    loop {
        if let Err(error) = listen_once(bus, to, &mut heard).await {
            tracing::debug!(%error, topic = to, "nothing can be heard; trying again");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn listen_once<T: DeserializeOwned>(
    bus: &dyn Bus,
    to: &str,
    heard: &mut impl FnMut(T),
) -> Result<(), BusError> {
    let subscription = bus.subscribe(&topic(to), CREDIT, CALL).await?;
    loop {
        let deliveries = subscription.next_batch(CREDIT as usize, LOOK).await?;
        if deliveries.is_empty() {
            continue;
        }
        let receipts: Vec<_> = deliveries.iter().map(|one| one.receipt).collect();
        for delivery in &deliveries {
            match serde_json::from_slice(&delivery.message.body) {
                Ok(one) => heard(one),
                Err(error) => tracing::debug!(%error, topic = to, "this cannot be read"),
            }
        }
        subscription.acknowledge(&receipts, CALL).await?;
    }
}
