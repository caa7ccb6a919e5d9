//! Receipts, some of which wait until the journal is synced.

use std::collections::VecDeque;

use broker::{Durable, Position};
use wire::stomp::Version;

use super::encode::{self, AckLevel};

/// Receipts that wait for a sync, in the order of their positions.
#[derive(Default)]
pub(super) struct Receipts {
    waiting: VecDeque<(Position, String)>,
}

impl Receipts {
    /// Answers at once, or when `stored` is synced.
    pub fn add(&mut self, out: &mut Vec<u8>, version: Version, id: &str, stored: Option<Position>) {
        match stored {
            Some(position) => self.waiting.push_back((position, id.to_owned())),
            None => encode::receipt(out, version, id, Some(AckLevel::Memory)),
        }
    }

    /// Answers after everything else.
    pub fn add_last(&mut self, out: &mut Vec<u8>, version: Version, id: &str) {
        match self.waiting.back() {
            Some((position, _)) => self.waiting.push_back((*position, id.to_owned())),
            None => encode::receipt(out, version, id, None),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Writes the receipts of everything that is on disk now. Gives the first that never will be.
    pub fn synced(
        &mut self,
        out: &mut Vec<u8>,
        version: Version,
        durable: Durable,
    ) -> Result<(), String> {
        while let Some((position, id)) = self.waiting.front() {
            if !durable.covers(*position) {
                break;
            }
            encode::receipt(out, version, id, Some(AckLevel::Synced));
            self.waiting.pop_front();
        }
        match self.waiting.pop_front() {
            Some((_, id)) if durable.failed => Err(id),
            Some(waiting) => {
                self.waiting.push_front(waiting);
                Ok(())
            }
            None => Ok(()),
        }
    }
}
