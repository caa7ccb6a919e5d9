//! The commits of one bucket in one epoch, one after another, and what follows them in the same order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::{Destination, Message, Name};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

use super::{Shared, outgoing};
use crate::commit::StateWrite;
use crate::contract::{Begun, Subscription};
use crate::deadline::Deadline;
use crate::delivery::{MESSAGE_ID, Receipt};
use crate::error::BusError;
use crate::store::{ConsumedIds, MessageId, OutboxEntry, Position, StoreCommit};

/// How many messages of one bucket may be committed and not published.
const UNPUBLISHED_MESSAGES_MAX: u32 = 16_384;
/// How many messages are published before their input is acknowledged, unless one commit has more: the
/// engine brings new input only then, and should do so while the next ones are published.
const ROUND_MESSAGES_MAX: usize = 512;
/// How many destinations of one bucket are remembered; then their streams begin anew.
const STREAMS_MAX: usize = 10_000;
/// How many streams one commit can begin: they are numbered after it.
const NEW_STREAMS_MAX: u64 = 1 << 16;
/// How long is waited for a commit that can tell the store what was published.
const MARK_AFTER: Duration = Duration::from_millis(50);
const MARK_TIMEOUT: Duration = Duration::from_secs(10);
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a commit is about.
pub(super) struct Turn<'a> {
    pub writes: Vec<StateWrite>,
    pub sends: &'a [(Destination, Message)],
    pub consumed: Vec<ConsumedIds>,
    pub settled: Vec<Settled>,
}

/// Deliveries to acknowledge to the engine.
pub(super) struct Settled {
    pub subscription: Arc<dyn Subscription>,
    pub receipts: Vec<Receipt>,
}

/// What remains to be done after a transaction.
struct Job {
    number: u64,
    entries: Vec<OutboxEntry>,
    settled: Vec<Settled>,
    done: oneshot::Sender<()>,
    _room: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    running: bool,
}

/// What an owner sends to one destination.
#[derive(Clone)]
struct Stream {
    sender: String,
    last: u64,
}

struct Numbering {
    /// The last commit.
    last: u64,
    streams: HashMap<Destination, Stream>,
    /// A commit was begun and nobody waited for its answer.
    is_broken_off: bool,
}

pub(super) struct Lane {
    pub bucket: Name,
    pub epoch: u64,
    /// Held during a transaction.
    numbering: tokio::sync::Mutex<Numbering>,
    room: Arc<Semaphore>,
    jobs: Mutex<Jobs>,
    more: Notify,
    /// The last commit whose outbox is published, and the last one of which the store knows it.
    published: AtomicU64,
    marked: AtomicU64,
}

impl Lane {
    pub fn new(bucket: Name, position: Position) -> Self {
        Self {
            bucket,
            epoch: position.epoch,
            numbering: tokio::sync::Mutex::new(Numbering {
                last: position.number,
                streams: HashMap::new(),
                is_broken_off: false,
            }),
            room: Arc::new(Semaphore::new(UNPUBLISHED_MESSAGES_MAX as usize)),
            jobs: Mutex::default(),
            more: Notify::new(),
            published: AtomicU64::new(0),
            marked: AtomicU64::new(0),
        }
    }

    pub fn is_busy(&self) -> bool {
        self.jobs.lock().running
    }

    /// Whether there is something to do that nobody does yet; then it is up to the caller.
    pub fn begins_to_run(&self) -> bool {
        let mut jobs = self.jobs.lock();
        !jobs.waiting.is_empty() && !std::mem::replace(&mut jobs.running, true)
    }

    /// Waits until everything that was committed here is published.
    pub async fn all_published(&self, deadline: Deadline) -> Result<(), BusError> {
        let all = self.room.acquire_many(UNPUBLISHED_MESSAGES_MAX);
        match deadline.limit(all).await {
            Ok(_) => Ok(()),
            Err(_) => Err(self.not_published(deadline)),
        }
    }

    fn not_published(&self, deadline: Deadline) -> BusError {
        deadline.timeout("a commit", "what was committed before is not published yet")
    }

