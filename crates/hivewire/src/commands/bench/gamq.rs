//! The benchmark's gamq client.

use std::net::SocketAddr;

use kernel::limits::BODY_BYTES_MAX;
use wire::gamq::{self, DeliveryDecoder, PUBACK};

use super::link::Link;
use super::load::{Consumer, Endpoints, Producer};

pub(super) fn endpoints(address: SocketAddr, queue: &str) -> Endpoints {
    let (to, from) = (queue.to_owned(), queue.to_owned());
    Endpoints {
        producer: Box::new(move || {
            let mut link = Link::connect(address)?;
            gamq::encode_set_ack(&mut link.output, true);
            let queue = to.clone();
            Ok(Box::new(GamqProducer {
                link,
                queue,
                unconfirmed: 0,
            }))
        }),
        consumer: Box::new(move || {
            let mut link = Link::connect(address)?;
            gamq::encode_subscribe(&mut link.output, &from)?;
            link.flush()?;
            let decoder = DeliveryDecoder::new(BODY_BYTES_MAX);
            Ok(Box::new(GamqConsumer { link, decoder }))
        }),
    }
}

struct GamqProducer {
    link: Link,
    queue: String,
    unconfirmed: usize,
}

impl Producer for GamqProducer {
    fn push(&mut self, body: &[u8]) -> anyhow::Result<usize> {
        gamq::encode_publish(&mut self.link.output, &self.queue, body)?;
        self.unconfirmed += 1;
        Ok(self.link.output.len())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.link.flush()
    }

    fn read_confirmations(&mut self) -> anyhow::Result<usize> {
        self.link.read()?;
        let confirmed = self.link.input.len() / PUBACK.len();
        let used = confirmed * PUBACK.len();
        for answer in self.link.input[..used].chunks(PUBACK.len()) {
            anyhow::ensure!(
                answer == PUBACK,
                "the node refused a message; look at its log"
            );
        }
        self.link.input.drain(..used);
        self.unconfirmed = self.unconfirmed.saturating_sub(confirmed);
        Ok(self.unconfirmed)
    }

    fn unconfirmed(&self) -> usize {
        self.unconfirmed
    }
}

struct GamqConsumer {
    link: Link,
    decoder: DeliveryDecoder,
}

impl Consumer for GamqConsumer {
    fn receive(&mut self, each: &mut dyn FnMut(&[u8])) -> anyhow::Result<()> {
        self.link.read()?;
        let mut used = 0;
        while let Some(delivered) = self.decoder.decode(&self.link.input[used..])? {
            each(delivered.body);
            used += delivered.consumed;
        }
        self.link.input.drain(..used);
        Ok(())
    }
}
