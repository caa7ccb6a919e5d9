//! How queues and topics behave: the configuration that this crate owns.

use serde::{Deserialize, Serialize};

/// What becomes of messages when the broker stops or crashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// The sender decides for each message.
    #[default]
    ByMessage,
    /// Every message is on disk before it is acknowledged.
    Durable,
    /// No message survives.
    Transient,
}

/// What happens to a message that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenFull {
    /// The new message is refused, and its sender is told.
    #[default]
    Refuse,
    /// The oldest waiting message goes to the dead letters to make room.
    OldestToDeadLetters,
}

/// How one queue behaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueueSettings {
    /// Whether messages survive a restart.
    pub durability: Durability,
    /// How many messages may wait or be unacknowledged.
    pub messages_max: u64,
    /// How many bytes of messages may wait or be unacknowledged.
    pub bytes_max: u64,
    /// How many bytes of it are kept in memory; the rest waits on disk.
    pub memory_bytes_max: usize,
    /// What happens at the limits.
    pub when_full: WhenFull,
    /// After that many failed tries a message goes to the dead letters.
    pub tries_max: u32,
}

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            durability: Durability::ByMessage,
            messages_max: 10_000_000,
            bytes_max: 16 << 30,
            memory_bytes_max: 64 << 20,
            when_full: WhenFull::Refuse,
            tries_max: 5,
        }
    }
}

impl QueueSettings {
    /// Whether a message is stored, given what its sender asked for.
    pub fn is_durable(&self, asked: bool) -> bool {
        match self.durability {
            Durability::ByMessage => asked,
            Durability::Durable => true,
            Durability::Transient => false,
        }
    }
}

/// How topics behave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopicSettings {
    /// How many bytes a topic keeps for subscribers that lag behind. Beyond it the subscribers
    /// that are furthest behind miss the oldest messages, which is counted.
    pub memory_bytes_max: usize,
    /// After that many failed tries a message goes to the dead letters.
    pub tries_max: u32,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 256 << 20,
            tries_max: 5,
        }
    }
}

/// Where state is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StateSettings {
    /// How many bytes of state all buckets together keep in memory; what was not changed of late is on disk.
    pub memory_bytes_max: usize,
}

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 128 << 20,
        }
    }
}

/// Settings for queues whose name fits a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "FlatRule")]
pub struct QueueRule {
    /// The name of a queue; a `*` at its end stands for any rest.
    pub name: String,
    /// The settings of these queues.
    #[serde(flatten)]
    pub settings: QueueSettings,
}

/// A rule as it stands in the configuration: with all fields side by side, because a flattened
/// struct would take unknown ones without a word.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlatRule {
    name: String,
    durability: Option<Durability>,
    messages_max: Option<u64>,
    bytes_max: Option<u64>,
    memory_bytes_max: Option<usize>,
    when_full: Option<WhenFull>,
    tries_max: Option<u32>,
}

impl From<FlatRule> for QueueRule {
    fn from(flat: FlatRule) -> Self {
        let default = QueueSettings::default();
        let settings = QueueSettings {
            durability: flat.durability.unwrap_or(default.durability),
            messages_max: flat.messages_max.unwrap_or(default.messages_max),
            bytes_max: flat.bytes_max.unwrap_or(default.bytes_max),
            memory_bytes_max: flat.memory_bytes_max.unwrap_or(default.memory_bytes_max),
            when_full: flat.when_full.unwrap_or(default.when_full),
            tries_max: flat.tries_max.unwrap_or(default.tries_max),
        };
        Self {
            name: flat.name,
            settings,
        }
    }
}

impl QueueRule {
    fn fits(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => self.name == name,
        }
    }
}

/// All that can be configured about the broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How many bytes of messages all queues together keep in memory; beyond it new messages
    /// wait on disk.
    pub memory_bytes_max: usize,
    /// How many queues, and how many topics, there may be.
    pub names_max: usize,
    /// A queue or topic without messages and subscribers is forgotten after that time.
    pub idle_seconds_max: u64,
    /// What one bucket's state may take, in memory and on disk.
    pub bucket_bytes_max: usize,
    /// How many buckets there may be.
    pub buckets_max: usize,
    /// Where state is kept.
    pub state: StateSettings,
    /// How topics behave.
    pub topics: TopicSettings,
    /// The first rule whose name fits decides; without one, the defaults hold.
    pub queues: Vec<QueueRule>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 1 << 30,
            names_max: 100_000,
            idle_seconds_max: 300,
            bucket_bytes_max: 4 << 30,
            buckets_max: 100_000,
            state: StateSettings::default(),
            topics: TopicSettings::default(),
            queues: Vec::new(),
        }
    }
}

impl Settings {
    /// The settings of the queue with this name.
    pub fn for_queue(&self, name: &str) -> QueueSettings {
        self.queues
            .iter()
            .find(|rule| rule.fits(name))
            .map(|rule| rule.settings.clone())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rule = |name: &str, tries_max| QueueRule {
            name: name.into(),
            settings: QueueSettings {
                tries_max,
                ..QueueSettings::default()
            },
        };
        let settings = Settings {
            queues: vec![rule("orders.vip", 1), rule("orders.*", 2)],
            ..Settings::default()
        };
        assert_eq!(settings.for_queue("orders.vip").tries_max, 1);
        assert_eq!(settings.for_queue("orders.new").tries_max, 2);
        assert_eq!(settings.for_queue("mail").tries_max, 5);
    }
}