    /// Does the transaction and leaves the rest to [`run`]; gives what tells when that is done.
    pub async fn commit(
        &self,
        shared: &Shared,
        turn: Turn<'_>,
        deadline: Deadline,
    ) -> Result<Option<oneshot::Receiver<()>>, BusError> {
        let locked = deadline.limit(self.numbering.lock()).await;
        let mut numbering = locked.map_err(|_| {
            deadline.timeout("a commit", "an earlier one of its bucket is on its way")
        })?;
        if numbering.is_broken_off {
            let reason = "an earlier commit of its bucket was broken off";
            return Err(deadline.in_doubt("a commit", reason));
        }
        let wanted = u32::try_from(turn.sends.len()).unwrap_or(u32::MAX);
        let wanted = wanted.min(UNPUBLISHED_MESSAGES_MAX);
        let acquiring = self.room.clone().acquire_many_owned(wanted);
        let Ok(Ok(room)) = deadline.limit(acquiring).await else {
            return Err(self.not_published(deadline));
        };

        let number = numbering.last + 1;
        let (outbox, streams) = self.number(&numbering, number, turn.sends)?;
        let published = self.published.load(Ordering::Acquire);
        let commit = StoreCommit {
            bucket: self.bucket.clone(),
            epoch: self.epoch,
            number,
            token: fastrand::u64(..),
            writes: turn.writes,
            outbox,
            consumed: turn.consumed,
            published,
        };
        // If the caller goes away during the transaction, this is what is left of it.
        numbering.is_broken_off = true;
        let outcome = shared.store.commit(&commit, deadline.left()).await;
        numbering.is_broken_off = matches!(outcome, Err(BusError::InDoubt { .. }));
        outcome?;

        numbering.last = number;
        if numbering.streams.len() + streams.len() > STREAMS_MAX {
            numbering.streams.clear();
        }
        numbering.streams.extend(streams);
        self.marked.fetch_max(published, Ordering::AcqRel);
        if commit.outbox.is_empty() && turn.settled.is_empty() {
            return Ok(None);
        }
        let (done, is_done) = oneshot::channel();
        self.jobs.lock().waiting.push_back(Job {
            number,
            entries: commit.outbox,
            settled: turn.settled,
            done,
            _room: room,
        });
        self.more.notify_one();
        Ok(Some(is_done))
    }

    /// Gives every message its id; also says how far the streams have come then.
    fn number(
        &self,
        numbering: &Numbering,
        number: u64,
        sends: &[(Destination, Message)],
    ) -> Result<(Vec<OutboxEntry>, HashMap<Destination, Stream>), BusError> {
        let mut streams: HashMap<Destination, Stream> = HashMap::new();
        let mut begun = 0;
        let mut entries = Vec::with_capacity(sends.len());
        for (to, message) in sends {
            let stream = match streams.get_mut(to) {
                Some(stream) => stream,
                None => {
                    let stream = match numbering.streams.get(to) {
                        Some(stream) => stream.clone(),
                        None => {
                            begun += 1;
                            self.stream(number, begun)?
                        }
                    };
                    streams.entry(to.clone()).or_insert(stream)
                }
            };
            stream.last += 1;
            let id = MessageId::Ours {
                sender: stream.sender.clone(),
                number: stream.last,
            };
            entries.push(OutboxEntry {
                to: to.clone(),
                message: with_id(message, &id)?,
            });
        }
        Ok((entries, streams))
    }

    /// A stream that begins with this commit.
    fn stream(&self, number: u64, begun: u64) -> Result<Stream, BusError> {
        if begun >= NEW_STREAMS_MAX {
            let reason =
                format!("a commit sends to at most {NEW_STREAMS_MAX} new destinations at once");
            return Err(BusError::Refused { reason });
        }
        let stream = number * NEW_STREAMS_MAX + begun;
        Ok(Stream {
            sender: MessageId::sender(&self.bucket, self.epoch, stream),
            last: 0,
        })
    }

    /// These are published: acknowledges their input.
    async fn settle(&self, jobs: Vec<Job>) {
        for job in jobs {
            self.published.fetch_max(job.number, Ordering::AcqRel);
            for settled in &job.settled {
                acknowledge(settled).await;
            }
            // Nobody may be waiting.
            let _ = job.done.send(());
        }
    }

    /// What waits, as far as it is to be done together. If nothing does, and nothing else is to be
    /// done, the lane no longer runs.
    fn take(&self, is_busy: bool) -> Vec<Job> {
        let mut jobs = self.jobs.lock();
        jobs.running = is_busy || !jobs.waiting.is_empty();
        let mut messages = 0;
        let together = jobs.waiting.iter().take_while(|job| {
            let is_first = messages == 0;
            messages += job.entries.len();
            is_first || messages <= ROUND_MESSAGES_MAX
        });
        let count = together.count();
        jobs.waiting.drain(..count).collect()
    }

