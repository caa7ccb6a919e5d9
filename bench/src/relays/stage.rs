//! A stage of one worker that sends every message on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use broker::SystemClock;
use bus::Bus;
use kernel::worker::{Failure, Incoming, Turn, Worker, native};
use kernel::{Address, Message};
use runtime::{Runtime, Settings, StageSpec};

use super::{Queues, Running};
use crate::workers::{Result, in_time, refused};

const OUTPUT: &str = "on";
const STOP_PATIENCE: Duration = Duration::from_secs(10);

struct Forwarder;

#[async_trait]
impl Worker for Forwarder {
    async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        turn.emit(OUTPUT, Message::new(message.message.body.clone()))
    }
}

struct Stage {
    runtime: Arc<Runtime>,
}

/// Starts a stage with durable delivery over this bus.
pub async fn start(bus: Arc<dyn Bus>, queues: &Queues) -> Result<Box<dyn Running>> {
    let runtime = Runtime::start(bus, Settings::default(), Arc::new(SystemClock));
    let to = Address::Queue(queues.output.clone());
    let spec = StageSpec::new(queues.stage.clone()).output(OUTPUT, to);
    let code = native("forwarder", "1", |_| Forwarder);
    let deployed = in_time("a deployment", runtime.deploy(spec, code)).await?;
    deployed.map_err(refused("deploy"))?;
    Ok(Box::new(Stage { runtime }))
}

impl Running for Stage {
    fn stop(self: Box<Self>, tokio: &tokio::runtime::Runtime) -> Result<()> {
        tokio.block_on(self.runtime.shutdown(STOP_PATIENCE));
        Ok(())
    }
}
