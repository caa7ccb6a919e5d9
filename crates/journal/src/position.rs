//! Addresses of records.

use std::fmt;

/// The address of a record: the number of its segment and its byte offset there. Later records have
/// greater positions.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Before every record.
    pub const ZERO: Position = Position(0);

    /// The position at a byte offset of a segment.
    pub const fn new(segment: u32, offset: u32) -> Self {
        Self((segment as u64) << 32 | offset as u64)
    }

    /// The number of the segment.
    pub const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The byte offset inside the segment.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// The position as one number, for storing it elsewhere.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// The opposite of [`Position::raw`].
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.segment(), self.offset())
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Position({self})")
    }
}

/// How far the journal is safe on disk.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Durable {
    /// A record at `p` is durable if and only if `p <= position`.
    pub position: Position,
    /// The journal failed: `position` never moves again.
    pub failed: bool,
}

impl Durable {
    /// Whether the record at `position` is safe on disk.
    pub fn covers(&self, position: Position) -> bool {
        position <= self.position
    }
}
