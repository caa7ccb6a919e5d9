//! Runs one worker without a runtime: turns are committed to a state in memory, timers go off when told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flows::Event;
use flows::plugins::Environment;
use kernel::worker::{
    Code, Effects, Failure, Host, Incoming, InstanceLimits, Kind, LogLevel, Provided, Start,
    Target, Ticket, Turn, TurnLimits, Worker,
};
use kernel::{Address, Message, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

/// The state of a bucket, and the time.
pub struct Store {
    pub state: Mutex<BTreeMap<Bytes, Bytes>>,
    /// How often each key was read.
    pub reads: Mutex<BTreeMap<Bytes, usize>>,
    now_ms: AtomicU64,
    tickets: AtomicU64,
    outputs: Vec<String>,
}

#[async_trait]
impl Host for Store {
    async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        let read = Bytes::copy_from_slice(key);
        *self.reads.lock().entry(read).or_default() += 1;
        Ok(self.state.lock().get(key).cloned())
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        let state = self.state.lock();
        let found = state.iter().filter(|(key, _)| key.starts_with(prefix));
        let found = found.filter(|(key, _)| after.is_none_or(|after| &key[..] > after));
        Ok(found
            .take(pairs_max)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn may_send(&self, _: &Address) -> Result<(), Failure> {
        Ok(())
    }

    fn may_emit(&self, output: &str) -> Result<(), Failure> {
        match self.outputs.is_empty() || self.outputs.iter().any(|known| known == output) {
            true => Ok(()),
            false => Err(Failure::new(format!("there is no output {output}"))),
        }
    }

    fn next_ticket(&self) -> Ticket {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_ms.load(Ordering::Relaxed) * 1_000)
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// A worker in the hands of a test.
pub struct Rig {
    code: Arc<dyn Code>,
    arguments: Vec<u8>,
    worker: Box<dyn Worker>,
    pub store: Arc<Store>,
    /// What came out: the output, or the address, and the body as JSON.
    pub out: Vec<(String, Value)>,
    timers: BTreeMap<String, (u64, Bytes)>,
}

pub const START_MS: u64 = 1_000_000_000_000;

impl Rig {
    pub async fn new(code: Arc<dyn Code>, parameters: &str) -> Result<Self, Failure> {
        let store = Arc::new(Store {
            state: Mutex::default(),
            reads: Mutex::default(),
            now_ms: AtomicU64::new(START_MS),
            tickets: AtomicU64::new(0),
            outputs: code.info().outputs.clone(),
        });
        let mut rig = Self {
            worker: instance(&*code),
            code,
            arguments: parameters.as_bytes().to_vec(),
            store,
            out: Vec::new(),
            timers: BTreeMap::new(),
        };
        rig.init().await?;
        Ok(rig)
    }

    async fn init(&mut self) -> Result<(), Failure> {
        let mut turn = self.turn();
        self.worker.init(&self.arguments, &mut turn).await?;
        self.commit(turn.take_effects());
        Ok(())
    }

    fn turn(&self) -> Turn {
        Turn::new(self.store.clone(), TurnLimits::default())
    }

    /// Another instance goes on from what was kept.
    pub async fn restart(&mut self) {
        let snapshot = self.worker.save().await.unwrap();
        self.worker = instance(&*self.code);
        self.init().await.unwrap();
        if !snapshot.is_empty() {
            self.worker.load(snapshot).await.unwrap();
        }
    }

    /// Another instance goes on from the state alone.
    pub async fn crash(&mut self) {
        self.worker = instance(&*self.code);
        self.init().await.unwrap();
    }

    /// One turn with these messages.
    pub async fn handle(&mut self, batch: &[Incoming]) -> Result<(), Failure> {
        let mut turn = self.turn();
        self.worker.handle(batch, &mut turn).await?;
        self.commit(turn.take_effects());
        Ok(())
    }

    /// As [`Rig::handle`], but nothing of it is kept.
    pub async fn undone(&mut self, batch: &[Incoming]) {
        let mut turn = self.turn();
        let _ = self.worker.handle(batch, &mut turn).await;
    }

    pub async fn provide(&mut self) -> Result<Provided, Failure> {
        let mut turn = self.turn();
        let provided = self.worker.provide(&mut turn).await?;
        self.commit(turn.take_effects());
        Ok(provided)
    }

    pub async fn provide_undone(&mut self) {
        let mut turn = self.turn();
        let _ = self.worker.provide(&mut turn).await;
    }

    /// Time passes, and timers go off.
    pub async fn advance(&mut self, by: Duration) {
        let end = self.now_ms() + by.as_millis() as u64;
        while let Some((name, due)) = self.next_timer(end) {
            self.store
                .now_ms
                .store(due.max(self.now_ms()), Ordering::Relaxed);
            let (_, body) = self.timers.remove(&name).unwrap();
            let mut message = Incoming::new(Message::new(body));
            message.kind = Kind::Timer(name.into());
            self.handle(&[message]).await.unwrap();
        }
        self.store.now_ms.store(end, Ordering::Relaxed);
    }

    fn next_timer(&self, end: u64) -> Option<(String, u64)> {
        let due = self.timers.iter().filter(|(_, (due, _))| *due <= end);
        due.min_by_key(|(_, (due, _))| *due)
            .map(|(name, (due, _))| (name.clone(), *due))
    }

    pub fn now_ms(&self) -> u64 {
        self.store.now_ms.load(Ordering::Relaxed)
    }

    fn commit(&mut self, effects: Effects) {
        let names: Vec<String> = effects.output_names().map(str::to_owned).collect();
        let effects = effects.spread();
        for sent in effects.sends {
            let to = match &sent.to {
                Target::Output(output) => names[*output as usize].clone(),
                Target::Address(address) => address.to_string(),
                Target::Waiting(_) => "reply".to_owned(),
            };
            let body = match &sent.value {
                Some(value) => value.encode(),
                None => sent.message.body.clone(),
            };
            let body = serde_json::from_slice(&body)
                .unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
            self.out.push((to, body));
        }
        let mut state = self.store.state.lock();
        for (key, value) in effects.writes {
            match value {
                Some(value) => state.insert(key, value),
                None => state.remove(&key),
            };
        }
        drop(state);
        for change in effects.timers {
            match change.set {
                Some((after, body)) => {
                    let due = self.now_ms() + after.as_millis() as u64;
                    self.timers.insert(change.name.to_string(), (due, body));
                }
                None => drop(self.timers.remove(&*change.name)),
            }
        }
    }

    /// What came out at one output.
    pub fn at(&self, output: &str) -> Vec<Value> {
        let found = self.out.iter().filter(|(name, _)| name == output);
        found.map(|(_, body)| body.clone()).collect()
    }
}

fn instance(code: &dyn Code) -> Box<dyn Worker> {
    let start = Start {
        address: "test/stage/0".parse().unwrap(),
        limits: InstanceLimits::default(),
    };
    code.instantiate(&start).unwrap()
}

/// A message from outside.
pub fn outside(body: &Value) -> Incoming {
    Incoming::new(Message::new(body.to_string()))
}

/// A message from another native worker.
pub fn inside(body: &Value) -> Incoming {
    let mut incoming = Incoming::new(Message::default());
    incoming.value = Some(Arc::new(Event::parse(body.to_string().as_bytes()).unwrap()));
    incoming
}

/// A worker of a built-in plug-in.
pub async fn built(id: &str, parameters: &str) -> Rig {
    built_in(&super::samples::environment(), id, parameters).await
}

/// A worker of a built-in plug-in in this environment.
pub async fn built_in(environment: &Environment, id: &str, parameters: &str) -> Rig {
    let code = flows::plugins::find(id).unwrap().code(environment);
    Rig::new(code, parameters).await.unwrap()
}

/// Runs to the end on this thread.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}
