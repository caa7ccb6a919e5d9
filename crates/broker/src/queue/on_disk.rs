//! Entries whose message waits in the journal.

use journal::Position;
use kernel::Message;

use super::Settled;
use crate::delivery::Entry;

/// An entry whose message waits on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnDisk {
    pub id: u64,
    pub position: Position,
    pub size_bytes: u32,
    /// The number of tries; the highest bits are flags. Packed because a long queue has millions
    /// of these.
    packed: u32,
}

/// It was delivered before.
const REDELIVERED: u32 = 1 << 31;
/// It survives a restart.
const DURABLE: u32 = 1 << 30;
/// It may leave only once its record is permanent.
const HELD: u32 = 1 << 29;
const TRIES: u32 = HELD - 1;

impl OnDisk {
    pub fn new(id: u64, position: Position, size_bytes: usize, tries: u32) -> Self {
        Self {
            id,
            position,
            size_bytes: size_bytes as u32,
            packed: tries.min(TRIES),
        }
    }

    /// The entry without its message, which stands at `position`.
    pub fn of(entry: &Entry, position: Position) -> Self {
        Self::new(entry.id, position, entry.size_bytes(), entry.tries)
            .redelivered(entry.redelivered)
            .durable(entry.durable)
            .with(HELD, entry.held_until > Position::ZERO)
    }

    fn with(mut self, flag: u32, set: bool) -> Self {
        self.packed = (self.packed & !flag) | if set { flag } else { 0 };
        self
    }

    pub fn redelivered(self, redelivered: bool) -> Self {
        self.with(REDELIVERED, redelivered)
    }

    pub fn durable(self, durable: bool) -> Self {
        self.with(DURABLE, durable)
    }

    pub fn is_durable(&self) -> bool {
        self.packed & DURABLE != 0
    }

    pub fn tries(&self) -> u32 {
        self.packed & TRIES
    }

    /// The entry, now that its message is at hand.
    pub fn with_message(self, message: Message) -> Entry {
        let held = self.packed & HELD != 0;
        Entry {
            id: self.id,
            message,
            tries: self.tries(),
            redelivered: self.packed & REDELIVERED != 0,
            durable: self.is_durable(),
            stored: Some(self.position),
            held_until: if held { self.position } else { Position::ZERO },
        }
    }
}

/// A waiting entry, taken out.
pub(crate) enum Taken {
    Memory(Entry),
    Disk(OnDisk),
}

impl From<&OnDisk> for Settled {
    fn from(entry: &OnDisk) -> Self {
        Self {
            id: entry.id,
            durable: entry.is_durable(),
            stored: Some(entry.position),
        }
    }
}

impl From<&Taken> for Settled {
    fn from(taken: &Taken) -> Self {
        match taken {
            Taken::Memory(entry) => entry.into(),
            Taken::Disk(entry) => entry.into(),
        }
    }
}

/// An entry that stands in the journal, with its position to be changed.
pub(crate) enum StoredAt<'a> {
    Memory(&'a mut Entry),
    Disk(&'a mut OnDisk),
}

impl StoredAt<'_> {
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Memory(entry) => entry.stored,
            Self::Disk(entry) => Some(entry.position),
        }
    }

    pub fn move_to(&mut self, position: Position) {
        match self {
            Self::Memory(entry) => entry.stored = Some(position),
            Self::Disk(entry) => entry.position = position,
        }
    }
}
