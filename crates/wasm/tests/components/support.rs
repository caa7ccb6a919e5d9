//! What the tests share: built workers, and a host of turns that keeps everything in memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{
    Code, Effects, Failure, FailureKind, Host as TurnHost, Incoming, InstanceLimits, LogLevel,
    Start, Ticket, Turn, TurnLimits, Worker,
};
use kernel::{Address, Message, StageAddress, Timestamp};
use wasm::{Host, Settings, WorkerCode};

/// One host for all tests of a file, as there is one in a process.
pub static HOST: LazyLock<Arc<Host>> = LazyLock::new(|| {
    let settings = Settings {
        instances_max: 200,
        ..Settings::default()
    };
    Host::new(settings).unwrap()
});

/// The component of a worker in `tests/workers`.
pub fn component(name: &str) -> Vec<u8> {
    let path = build::test_worker(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    std::fs::read(path).unwrap()
}

/// The code of a worker in `tests/workers`.
pub fn code(name: &str) -> Arc<WorkerCode> {
    HOST.load(&component(name)).unwrap()
}

/// Runs a future that never waits for anything but this thread.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    futures_lite::future::block_on(future)
}

/// Keeps state, log and grants of one worker.
#[derive(Default)]
pub struct Memory {
    pub state: Mutex<BTreeMap<Bytes, Bytes>>,
    pub lines: Mutex<Vec<(LogLevel, String)>>,
    tickets: AtomicU64,
}

#[async_trait]
impl TurnHost for Memory {
    async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        if key.ends_with(b"never") {
            std::future::pending::<()>().await;
        }
        Ok(self.state.lock().unwrap().get(key).cloned())
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        let state = self.state.lock().unwrap();
        let pairs = state
            .iter()
            .filter(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| after.is_none_or(|after| &key[..] > after));
        Ok(pairs
            .take(pairs_max)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn may_send(&self, to: &Address) -> Result<(), Failure> {
        match to.to_string().contains("forbidden") {
            true => Err(Failure::of(FailureKind::Denied, format!("grant send:{to}"))),
            false => Ok(()),
        }
    }

    fn may_emit(&self, output: &str) -> Result<(), Failure> {
        match output {
            "out" => Ok(()),
            _ => Err(Failure::of(
                FailureKind::Denied,
                format!("there is no output {output}"),
            )),
        }
    }

    fn next_ticket(&self) -> Ticket {
        self.tickets.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_234_567)
    }

    fn log(&self, level: LogLevel, line: &str) {
        self.lines.lock().unwrap().push((level, line.to_owned()));
    }
}

/// An instance with its turn.
pub struct Running {
    pub worker: Box<dyn Worker>,
    pub turn: Turn,
    pub memory: Arc<Memory>,
}

impl Running {
    /// An instance under the usual limits, initialised with these arguments.
    pub fn start(code: &dyn Code, args: &[u8]) -> Self {
        Self::start_with(code, args, InstanceLimits::default())
    }

    pub fn start_with(code: &dyn Code, args: &[u8], limits: InstanceLimits) -> Self {
        let memory = Arc::new(Memory::default());
        let start = Start {
            address: StageAddress::new("shop", "orders").unwrap().worker(3),
            limits,
        };
        let mut running = Self {
            worker: code.instantiate(&start).unwrap(),
            turn: Turn::new(memory.clone(), TurnLimits::default()),
            memory,
        };
        now(running.worker.init(args, &mut running.turn)).unwrap();
        running
    }

    /// Handles these messages and gives what it did.
    pub fn handle(&mut self, messages: &[Incoming]) -> Result<Effects, Failure> {
        let result = now(self.worker.handle(messages, &mut self.turn));
        let effects = self.turn.take_effects().spread();
        result.map(|()| effects)
    }

    /// Handles one message with this body; what it writes is committed.
    pub fn tell(&mut self, body: &str) -> Result<Effects, Failure> {
        let effects = self.handle(&[text(body)])?;
        self.commit(&effects);
        Ok(effects)
    }

    /// Handles this message; what it writes is committed.
    pub fn tell_message(&mut self, message: Incoming) -> Effects {
        let effects = self.handle(&[message]).unwrap();
        self.commit(&effects);
        effects
    }

    /// Makes what was written permanent.
    pub fn commit(&self, effects: &Effects) {
        let mut state = self.memory.state.lock().unwrap();
        for (key, value) in &effects.writes {
            match value {
                Some(value) => state.insert(key.clone(), value.clone()),
                None => state.remove(key),
            };
        }
    }
}

/// A message with this body.
pub fn text(body: &str) -> Incoming {
    Incoming::new(Message::new(body.to_owned()))
}

/// The bodies of what was sent.
pub fn bodies(effects: &Effects) -> Vec<String> {
    effects
        .sends
        .iter()
        .map(|sent| String::from_utf8_lossy(&sent.message.body).into_owned())
        .collect()
}

/// What else the machine does delays one of several tries, a limit that does not hold all of them.
const TRIES: usize = 3;

/// Tries something until it ends within the limit, or once too often.
pub fn in_time<T>(what: &str, limit: Duration, mut attempt: impl FnMut() -> T) -> T {
    let mut took = Vec::new();
    while took.len() < TRIES {
        let start = Instant::now();
        let outcome = attempt();
        let elapsed = start.elapsed();
        if elapsed <= limit {
            return outcome;
        }
        took.push(elapsed);
    }
    panic!("{what} ran for {took:?}");
}
