//! What goes out before the promise for what is ahead of it: whatever is lost, the order holds.

use std::sync::atomic::AtomicUsize;

use async_trait::async_trait;
use bytes::Bytes;

use super::*;
use crate::capabilities::{AckLevel, Capabilities, Given};
use crate::commit::Commit;
use crate::contract::{Bus, QueueSettings};
use crate::store::Store;
use crate::store::postgres::{PostgresSettings, PostgresStore};

/// An engine that takes so many messages of what is begun, flight by flight, before it is lost.
struct Engine {
    takes: Vec<usize>,
    begun: AtomicUsize,
    /// The numbers of all messages, in the order in which they arrived.
    arrived: Arc<Mutex<Vec<usize>>>,
}

fn number(message: &Message) -> usize {
    String::from_utf8_lossy(&message.body).parse().unwrap()
}

#[async_trait]
impl Bus for Engine {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            engine: "a test",
            durable_level: AckLevel::Memory,
            commit: Given::Yes,
            order_after_retry: Given::Yes,
            counts_lost_subscribers: Given::Yes,
            in_turn: Given::Yes,
            reconnects: Given::Yes,
        }
    }

    async fn declare(&self, _: &Name, _: &QueueSettings, _: Duration) -> Result<(), BusError> {
        Ok(())
    }

    async fn publish(
        &self,
        _: &Destination,
        batch: &mut Vec<Message>,
        _: Duration,
    ) -> Result<AckLevel, BusError> {
        self.arrived
            .lock()
            .extend(batch.drain(..).map(|m| number(&m)));
        Ok(AckLevel::Memory)
    }

    fn begin_publish(
        &self,
        _: &Destination,
        mut messages: Vec<Message>,
        _: Option<&Begun>,
    ) -> Result<Begun, Vec<Message>> {
        let flight = self.begun.fetch_add(1, Ordering::SeqCst);
        let Some(takes) = self.takes.get(flight) else {
            return Err(messages);
        };
        let rest = messages.split_off(*takes);
        self.arrived.lock().extend(messages.iter().map(number));
        Ok(Begun {
            connection: Arc::new(()),
            outcome: Box::pin(async move {
                match rest.is_empty() {
                    true => Ok(()),
                    false => Err(rest),
                }
            }),
        })
    }

    async fn subscribe(
        &self,
        _: &Destination,
        _: u32,
        _: Duration,
    ) -> Result<Box<dyn Subscription>, BusError> {
        unreachable!("nobody subscribes")
    }

    async fn commit(&self, _: &Commit<'_>, _: Duration) -> Result<AckLevel, BusError> {
        unreachable!("nobody commits")
    }

    async fn raise_epoch(&self, _: &Name, _: Duration) -> Result<u64, BusError> {
        unreachable!("nobody raises an epoch")
    }

    async fn state(&self, _: &Name, _: &[u8], _: Duration) -> Result<Option<Bytes>, BusError> {
        unreachable!("nobody reads state")
    }

    async fn scan(
        &self,
        _: &Name,
        _: Option<&[u8]>,
        _: usize,
        _: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        unreachable!("nobody reads state")
    }
}

/// Runs a lane with commits of these sizes over an engine that takes so many of each flight; gives what
/// arrived.
async fn arrived(sizes: &[usize], takes: &[usize]) -> Vec<usize> {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let engine = Engine {
        takes: takes.to_vec(),
        begun: AtomicUsize::new(0),
        arrived: arrived.clone(),
    };
    // Nobody answers there, and nobody is asked.
    let store = PostgresStore::start(&PostgresSettings::new("postgres://u@127.0.0.1:9/x"));
    let store: Arc<dyn Store> = Arc::new(store.unwrap());
    let shared = Arc::new(Shared {
        engine: Arc::new(engine),
        store,
        repeats_dropped: AtomicU64::new(0),
        taken_over: AtomicU64::new(0),
        refused_sends: AtomicU64::new(0),
    });
    let lane = Arc::new(Lane::new(Name::new("b").unwrap(), Position::default()));
    lane.marked.store(u64::MAX, Ordering::SeqCst);
    let mut next = 0;
    let mut done = Vec::new();
    for (place, size) in sizes.iter().enumerate() {
        let entry = |number: usize| OutboxEntry {
            to: Destination::Queue(Name::new("x").unwrap()),
            message: Message::new(number.to_string()),
        };
        let room = lane.room.clone().try_acquire_many_owned(*size as u32);
        let (is_done, waits) = oneshot::channel();
        lane.jobs.lock().waiting.push_back(Job {
            number: place as u64 + 1,
            entries: (next..next + size).map(entry).collect(),
            settled: Vec::new(),
            done: is_done,
            _room: room.unwrap(),
        });
        next += size;
        done.push(waits);
    }
    assert!(lane.begins_to_run());
    run(lane.clone(), shared).await;
    for waits in done {
        waits.await.unwrap();
    }
    assert_eq!(lane.published.load(Ordering::SeqCst), sizes.len() as u64);
    arrived.lock().clone()
}

const ROUND: usize = ROUND_MESSAGES_MAX;

#[tokio::test]
async fn what_is_lost_comes_again_in_order_and_nothing_behind_it_first() {
    let sizes = [ROUND, 3, ROUND, 2];
    let all: Vec<usize> = (0..sizes.iter().sum()).collect();
    let cases: [&[usize]; 5] = [
        // All goes well; the engine wants it the slow way; or does so from the third on.
        &[ROUND, 3, ROUND, 2],
        &[],
        &[ROUND, 3],
        // The connection is lost in the first flight, so nothing of the second arrives either.
        &[ROUND - 5, 0],
        // It is lost in the second.
        &[ROUND, 1],
    ];
    for takes in cases {
        assert_eq!(arrived(&sizes, takes).await, all, "{takes:?}");
    }
}

/// The control: an engine that takes what is behind a loss must be found out.
#[tokio::test]
async fn an_engine_that_takes_the_second_without_the_first_is_found_out() {
    let sizes = [ROUND, 3];
    let all: Vec<usize> = (0..sizes.iter().sum()).collect();
    assert_ne!(arrived(&sizes, &[ROUND - 5, 3]).await, all);
}