    /// Tells the store what was published, unless a commit comes that does.
    async fn mark(&self, shared: &Shared) {
        if !self.jobs.lock().waiting.is_empty() {
            return;
        }
        let waited = Deadline::after(MARK_AFTER);
        // The first word may be of what was done just now.
        while waited.limit(self.more.notified()).await.is_ok() {
            if !self.jobs.lock().waiting.is_empty() {
                return;
            }
        }
        let number = self.published.load(Ordering::Acquire);
        if self.marked.load(Ordering::Acquire) >= number {
            return;
        }
        let through = Position {
            epoch: self.epoch,
            number,
        };
        let store = &shared.store;
        match store.published(&self.bucket, through, MARK_TIMEOUT).await {
            Ok(()) => {
                self.marked.fetch_max(number, Ordering::AcqRel);
            }
            // The next commit tells it, or somebody publishes it once more.
            Err(error) => tracing::debug!(bucket = %self.bucket, %error, "not marked as published"),
        }
    }
}

fn with_id(message: &Message, id: &MessageId) -> Result<Message, BusError> {
    let id = id.to_string();
    let headers = message.headers.with([(MESSAGE_ID, id.as_str())]);
    let headers = headers.map_err(|error| BusError::Refused {
        reason: format!("a message has no room for its id: {error}"),
    })?;
    Ok(message.clone().with_headers(headers))
}

/// Commits whose outbox is on its way to the engine.
struct Flight {
    to: Destination,
    jobs: Vec<Job>,
    begun: Begun,
}

/// Publishes, acknowledges and marks until nothing waits any more. Where the engine lets it, the next
/// commits are published while the promise for those before them is waited for.
pub(super) async fn run(lane: Arc<Lane>, shared: Arc<Shared>) {
    let mut ahead: Option<Flight> = None;
    loop {
        let jobs = lane.take(ahead.is_some());
        match (jobs.is_empty(), ahead.take()) {
            (true, None) => return,
            (true, Some(before)) => {
                land(&lane, &shared, before, None).await;
            }
            (false, before) => match begin(&shared, jobs, before.as_ref()) {
                Ok(flight) => {
                    ahead = match before {
                        Some(before) => land(&lane, &shared, before, Some(flight)).await,
                        None => Some(flight),
                    };
                    continue;
                }
                Err(mut jobs) => {
                    if let Some(before) = before {
                        land(&lane, &shared, before, None).await;
                    }
                    let entries = jobs.iter_mut().flat_map(|job| job.entries.drain(..));
                    let entries = entries.collect();
                    outgoing::publish(&shared, entries).await;
                    lane.settle(jobs).await;
                }
            },
        }
        lane.mark(&shared).await;
    }
}

/// Begins to publish what these commits send, if all of it goes to one destination.
fn begin(shared: &Shared, mut jobs: Vec<Job>, behind: Option<&Flight>) -> Result<Flight, Vec<Job>> {
    let mut entries = jobs.iter().flat_map(|job| &job.entries);
    let to = match entries.next() {
        Some(first) if entries.all(|entry| entry.to == first.to) => first.to.clone(),
        _ => return Err(jobs),
    };
    let sizes: Vec<usize> = jobs.iter().map(|job| job.entries.len()).collect();
    let entries = jobs.iter_mut().flat_map(|job| job.entries.drain(..));
    let messages = entries.map(|entry| entry.message).collect();
    let behind = behind.map(|flight| &flight.begun);
    match shared.engine.begin_publish(&to, messages, behind) {
        Ok(begun) => Ok(Flight { to, jobs, begun }),
        Err(messages) => {
            let mut messages = messages.into_iter();
            for (job, size) in jobs.iter_mut().zip(sizes) {
                let own = messages.by_ref().take(size).map(|message| OutboxEntry {
                    to: to.clone(),
                    message,
                });
                job.entries.extend(own);
            }
            Err(jobs)
        }
    }
}

