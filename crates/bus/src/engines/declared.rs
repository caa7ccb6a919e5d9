//! What queues were declared as, for engines whose server does not keep it.

use std::collections::HashMap;

use kernel::{Destination, Name};
use parking_lot::RwLock;

use crate::contract::QueueSettings;
use crate::error::BusError;

/// How many queues may have settings of their own.
const DECLARED_QUEUES_MAX: usize = 100_000;

/// Settings of queues. Only those that differ from the default are kept.
#[derive(Default)]
pub(super) struct Declared {
    queues: RwLock<HashMap<Name, QueueSettings>>,
}

impl Declared {
    pub fn settings(&self, queue: &Name) -> QueueSettings {
        self.queues.read().get(queue).cloned().unwrap_or_default()
    }

    /// Whether what is published there is to survive a restart.
    pub fn is_durable(&self, destination: &Destination) -> bool {
        match destination {
            Destination::Queue(name) => self
                .queues
                .read()
                .get(name)
                .is_none_or(|settings| settings.durable),
            Destination::Topic(_) => false,
        }
    }

    /// After how many failed tries a message from there is dead.
    pub fn tries_max(&self, from: &Destination) -> u32 {
        match from {
            Destination::Queue(name) => self.settings(name).tries_max,
            Destination::Topic(_) => QueueSettings::default().tries_max,
        }
    }

    /// The settings of a queue; a topic keeps nothing.
    pub fn of(&self, destination: &Destination) -> QueueSettings {
        match destination {
            Destination::Queue(name) => self.settings(name),
            Destination::Topic(_) => QueueSettings {
                durable: false,
                ..QueueSettings::default()
            },
        }
    }

    pub fn remember(&self, queue: &Name, settings: &QueueSettings) -> Result<(), BusError> {
        let mut queues = self.queues.write();
        if *settings == QueueSettings::default() {
            queues.remove(queue);
            return Ok(());
        }
        if queues.len() >= DECLARED_QUEUES_MAX && !queues.contains_key(queue) {
            let reason = format!("{DECLARED_QUEUES_MAX} queues have settings of their own already");
            return Err(BusError::Refused { reason });
        }
        queues.insert(queue.clone(), settings.clone());
        Ok(())
    }
}
