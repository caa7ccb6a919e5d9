//! RabbitMQ's own protocol, with the client library that our engine uses too.

use futures_lite::StreamExt;
use kernel::Name;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Confirmation, Connection, ConnectionProperties, Consumer, PublisherConfirm};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{PREFETCH_COUNT, Queues, Running};
use crate::workers::{Result, in_time, refused};

/// How many messages are acknowledged at once.
const TOGETHER_MAX: usize = 256;

async fn connect(uri: &str) -> Result<Connection> {
    let connecting = Connection::connect(uri, ConnectionProperties::default());
    in_time("a connection", connecting)
        .await?
        .map_err(refused("connect"))
}

/// Looks after the queues of a RabbitMQ server.
pub struct Keeper {
    channel: Channel,
    _connection: Connection,
}

impl Keeper {
    /// Connects.
    pub async fn start(uri: &str) -> Result<Self> {
        let connection = connect(uri).await?;
        let channel = connection.create_channel().await;
        Ok(Self {
            channel: channel.map_err(refused("open a channel"))?,
            _connection: connection,
        })
    }

    /// How many messages wait in a queue.
    pub async fn length(&self, queue: &Name) -> Result<u32> {
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let name = queue.as_str().into();
        let found = self
            .channel
            .queue_declare(name, passive, FieldTable::default());
        Ok(found
            .await
            .map_err(refused("look at a queue"))?
            .message_count())
    }

    /// Deletes a queue.
    pub async fn delete(&self, queue: &Name) -> Result<()> {
        let options = QueueDeleteOptions::default();
        let deleted = self.channel.queue_delete(queue.as_str().into(), options);
        deleted.await.map_err(refused("delete a queue")).map(|_| ())
    }
}

/// A message that was published, and the delivery that it came from.
type Published = (u64, PublisherConfirm);

struct Relay {
    connection: Connection,
    /// Open until the last confirm has come.
    _giving: Channel,
    publishing: JoinHandle<Result<()>>,
    acknowledging: JoinHandle<Result<()>>,
}

/// Starts a bare relay.
pub async fn start(uri: &str, queues: &Queues) -> Result<Box<dyn Running>> {
    let connection = connect(uri).await?;
    let open = async || connection.create_channel().await;
    let taking = open().await.map_err(refused("open a channel"))?;
    let giving = open().await.map_err(refused("open a channel"))?;
    let confirms = giving.confirm_select(ConfirmSelectOptions::default());
    confirms.await.map_err(refused("ask for confirms"))?;
    let credit = taking.basic_qos(PREFETCH_COUNT, BasicQosOptions::default());
    credit.await.map_err(refused("set the prefetch"))?;
    let consumer = taking.basic_consume(
        queues.input().as_str().into(),
        "relay".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let consumer = consumer.await.map_err(refused("consume"))?;
    let (published, to_acknowledge) = mpsc::channel(usize::from(PREFETCH_COUNT));
    let publishing = publish(consumer, giving.clone(), queues.output.clone(), published);
    Ok(Box::new(Relay {
        connection,
        _giving: giving,
        publishing: tokio::spawn(publishing),
        acknowledging: tokio::spawn(acknowledge(taking, to_acknowledge)),
    }))
}

/// Publishes what comes, without waiting for confirms.
async fn publish(
    mut consumer: Consumer,
    channel: Channel,
    output: Name,
    published: mpsc::Sender<Published>,
) -> Result<()> {
    while let Some(delivery) = consumer.next().await {
        let delivery = delivery.map_err(refused("consume"))?;
        let confirm = channel.basic_publish(
            "".into(),
            output.as_str().into(),
            BasicPublishOptions::default(),
            &delivery.data,
            delivery.properties,
        );
        let confirm = confirm.await.map_err(refused("publish"))?;
        if published
            .send((delivery.delivery_tag, confirm))
            .await
            .is_err()
        {
            // Whoever acknowledges has an error to report.
            return Ok(());
        }
    }
    Ok(())
}

/// Acknowledges what is confirmed: whatever has been published meanwhile at once, up to the last.
async fn acknowledge(channel: Channel, mut published: mpsc::Receiver<Published>) -> Result<()> {
    let mut some = Vec::new();
    while published.recv_many(&mut some, TOGETHER_MAX).await > 0 {
        let mut last = 0;
        for (tag, confirm) in some.drain(..) {
            match confirm.await.map_err(refused("wait for a confirm"))? {
                Confirmation::Ack(None) => last = tag,
                other => return Err(refused("publish")(format!("{other:?}"))),
            }
        }
        let options = BasicAckOptions { multiple: true };
        let acknowledged = channel.basic_ack(last, options);
        acknowledged.await.map_err(refused("acknowledge"))?;
    }
    Ok(())
}

impl Running for Relay {
    fn stop(self: Box<Self>, tokio: &Runtime) -> Result<()> {
        tokio.block_on(async {
            // A message in between would be one that was already counted.
            self.publishing.abort();
            let acknowledged = in_time("the last acknowledgement", self.acknowledging).await?;
            acknowledged.map_err(refused("acknowledge"))??;
            let closed = self.connection.close(200, "done".into()).await;
            closed.map_err(refused("disconnect"))
        })
    }
}
