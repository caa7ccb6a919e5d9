//! Servers, names, and workers that are as simple as can be.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bus::engines::{AmqpBus, AmqpSettings};
use bus::store::{PostgresSettings, PostgresStore};
use bus::{Bus, Commit, Consumed, Delivery, MESSAGE_ID, Owner, Receipt, StateWrite, Subscription};
use hivewire_bench::peers::postgres::Postgres;
use hivewire_bench::peers::rabbitmq::RabbitMq;
use kernel::{Destination, Headers, Message, Name};

/// How long any one step may take.
pub const STEP: Duration = Duration::from_secs(20);
/// How long is looked for what must not come.
pub const QUIET: Duration = Duration::from_millis(300);

static RABBITMQ: LazyLock<RabbitMq> =
    LazyLock::new(|| RabbitMq::start().expect("rabbitmq-server starts"));
pub static POSTGRES: LazyLock<Postgres> =
    LazyLock::new(|| Postgres::start().expect("postgres starts"));

pub async fn engine() -> Result<Arc<dyn Bus>> {
    let uri = tokio::task::spawn_blocking(|| RABBITMQ.amqp_uri()).await?;
    Ok(Arc::new(AmqpBus::start(&AmqpSettings::new(uri))?))
}

/// A store in this schema. Tests that publish what others left have one of their own.
pub async fn store(schema: &str) -> Result<Arc<PostgresStore>> {
    let uri = tokio::task::spawn_blocking(|| POSTGRES.uri()).await?;
    let settings = PostgresSettings::new(format!("{uri}?schema={schema}"));
    Ok(Arc::new(PostgresStore::start(&settings)?))
}

/// A name that nobody used before.
pub fn name(kind: &str) -> Name {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    let number = NAMES.fetch_add(1, Ordering::Relaxed);
    Name::new(&format!("stored.{kind}.{number}")).expect("a valid name")
}

pub fn queue(kind: &str) -> Destination {
    Destination::Queue(name(kind))
}

pub fn message(body: &str, id: Option<&str>) -> Message {
    let headers = Headers::from_pairs(id.map(|id| (MESSAGE_ID, id))).expect("few headers");
    Message::new(body.to_owned()).with_headers(headers)
}

pub fn text(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.message.body).into_owned()
}

pub fn receipts(deliveries: &[Delivery]) -> Vec<Receipt> {
    deliveries.iter().map(|d| d.receipt).collect()
}

pub fn consumed<'a>(subscription: &'a dyn Subscription, of: &[Delivery]) -> Vec<Consumed<'a>> {
    let receipts = receipts(of);
    vec![Consumed {
        subscription,
        receipts,
    }]
}

/// How often each text was handled, as the state says.
pub async fn handled(bus: &dyn Bus, bucket: &Name) -> Result<BTreeMap<String, u64>> {
    let pairs = bus.scan(bucket, None, 1_000, STEP).await?;
    let pair = |(key, value): (bytes::Bytes, bytes::Bytes)| {
        let count = String::from_utf8_lossy(&value).parse::<u64>()?;
        anyhow::Ok((String::from_utf8_lossy(&key).into_owned(), count))
    };
    pairs.into_iter().map(pair).collect()
}

/// Handles deliveries as a worker would: counts each text in the state, and sends on "did …".
pub async fn turn(
    bus: &dyn Bus,
    owner: Option<&Owner>,
    subscription: &dyn Subscription,
    deliveries: &[Delivery],
    output: Option<&Destination>,
) -> Result<()> {
    let mut writes = Vec::new();
    if let Some(owner) = owner {
        let mut counts = handled(bus, &owner.bucket).await?;
        for delivery in deliveries {
            *counts.entry(text(delivery)).or_default() += 1;
        }
        let set = |(key, count): (String, u64)| StateWrite::Set {
            key: key.into(),
            value: count.to_string().into(),
        };
        writes = counts.into_iter().map(set).collect();
    }
    let send = |delivery: &Delivery| {
        let message = message(&format!("did {}", text(delivery)), None);
        Some((output?.clone(), message))
    };
    let commit = Commit {
        owner: owner.cloned(),
        consumed: consumed(subscription, deliveries),
        writes,
        sends: deliveries.iter().filter_map(send).collect(),
    };
    bus.commit(&commit, STEP).await?;
    Ok(())
}

/// Receives exactly that many.
pub async fn receive(subscription: &dyn Subscription, count: usize) -> Result<Vec<Delivery>> {
    let deadline = Instant::now() + STEP;
    let mut received = Vec::new();
    while received.len() < count {
        ensure!(
            Instant::now() < deadline,
            "{} of {count} came",
            received.len()
        );
        let wanted = count - received.len();
        received.extend(subscription.next_batch(wanted, QUIET).await?);
    }
    Ok(received)
}

/// Makes the caller the owner of a bucket.
pub async fn own(bus: &dyn Bus, bucket: &Name) -> Result<Owner> {
    Ok(Owner {
        bucket: bucket.clone(),
        epoch: bus.raise_epoch(bucket, STEP).await?,
    })
}
