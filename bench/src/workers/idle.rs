//! How much memory idle workers take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kernel::StageAddress;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use runtime::{Delivery, Settings, StageSpec};
use wasm::Host;

use super::component;
use super::native::{memory_stage, message};
use super::rig::stage;
use super::{PATIENCE, Result, Rig, WorkerError, refused};
use crate::peers::resident_bytes;

/// Component workers that stay in memory.
const RESIDENT: u32 = 1_000;

/// Component workers that wait to be put aside at once.
const AT_ONCE: u32 = 1_000;

/// Instances that a hand-over needs for a moment.
const SPARE: u32 = 50;

/// How many messages are on their way at once.
const WAVE: u32 = 1_000;

static HANDLED: AtomicU32 = AtomicU32::new(0);

/// A worker with eight bytes of state.
struct Counter(u64);

#[async_trait]
impl Worker for Counter {
    async fn receive(&mut self, _message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        self.0 += 1;
        HANDLED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Bytes per idle native worker, each of which has had one message. Meant for a process of its own:
/// memory that was free before would hide growth.
pub fn native_bytes(workers: u32) -> Result<f64> {
    let rig = Rig::in_memory()?;
    let code = native("counter", "1", |_| Counter(0));
    rig.deploy(memory_stage(), code.clone())?;
    send_round(&rig, 1)?;
    let before = resident()?;
    rig.deploy(memory_stage().workers(workers), code)?;
    send_round(&rig, workers)?;
    let after = resident()?;
    Ok(after.saturating_sub(before) as f64 / f64::from(workers))
}

/// Bytes per component worker that was put aside, beside 1,000 of another stage that are in memory.
/// Each has had one message and runs that worker of `tests/workers`. Meant for a process of its own.
pub fn passivated_bytes(worker: &str, workers: u32) -> Result<f64> {
    let rig = Rig::in_memory_with(Settings {
        eager_workers_max: RESIDENT,
        ..Settings::default()
    })?;
    // No more places for instances than are needed, so that each is used before the measurement.
    let host = Host::new(wasm::Settings {
        instances_max: RESIDENT + AT_ONCE + SPARE,
        ..wasm::Settings::default()
    });
    let host = host.map_err(refused("start a host"))?;
    let code: Arc<dyn Code> = host
        .load(&component::bytes(worker)?)
        .map_err(refused("load a component"))?;
    let address = StageAddress::new("bench", "resident").expect("both are names");
    let mut resident_stage = StageSpec::new(address)
        .delivery(Delivery::Memory)
        .workers(RESIDENT);
    resident_stage.intake.passivate_after_ms = 0;
    rig.deploy(resident_stage, code.clone())?;
    // Whatever the places of instances keep for themselves they keep from now on.
    component::deploy_passivated(&rig, AT_ONCE, code.clone())?;
    component::put_aside(&rig, 0, AT_ONCE)?;
    let before = resident()?;
    component::deploy_passivated(&rig, AT_ONCE + workers, code)?;
    let mut aside = 0;
    while aside < workers {
        let wave = AT_ONCE.min(workers - aside);
        component::put_aside(&rig, AT_ONCE + aside, wave)?;
        aside += wave;
    }
    let after = resident()?;
    Ok(after.saturating_sub(before) as f64 / f64::from(workers))
}

/// Sends one message to each worker, few at a time, so that no memory is taken for a backlog, and
/// waits until all are handled.
fn send_round(rig: &Rig, workers: u32) -> Result<()> {
    let sender = rig.runtime.sender(&stage());
    let handled = HANDLED.load(Ordering::Relaxed);
    rig.in_task(async move {
        for number in 0..workers {
            let sent = sender.send(message(number)).await;
            sent.map_err(refused("send"))?;
            if (number + 1) % WAVE == 0 || number + 1 == workers {
                wait_until(handled + number + 1).await?;
            }
        }
        Ok(())
    })
}

async fn wait_until(handled: u32) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while HANDLED.load(Ordering::Relaxed) < handled {
        if Instant::now() > deadline {
            return Err(WorkerError::TooLate {
                what: "the handling of the last message".to_owned(),
            });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

fn resident() -> Result<u64> {
    let memory = resident_bytes(std::process::id());
    Ok(memory
        .map_err(refused("read the memory of this process"))?
        .now)
}