/// Waits until a flight is over, and sees to what it did not bring there before anything else of the
/// same destination is repeated. Gives the one behind it, if that goes on.
async fn land(
    lane: &Lane,
    shared: &Shared,
    flight: Flight,
    behind: Option<Flight>,
) -> Option<Flight> {
    let Flight { to, jobs, begun } = flight;
    let Err(rest) = begun.outcome().await else {
        lane.settle(jobs).await;
        return behind;
    };
    let behind = match behind {
        Some(Flight { to, jobs, begun }) => {
            let rest = begun.outcome().await.err().unwrap_or_default();
            Some((to, jobs, rest))
        }
        None => None,
    };
    for (to, jobs, rest) in [Some((to, jobs, rest)), behind].into_iter().flatten() {
        outgoing::publish_to(shared, &to, rest).await;
        lane.settle(jobs).await;
    }
    None
}

async fn acknowledge(settled: &Settled) {
    let receipts = &settled.receipts;
    let subscription = &settled.subscription;
    if let Err(error) = subscription
        .acknowledge(receipts, ACKNOWLEDGE_TIMEOUT)
        .await
    {
        // It comes again and is known to be consumed.
        tracing::debug!(%error, "what was committed is not acknowledged");
    }
}

#[cfg(test)]
#[path = "lane_flights.rs"]
mod flights;

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> Destination {
        Destination::Queue(Name::new(name).unwrap())
    }

    fn ids(entries: &[OutboxEntry]) -> Vec<&str> {
        let headers = entries.iter().map(|entry| &entry.message.headers);
        headers.map(|h| h.get(MESSAGE_ID).unwrap()).collect()
    }

    #[tokio::test]
    async fn numbers_have_no_gaps_for_each_destination() {
        let position = Position {
            epoch: 3,
            number: 4,
        };
        let lane = Lane::new(Name::new("b").unwrap(), position);
        let sends = [
            (queue("x"), Message::new("1")),
            (queue("y"), Message::new("2")),
            (queue("x"), Message::new("3")),
        ];
        let mut numbering = lane.numbering.lock().await;
        let (entries, streams) = lane.number(&numbering, 5, &sends).unwrap();
        let (x, y) = (5 * NEW_STREAMS_MAX + 1, 5 * NEW_STREAMS_MAX + 2);
        let expected = [
            format!("hw:b.3.{x}.1"),
            format!("hw:b.3.{y}.1"),
            format!("hw:b.3.{x}.2"),
        ];
        assert_eq!(ids(&entries), expected);

        // A commit that failed leaves no gap; one that succeeded goes on.
        let (again, _) = lane.number(&numbering, 5, &sends).unwrap();
        assert_eq!(ids(&again), expected);
        numbering.streams.extend(streams);
        let (next, _) = lane.number(&numbering, 6, &sends[1..]).unwrap();
        assert_eq!(
            ids(&next),
            [format!("hw:b.3.{y}.2"), format!("hw:b.3.{x}.3")]
        );
    }

    #[test]
    fn a_round_has_whole_commits_and_not_too_many_messages() {
        let lane = Lane::new(Name::new("b").unwrap(), Position::default());
        let entry = OutboxEntry {
            to: queue("x"),
            message: Message::new("1"),
        };
        let sizes = [
            0,
            ROUND_MESSAGES_MAX - 1,
            1,
            0,
            1,
            ROUND_MESSAGES_MAX + 1,
            1,
        ];
        for (number, size) in sizes.into_iter().enumerate() {
            let room = lane.room.clone().try_acquire_many_owned(size as u32);
            lane.jobs.lock().waiting.push_back(Job {
                number: number as u64,
                entries: vec![entry.clone(); size],
                settled: Vec::new(),
                done: oneshot::channel().0,
                _room: room.unwrap(),
            });
        }
        let round = || {
            lane.take(false)
                .iter()
                .map(|job| job.number)
                .collect::<Vec<_>>()
        };
        assert_eq!(round(), [0, 1, 2, 3]);
        assert_eq!(round(), [4]);
        assert_eq!(round(), [5]);
        assert_eq!(round(), [6]);
        assert!(lane.is_busy());
        assert!(round().is_empty() && !lane.is_busy());
    }

    #[test]
    fn an_id_that_was_passed_on_is_replaced() {
        let headers = kernel::Headers::from_pairs([(MESSAGE_ID, "mine"), ("a", "1")]).unwrap();
        let id = MessageId::parse("hw:b.1.2.3");
        let message = with_id(&Message::new("x").with_headers(headers), &id).unwrap();
        let pairs: Vec<_> = message.headers.iter().collect();
        assert_eq!(pairs, [("a", "1"), (MESSAGE_ID, "hw:b.1.2.3")]);
    }
}
