//! The embedded engine on a disk in memory that loses power.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use broker::{Broker, Settings, SystemClock};
use bus::engines::EmbeddedBus;
use bus::{Bus, Given};
use hivewire_tests::proxy::Proxy;
use journal::Options;
use journal::testing::{Fault, Loss, MemoryStorage, Operation};
use parking_lot::Mutex;

use crate::suite::Fixture;

pub struct EmbeddedFixture {
    running: Mutex<(MemoryStorage, Arc<Broker>)>,
}

impl EmbeddedFixture {
    pub fn start() -> Result<Self> {
        let storage = MemoryStorage::new(1);
        let broker = start(&storage)?;
        Ok(Self {
            running: Mutex::new((storage, broker)),
        })
    }
}

fn start(storage: &MemoryStorage) -> Result<Arc<Broker>> {
    // Small segments, so that a crash also falls on the change from one to the next.
    let options = Options {
        segment_bytes: 4 << 20,
        record_bytes_max: 2 << 20,
        pending_bytes_max: 1 << 20,
        ..Options::default()
    };
    let storage = Arc::new(storage.clone());
    let (broker, _) = Broker::start(storage, options, Settings::default(), Arc::new(SystemClock))?;
    Ok(broker)
}

#[async_trait]
impl Fixture for EmbeddedFixture {
    fn label(&self) -> &'static str {
        "embedded"
    }

    async fn connect(&self) -> Result<Arc<dyn Bus>> {
        let broker = self.running.lock().1.clone();
        Ok(Arc::new(EmbeddedBus::new(broker)))
    }

    async fn restart(&self) -> Result<()> {
        let mut running = self.running.lock();
        running.0.clear_faults();
        let storage = running.0.restart(Loss::Torn);
        let broker = start(&storage)?;
        *running = (storage, broker);
        Ok(())
    }

    fn patience(&self) -> Duration {
        // Nothing takes long here, and broken engines make the suite wait.
        Duration::from_secs(2)
    }

    fn network(&self) -> Option<&Proxy> {
        None
    }

    fn can_crash_at_a_point(&self) -> Given {
        Given::Yes
    }

    fn crash_after(&self, operations: u64) -> bool {
        let running = self.running.lock();
        running.0.fail(Operation::Any, operations, Fault::Crash);
        true
    }

    fn has_crashed(&self) -> bool {
        let running = self.running.lock();
        running.0.clear_faults();
        running.0.is_crashed()
    }
}
