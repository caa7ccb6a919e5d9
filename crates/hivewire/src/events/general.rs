//! The general topic, where nodes tell each other what happens. Only nodes may write to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bus::{Bus, BusError};
use kernel::{Destination, Message, Name};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::Events;
use super::event::{Event, kind};
use crate::http;

/// The topic.
const GENERAL: &str = "hivewire.general";
/// No event is larger; what others send that is larger is not taken.
const EVENT_BYTES_MAX: usize = 64 << 10;
/// How many are told at a time.
const BATCH_MAX: usize = 256;
const CREDIT: u32 = 1_024;
const CALL: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(500);

/// What waits for the bus.
pub(super) enum Outgoing {
    Event(Vec<u8>),
    /// Everything before it was told, or could not be.
    Flush(oneshot::Sender<()>),
}

fn topic() -> Destination {
    Destination::Topic(Name::new(GENERAL).expect("it is a name"))
}

/// Tells the other nodes, until this one stops and everything is told.
pub(super) async fn speak(
    events: Arc<Events>,
    bus: Arc<dyn Bus>,
    mut queue: mpsc::Receiver<Outgoing>,
    mut stopped: watch::Receiver<bool>,
) {
    let topic = topic();
    loop {
        let first = tokio::select! {
            biased;
            first = queue.recv() => first,
            () = sleep(PAUSE), if events.untold.load(Ordering::Relaxed) > 0 => None,
            () = http::stopped(&mut stopped) => return,
        };
        let mut batch = Vec::new();
        let mut flushed = Vec::new();
        let mut next = first;
        while let Some(outgoing) = next.take() {
            match outgoing {
                Outgoing::Event(body) => batch.push(Message::new(body)),
                Outgoing::Flush(done) => flushed.push(done),
            }
            if batch.len() < BATCH_MAX {
                next = queue.try_recv().ok();
            }
        }
        publish(&events, &*bus, &topic, batch).await;
        for done in flushed {
            let _ = done.send(());
        }
    }
}

async fn publish(events: &Events, bus: &dyn Bus, topic: &Destination, mut batch: Vec<Message>) {
    let untold = events.untold.swap(0, Ordering::Relaxed);
    if untold > 0 {
        let missed = events.signed(Event::of(kind::MISSED).with("count", untold));
        let missed = missed.with("run", events.run.as_str());
        batch.push(Message::new(missed.encoded()));
    }
    if batch.is_empty() {
        return;
    }
    if let Err(error) = bus.publish(topic, &mut batch, CALL).await {
        tracing::debug!(%error, "what happened here could not be told to the other nodes");
        // The last one only says how many there were before.
        let left = batch.len() as u64 - u64::from(untold > 0 && !batch.is_empty());
        events.not_told(left);
        events.untold.fetch_add(untold, Ordering::Relaxed);
    }
}

/// Hears what the other nodes tell, until this one stops.
pub(super) async fn listen(
    events: Arc<Events>,
    bus: Arc<dyn Bus>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            heard = listen_once(&events, &*bus) => {
                if let Err(error) = heard {
                    tracing::debug!(%error, "the other nodes cannot be heard; trying again");
                }
            }
            () = http::stopped(&mut stopped) => return,
        }
        if timeout(PAUSE, http::stopped(&mut stopped)).await.is_ok() {
            return;
        }
    }
}

async fn listen_once(events: &Events, bus: &dyn Bus) -> Result<(), BusError> {
    let subscription = bus.subscribe(&topic(), CREDIT, CALL).await?;
    loop {
        let deliveries = subscription.next_batch(CREDIT as usize, LOOK).await?;
        if deliveries.is_empty() {
            continue;
        }
        for delivery in &deliveries {
            let body = &delivery.message.body;
            match (body.len() <= EVENT_BYTES_MAX).then(|| Event::parse(body)) {
                Some(Some(event)) => events.heard(event),
                _ => tracing::debug!(bytes = body.len(), "what was told is no event"),
            }
        }
        let receipts: Vec<_> = deliveries.iter().map(|one| one.receipt).collect();
        subscription.acknowledge(&receipts, CALL).await?;
    }
}
