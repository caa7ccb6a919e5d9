//! RabbitMQ as a process of its own, reached directly or over a network that misbehaves.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use bus::engines::{AmqpBus, AmqpSettings};
use bus::{Bus, Given};
use hivewire_bench::peers::rabbitmq::RabbitMq;
use hivewire_tests::proxy::Proxy;
use parking_lot::Mutex;

use crate::suite::Fixture;

/// How long each byte takes in each direction over the slow network.
const DELAY: Duration = Duration::from_millis(3);

/// The server, which both fixtures share.
pub type Server = Arc<Mutex<RabbitMq>>;

pub struct AmqpFixture {
    server: Server,
    uri: String,
    proxy: Option<Proxy>,
}

impl AmqpFixture {
    /// Without anything in between.
    pub fn direct(server: Server) -> Self {
        let uri = server.lock().amqp_uri();
        Self {
            server,
            uri,
            proxy: None,
        }
    }

    /// Through a proxy that delays and can cut.
    pub fn over_slow_network(server: Server) -> Result<Self> {
        let (uri, address) = {
            let server = server.lock();
            (server.amqp_uri(), server.amqp_address())
        };
        let proxy = Proxy::start(address)?;
        proxy.set_delay(DELAY);
        let uri = uri.replace(&address.to_string(), &proxy.address().to_string());
        Ok(Self {
            server,
            uri,
            proxy: Some(proxy),
        })
    }
}

#[async_trait]
impl Fixture for AmqpFixture {
    fn label(&self) -> &'static str {
        match self.proxy {
            None => "amqp",
            Some(_) => "amqp, slow network",
        }
    }

    async fn connect(&self) -> Result<Arc<dyn Bus>> {
        Ok(Arc::new(AmqpBus::start(&AmqpSettings::new(&self.uri))?))
    }

    async fn restart(&self) -> Result<()> {
        let server = self.server.clone();
        let restart = move || {
            let mut server = server.lock();
            server.kill();
            server.restart()
        };
        Ok(tokio::task::spawn_blocking(restart).await??)
    }

    fn network(&self) -> Option<&Proxy> {
        self.proxy.as_ref()
    }

    fn can_restart(&self) -> Given {
        match self.proxy {
            None => Given::Yes,
            Some(_) => Given::No("the same server is restarted in the column before"),
        }
    }
}
