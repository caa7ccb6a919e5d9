//! Hivewire's workers, as components.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use kernel::StageAddress;
use kernel::worker::{Code, Failure, Incoming, Turn, Worker, native};
use runtime::{Delivery, Settings, StageSpec, StopTarget, WorkerState, WorkerView};
use tokio::sync::mpsc;
use wasm::Host;

use super::native::{ask, memory_stage, message};
use super::rig::stage;
use super::{PATIENCE, Result, Rig, WorkerError, in_time, refused};

/// The bytes of a worker in `tests/workers`, built if need be.
pub fn bytes(name: &str) -> Result<Vec<u8>> {
    let path = build::test_worker(name).map_err(refused("build a worker"))?;
    std::fs::read(&path).map_err(refused("read a component"))
}

/// The host of all components in this process.
pub fn host() -> Result<Arc<Host>> {
    static HOST: OnceLock<Arc<Host>> = OnceLock::new();
    if let Some(host) = HOST.get() {
        return Ok(host.clone());
    }
    let host = Host::new(wasm::Settings::default()).map_err(refused("start a host"))?;
    Ok(HOST.get_or_init(|| host).clone())
}

/// The code of a worker in `tests/workers`.
pub fn code(name: &str) -> Result<Arc<dyn Code>> {
    Ok(host()?
        .load(&bytes(name)?)
        .map_err(refused("load a component"))?)
}

fn sink_stage(messages: u32) -> StageSpec {
    let mut spec = memory_stage().output("done", done());
    spec.args = messages.to_string();
    spec
}

/// Where the sink says that it has all.
fn done() -> StageAddress {
    StageAddress::new("bench", "done").expect("both are names")
}

/// Passes on what the sink says.
struct Done(mpsc::UnboundedSender<(Instant, Vec<u8>)>);

#[async_trait]
impl Worker for Done {
    async fn receive(&mut self, message: &Incoming, _turn: &mut Turn) -> Result<(), Failure> {
        // Whoever no longer waits has reported an error already.
        let _ = self.0.send((Instant::now(), message.message.body.to_vec()));
        Ok(())
    }
}

/// Sends so many messages from one task to one worker. How long it took until the last one was
/// handled and the worker had said so.
pub fn tell(messages: u32) -> Result<Duration> {
    let rig = Rig::in_memory()?;
    let (sender, mut verdict) = mpsc::unbounded_channel();
    let receiver = native("done", "1", move |_| Done(sender.clone()));
    let done_stage = StageSpec::new(done()).delivery(Delivery::Memory);
    rig.deploy(done_stage, receiver)?;
    rig.deploy(sink_stage(messages), code("sink")?)?;
    let sender = rig.runtime.sender(&stage());
    rig.in_task(async move {
        let began = Instant::now();
        for number in 0..messages {
            let sent = sender.send(message(number)).await;
            sent.map_err(refused("send"))?;
        }
        let said = in_time("the arrival of the last message", verdict.recv()).await?;
        match said {
            Some((at, wrong)) if wrong == b"0" => Ok(at - began),
            _ => Err(WorkerError::Wrong { wrong: 1, messages }),
        }
    })
}

/// Asks so many times, one after another, from a task. How long it took.
pub fn ask_from_task(asks: u32) -> Result<Duration> {
    let rig = Rig::in_memory()?;
    rig.deploy(sink_stage(asks), code("sink")?)?;
    let sender = rig.runtime.sender(&stage());
    rig.in_task(ask(sender, asks))
}

/// How long it took to start a stage of workers, each with its instance.
#[derive(Debug, Clone, Copy)]
pub struct Started {
    /// The first time, when no place for an instance was ever used by this component.
    pub first: Duration,
    /// After the stage was stopped.
    pub again: Duration,
}

