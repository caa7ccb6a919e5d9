//! Hivewire's runtime in this process, over a broker with a journal on disk.

use std::sync::Arc;
use std::time::Duration;

use broker::{Broker, SystemClock};
use bus::Bus;
use bus::engines::EmbeddedBus;
use journal::{DiskStorage, Options};
use kernel::worker::Code;
use kernel::{Name, StageAddress};
use runtime::{Runtime, Settings, StageSpec};
use tempfile::TempDir;

use super::{Result, in_time, refused};
use crate::peers::data_directory;

const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A tokio runtime with one thread per core.
pub fn tokio_runtime() -> Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores)
        .enable_all()
        .build()
        .map_err(refused("start tokio"))
}

/// Hivewire's runtime in this process. Dropping it stops everything and removes the data.
pub struct Rig {
    /// Runs workers.
    pub runtime: Arc<Runtime>,
    /// Carries durable messages.
    pub bus: Arc<dyn Bus>,
    broker: Arc<Broker>,
    tokio: tokio::runtime::Runtime,
    _data: TempDir,
}

impl Rig {
    /// For stages in memory: segments are small, so that preparing them costs no time.
    pub fn in_memory() -> Result<Self> {
        Self::in_memory_with(Settings::default())
    }

    /// As before, with these settings.
    pub fn in_memory_with(settings: Settings) -> Result<Self> {
        let options = Options {
            segment_bytes: 1 << 20,
            record_bytes_max: 1 << 19,
            ..Options::default()
        };
        Self::start(settings, options)
    }

    /// For durable stages, with the settings that everybody gets.
    pub fn durable() -> Result<Self> {
        Self::start(Settings::default(), Options::default())
    }

    fn start(settings: Settings, options: Options) -> Result<Self> {
        let data = data_directory("workers").map_err(refused("make a directory"))?;
        let storage = DiskStorage::open(data.path()).map_err(refused("open a journal"))?;
        let tokio = tokio_runtime()?;
        let entered = tokio.enter();
        let (broker, _) = Broker::start(
            Arc::new(storage),
            options,
            broker::Settings::default(),
            Arc::new(SystemClock),
        )
        .map_err(refused("start a broker"))?;
        let bus: Arc<dyn Bus> = Arc::new(EmbeddedBus::new(broker.clone()));
        let runtime = Runtime::start(bus.clone(), settings, Arc::new(SystemClock));
        drop(entered);
        Ok(Self {
            runtime,
            bus,
            broker,
            tokio,
            _data: data,
        })
    }

    /// Runs something on the calling thread.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.tokio.block_on(future)
    }

    /// Runs something in a task of its own, on the threads of tokio.
    pub fn in_task<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        in_task(&self.tokio, future)
    }

    /// Deploys a stage and waits until it runs.
    pub fn deploy(&self, spec: StageSpec, code: Arc<dyn Code>) -> Result<()> {
        let deployed = in_time("a deployment", self.runtime.deploy(spec, code));
        let deployed = self.tokio.block_on(deployed)?;
        deployed.map_err(refused("deploy")).map(|_| ())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.tokio.block_on(self.runtime.shutdown(STOP_PATIENCE));
        if let Err(error) = self.broker.journal().shutdown() {
            eprintln!("hivewire-bench: the journal did not end well: {error}");
        }
    }
}

/// Runs something in a task of its own.
pub(super) fn in_task<T: Send + 'static>(
    tokio: &tokio::runtime::Runtime,
    future: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let task = tokio.spawn(future);
    tokio.block_on(task).map_err(refused("finish a task"))?
}

/// The stage that everything is sent to.
pub(super) fn stage() -> StageAddress {
    let name = |text| Name::new(text).expect("it is a name");
    StageAddress::new(name("bench").as_str(), name("sink").as_str()).expect("both are names")
}
