//! Servers that speak STOMP, as processes of their own, one of them also over a network that
//! misbehaves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use bus::engines::{StompBus, StompSettings};
use bus::{Bus, Given};
use hivewire_bench::peers::activemq::ActiveMq;
use hivewire_tests::hive::Hive;
use hivewire_tests::proxy::Proxy;
use kernel::Name;
use parking_lot::Mutex;

use super::Server;
use crate::suite::{Fixture, STEP};

/// How long each byte takes in each direction over the slow network.
const DELAY: Duration = Duration::from_millis(3);

/// How soon the broker notices that a client has died without a word: twice this. The default
/// would do, but make the suite wait.
const HIVEWIRE_SETTINGS: &str = "[stomp]\nheart_beat_want_ms = 3000\n";

/// A server that can crash.
#[derive(Clone)]
pub enum StompServer {
    Hivewire(Arc<Mutex<Hive>>),
    RabbitMq(Server),
    ActiveMq(Arc<Mutex<ActiveMq>>),
}

impl StompServer {
    /// Starts a Hivewire broker.
    pub fn hivewire() -> Result<Self> {
        let hive = Hive::options().config(HIVEWIRE_SETTINGS).start()?;
        Ok(Self::Hivewire(Arc::new(Mutex::new(hive))))
    }

    /// Starts an ActiveMQ broker.
    pub fn activemq() -> Result<Self> {
        Ok(Self::ActiveMq(Arc::new(Mutex::new(ActiveMq::start()?))))
    }

    /// What it must be recognised as.
    fn engine(&self) -> &'static str {
        match self {
            Self::Hivewire(_) => "stomp, hivewire",
            Self::RabbitMq(_) => "stomp, rabbitmq",
            Self::ActiveMq(_) => "stomp, activemq",
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Hivewire(hive) => hive.lock().stomp_address(),
            Self::RabbitMq(server) => server.lock().stomp_address(),
            Self::ActiveMq(server) => server.lock().stomp_address(),
        }
    }

    fn crash_and_restart(&self) -> Result<()> {
        match self {
            Self::Hivewire(hive) => {
                let mut hive = hive.lock();
                hive.kill9();
                hive.start_again()?;
            }
            Self::RabbitMq(server) => {
                let mut server = server.lock();
                server.kill();
                server.restart()?;
            }
            Self::ActiveMq(server) => {
                let mut server = server.lock();
                server.kill();
                server.restart()?;
            }
        }
        Ok(())
    }
}

pub struct StompFixture {
    server: StompServer,
    address: SocketAddr,
    proxy: Option<Proxy>,
    /// Whether it connects as a node.
    is_node: bool,
}

impl StompFixture {
    /// Without anything in between.
    pub fn direct(server: StompServer) -> Self {
        Self {
            address: server.address(),
            server,
            proxy: None,
            is_node: false,
        }
    }

    /// As a node of a Hivewire broker, which keeps its state.
    pub fn node(server: StompServer) -> Self {
        Self {
            is_node: true,
            ..Self::direct(server)
        }
    }

    /// As a node, through a proxy that delays and can cut.
    pub fn over_slow_network(server: StompServer) -> Result<Self> {
        let proxy = Proxy::start(server.address())?;
        proxy.set_delay(DELAY);
        Ok(Self {
            address: proxy.address(),
            server,
            proxy: Some(proxy),
            is_node: true,
        })
    }
}

#[async_trait]
impl Fixture for StompFixture {
    fn label(&self) -> &'static str {
        match (self.is_node, &self.proxy) {
            (false, _) => self.server.engine(),
            (true, None) => "stomp, node",
            (true, Some(_)) => "stomp, slow network",
        }
    }

    async fn connect(&self) -> Result<Arc<dyn Bus>> {
        let url = format!("stomp://guest:guest@{}", self.address);
        let mut settings = StompSettings::new(url);
        settings.node = self.is_node.then(|| Name::new("contract")).transpose()?;
        let bus = StompBus::start(&settings)?;
        bus.connected(STEP).await?;
        let engine = bus.capabilities().engine;
        ensure!(
            engine == self.server.engine(),
            "{} was taken for {engine}",
            self.server.engine()
        );
        Ok(Arc::new(bus))
    }

    async fn restart(&self) -> Result<()> {
        let server = self.server.clone();
        tokio::task::spawn_blocking(move || server.crash_and_restart()).await?
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
