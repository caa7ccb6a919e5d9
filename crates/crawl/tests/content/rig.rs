//! Runs one worker of a plug-in without a runtime: turns are committed to a state in memory, timers go off when told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flows::plugins::{BuiltIn, Environment};
use flows::{Event, Hold};
use kernel::worker::{
    Effects, Failure, Host, Incoming, InstanceLimits, Kind, LogLevel, Start, Ticket, Turn,
    TurnLimits, Worker,
};
use kernel::{Address, Message, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

/// The state of a bucket, and the time.
pub struct Store {
    pub state: Mutex<BTreeMap<Bytes, Bytes>>,
    now_ms: AtomicU64,
    outputs: Vec<String>,
}

#[async_trait]
impl Host for Store {
    async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
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
        let pairs = found.map(|(key, value)| (key.clone(), value.clone()));
        Ok(pairs.take(pairs_max).collect())
    }

    fn may_send(&self, _: &Address) -> Result<(), Failure> {
        Ok(())
    }

    fn may_emit(&self, output: &str) -> Result<(), Failure> {
        match self.outputs.iter().any(|known| known == output) {
            true => Ok(()),
            false => Err(Failure::new(format!("there is no output {output}"))),
        }
    }

    fn next_ticket(&self) -> Ticket {
        0
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_ms.load(Ordering::Relaxed) * 1_000)
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// A worker in the hands of a test.
pub struct Rig {
    plugin: &'static BuiltIn,
    environment: Environment,
    parameters: String,
    worker: Box<dyn Worker>,
    pub store: Arc<Store>,
    /// What came out: the output and the event.
    pub out: Vec<(String, Arc<Event>)>,
    timers: BTreeMap<String, u64>,
}

pub const START_MS: u64 = 1_000_000_000_000;

pub fn plugin(id: &str) -> &'static BuiltIn {
    let found = crawl::PLUGINS.iter().find(|plugin| plugin.id() == id);
    found.expect("a plug-in of this id")
}

impl Rig {
    pub async fn new(id: &str, parameters: Value) -> Self {
        Self::within(&Environment::default(), id, parameters).await
    }

    /// A worker on a node that offers this.
    pub async fn within(environment: &Environment, id: &str, parameters: Value) -> Self {
        let plugin = plugin(id);
        let info = plugin.code(environment);
        let store = Arc::new(Store {
            state: Mutex::default(),
            now_ms: AtomicU64::new(START_MS),
            outputs: info.info().outputs.clone(),
        });
        let mut rig = Self {
            plugin,
            environment: environment.clone(),
            parameters: parameters.to_string(),
            worker: instance(plugin, environment),
            store,
            out: Vec::new(),
            timers: BTreeMap::new(),
        };
        rig.restart().await;
        rig
    }

    /// Another instance goes on from the state alone.
    pub async fn restart(&mut self) {
        self.worker = instance(self.plugin, &self.environment);
        let mut turn = self.turn();
        let begun = self
            .worker
            .init(self.parameters.as_bytes(), &mut turn)
            .await;
        begun.expect("parameters that can be used");
        self.commit(turn.take_effects());
    }

    fn turn(&self) -> Turn {
        Turn::new(self.store.clone(), TurnLimits::default())
    }

    /// One turn with these events.
    pub async fn take(&mut self, events: &[Event]) {
        let messages: Vec<_> = events.iter().map(incoming).collect();
        self.handle(&messages).await;
    }

    /// As [`Rig::take`], but nothing of it is kept. Gives what went wrong, if something did.
    pub async fn take_undone(&mut self, events: &[Event]) -> Result<(), Failure> {
        let messages: Vec<_> = events.iter().map(incoming).collect();
        let mut turn = self.turn();
        self.worker.handle(&messages, &mut turn).await
    }

    async fn handle(&mut self, messages: &[Incoming]) {
        let mut turn = self.turn();
        let handled = self.worker.handle(messages, &mut turn).await;
        handled.expect("a turn that succeeds");
        let effects = turn.take_effects();
        self.commit(effects);
    }

    /// Time passes, and timers go off.
    pub async fn advance(&mut self, by: Duration) {
        let end = self.now_ms() + by.as_millis() as u64;
        while let Some((name, due)) = self.next_timer(end) {
            self.store
                .now_ms
                .store(due.max(self.now_ms()), Ordering::Relaxed);
            self.timers.remove(&name);
            let mut message = Incoming::new(Message::new(Bytes::new()));
            message.kind = Kind::Timer(name.into());
            self.handle(&[message]).await;
        }
        self.store.now_ms.store(end, Ordering::Relaxed);
    }

    fn next_timer(&self, end: u64) -> Option<(String, u64)> {
        let due = self.timers.iter().filter(|(_, due)| **due <= end);
        due.min_by_key(|(_, due)| **due)
            .map(|(name, due)| (name.clone(), *due))
    }

    pub fn now_ms(&self) -> u64 {
        self.store.now_ms.load(Ordering::Relaxed)
    }

    fn commit(&mut self, effects: Effects) {
        let names: Vec<String> = effects.output_names().map(str::to_owned).collect();
        let effects = effects.spread();
        for sent in effects.sends {
            let kernel::worker::Target::Output(output) = sent.to else {
                continue;
            };
            let mut message = Incoming::new(sent.message);
            message.value = sent.value;
            let event = Event::of(&message).expect("an event");
            self.out.push((names[output as usize].clone(), event));
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
                Some((after, _)) => {
                    let due = self.now_ms() + after.as_millis() as u64;
                    self.timers.insert(change.name.to_string(), due);
                }
                None => drop(self.timers.remove(&*change.name)),
            }
        }
    }

    /// The data of what came out at one output, as JSON.
    pub fn at(&self, output: &str) -> Vec<Value> {
        let found = self.events(output);
        found.iter().map(|event| json_of(event)).collect()
    }

    /// What came out at one output.
    pub fn events(&self, output: &str) -> Vec<Arc<Event>> {
        let found = self.out.iter().filter(|(name, _)| name == output);
        found.map(|(_, event)| event.clone()).collect()
    }
}

fn json_of(event: &Event) -> Value {
    use kernel::worker::Value as _;
    let data = Event::new(event.data().clone());
    serde_json::from_slice(&data.encode()).expect("JSON")
}

fn instance(plugin: &BuiltIn, environment: &Environment) -> Box<dyn Worker> {
    let start = Start {
        address: "test/stage/0".parse().expect("an address"),
        limits: InstanceLimits::default(),
    };
    let code = plugin.code(environment);
    code.instantiate(&start).expect("an instance")
}

fn incoming(event: &Event) -> Incoming {
    let mut incoming = Incoming::new(Message::default());
    incoming.value = Some(Arc::new(event.clone()));
    incoming
}

/// What holds the events of a test.
pub struct Held;

/// A page with this record and body, which is held.
pub fn page(record: &Value, body: impl AsRef<[u8]>) -> Event {
    let event = Event::parse(record.to_string().as_bytes()).expect("an event");
    let body = Bytes::copy_from_slice(body.as_ref());
    event.with_body(body).held_by(Hold::new(Arc::new(Held)))
}

/// Whether an event is held by what [`page`] is held by.
pub fn is_held(event: &Event) -> bool {
    event.hold().and_then(Hold::get::<Held>).is_some()
}
