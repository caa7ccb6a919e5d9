//! Listens to the heartbeats of nodes, as each of them does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use control::{Claims, HEARTBEATS, Heartbeat};
use parking_lot::Mutex;

use super::Result;
use crate::drivers::stomp::Stomp;
use crate::drivers::{Client, Closer, Connection, LoadError, Step, consumer};

/// Listens until it is dropped.
#[derive(Debug)]
pub struct Beats {
    heard: Arc<Mutex<Heard>>,
    closer: Closer,
    thread: Option<JoinHandle<()>>,
}

/// What was heard so far.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// How many heartbeats.
    pub messages: u64,
    /// How long they were together, as they came over the wire.
    pub bytes: u64,
    last: BTreeMap<String, Heartbeat>,
}

impl Beats {
    /// Begins to listen.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        let connection = consumer(
            &Stomp::transient(),
            address,
            &format!("/topic/{HEARTBEATS}"),
        )?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let closer = connection.closer()?;
        let into = heard.clone();
        // It ends with an error when the connection is closed, which is how it is told to.
        let thread = std::thread::spawn(move || drop(hear_all(connection, &into)));
        Ok(Self {
            heard,
            closer,
            thread: Some(thread),
        })
    }

    /// What was heard so far.
    pub fn heard(&self) -> Heard {
        self.heard.lock().clone()
    }

    /// Which parts of a stage each node holds, as it said last.
    pub fn holds(&self, stage: &str) -> BTreeMap<String, Claims> {
        let heard = self.heard.lock();
        let of = |beat: &Heartbeat| beat.stages.get(stage).map(|part| part.holds.clone());
        let holds = heard.last.iter();
        holds
            .filter_map(|(node, beat)| Some((node.clone(), of(beat)?)))
            .collect()
    }
}

impl Drop for Beats {
    fn drop(&mut self) {
        self.closer.close();
        if let Some(thread) = self.thread.take() {
            // Whether it panicked matters to nobody any more.
            let _ = thread.join();
        }
    }
}

fn hear_all(
    mut connection: Connection,
    heard: &Mutex<Heard>,
) -> std::result::Result<(), LoadError> {
    let client = Stomp::transient();
    loop {
        while let Step::Done(length, body) =
            client.read_message(connection.unread(), &mut Vec::new())?
        {
            if let Some(body) = body {
                heard.lock().take(body, length);
            }
            connection.consume(length);
        }
        connection.fill("waiting for heartbeats")?;
    }
}

impl Heard {
    fn take(&mut self, body: &[u8], length: usize) {
        self.messages += 1;
        self.bytes += length as u64;
        if let Ok(beat) = serde_json::from_slice::<Heartbeat>(body) {
            self.last.insert(beat.node.clone(), beat);
        }
    }
}