/// Starts a stage of so many workers, stops it, and starts it again.
pub fn start(workers: u32) -> Result<Started> {
    let rig = Rig::in_memory_with(Settings {
        eager_workers_max: workers,
        ..Settings::default()
    })?;
    // Whatever ran before ran another component.
    static VERSION: AtomicU32 = AtomicU32::new(0);
    let version = VERSION.fetch_add(1, Ordering::Relaxed);
    let host = host()?;
    let code = load(&host, &bytes("sink")?, version)?;
    let first = start_once(&rig, workers, code.clone())?;
    let target = StopTarget::Stage(stage());
    let stopped = rig.runtime.stop(&target);
    let stopped = rig.block_on(in_time("the end of a stage", stopped))?;
    stopped.map_err(refused("stop a stage"))?;
    let again = start_once(&rig, workers, code)?;
    Ok(Started { first, again })
}

fn start_once(rig: &Rig, workers: u32, code: Arc<dyn Code>) -> Result<Duration> {
    let began = Instant::now();
    rig.deploy(sink_stage(1).workers(workers), code)?;
    let elapsed = began.elapsed();
    let views = rig.runtime.workers(&stage(), 0, workers as usize);
    let passive = |view: &WorkerView| view.state == WorkerState::Passive;
    match views {
        Some(views) if views.len() == workers as usize && !views.iter().any(passive) => Ok(elapsed),
        _ => Err(WorkerError::Refused {
            action: "start workers".to_owned(),
            reason: "not all of them have an instance".to_owned(),
        }),
    }
}

/// Compiles a component with a number at its end, which makes it another one each time.
pub(super) fn load(host: &Host, component: &[u8], number: u32) -> Result<Arc<dyn Code>> {
    let mut bytes = component.to_vec();
    bytes.extend(unused_section(number));
    let code = host.load(&bytes);
    Ok(code.map_err(refused("load a component"))?)
}

/// A custom section that nobody reads: its id, its length, its name, a number.
fn unused_section(number: u32) -> Vec<u8> {
    let mut section = vec![0, 6, 1, b'n'];
    section.extend(number.to_le_bytes());
    section
}

/// Asks so many workers that were put aside, one after another. How long each answer took, the
/// shortest first.
pub fn wake(workers: u32) -> Result<Vec<Duration>> {
    let rig = Rig::in_memory()?;
    deploy_passivated(&rig, workers, code("counter")?)?;
    put_aside(&rig, 0, workers)?;
    let runtime = rig.runtime.clone();
    rig.in_task(async move {
        let mut waits = Vec::with_capacity(workers as usize);
        for number in 0..workers {
            let address = stage().worker(number).into();
            let began = Instant::now();
            let answer = runtime.ask(&address, message(number), PATIENCE).await;
            waits.push(began.elapsed());
            answer.map_err(refused("ask"))?;
        }
        waits.sort_unstable();
        Ok(waits)
    })
}

/// Deploys workers that count, save their count, and are put aside after a second.
pub(super) fn deploy_passivated(rig: &Rig, workers: u32, code: Arc<dyn Code>) -> Result<()> {
    let mut spec = memory_stage().workers(workers);
    spec.intake.passivate_after_ms = 1;
    rig.deploy(spec, code)
}

/// Sends one message to each of so many workers, from that one on, and waits until all of them were
/// put aside. The workers get their messages in turn, so this has to be called in turn as well.
pub(super) fn put_aside(rig: &Rig, from: u32, workers: u32) -> Result<()> {
    let sender = rig.runtime.sender(&stage());
    rig.in_task(async move {
        for number in 0..workers {
            let sent = sender.send(message(number)).await;
            sent.map_err(refused("send"))?;
        }
        Ok(())
    })?;
    let deadline = Instant::now() + PATIENCE;
    while !all_aside(rig, from, workers) {
        if Instant::now() > deadline {
            return Err(WorkerError::TooLate {
                what: "putting workers aside".to_owned(),
            });
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn all_aside(rig: &Rig, from: u32, workers: u32) -> bool {
    let views = rig.runtime.workers(&stage(), from, workers as usize);
    views.is_some_and(|views| {
        views
            .iter()
            .all(|view| view.turns > 0 && view.state == WorkerState::Passive)
    })
}
