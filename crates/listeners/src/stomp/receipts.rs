//! Receipts and answers, some of which wait until the journal is synced.

use std::collections::VecDeque;

use broker::{Durable, Position};
use wire::stomp::Version;

use super::encode::{self, AckLevel};
use super::node::Verdict;

/// What is told after a sync.
enum Waiting {
    /// A receipt for something that is on disk then.
    Receipt(String),
    /// The receipt of a node's commit.
    Done(String),
    /// A whole frame.
    Frame(Vec<u8>),
}

/// Receipts and answers that wait for a sync, first come, first served.
#[derive(Default)]
pub(super) struct Receipts {
    waiting: VecDeque<(Position, Waiting)>,
    frame_bytes: usize,
}

impl Receipts {
    /// Answers at once, or when `stored` is synced.
    pub fn add(&mut self, out: &mut Vec<u8>, version: Version, id: &str, stored: Option<Position>) {
        match stored {
            Some(position) => self.push(position, Waiting::Receipt(id.to_owned())),
            None => encode::receipt(out, version, id, Some(AckLevel::Memory)),
        }
    }

    /// Tells a node that its commit is done, at once or when `stored` is synced.
    pub fn add_done(
        &mut self,
        out: &mut Vec<u8>,
        version: Version,
        id: &str,
        stored: Option<Position>,
    ) {
        match stored {
            Some(position) => self.push(position, Waiting::Done(id.to_owned())),
            None => done(out, version, id, AckLevel::Memory),
        }
    }

    /// Sends a frame when `position` is synced.
    pub fn add_frame(&mut self, position: Position, frame: Vec<u8>) {
        self.frame_bytes += frame.len();
        self.push(position, Waiting::Frame(frame));
    }

    /// Answers after everything else.
    pub fn add_last(&mut self, out: &mut Vec<u8>, version: Version, id: &str) {
        match self.waiting.back() {
            Some((position, _)) => self.push(*position, Waiting::Receipt(id.to_owned())),
            None => encode::receipt(out, version, id, None),
        }
    }

    fn push(&mut self, position: Position, waiting: Waiting) {
        self.waiting.push_back((position, waiting));
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of frames that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Writes what is due now that so much is on disk. If something never will be, gives the receipt
    /// of the first such, if that has one.
    pub fn synced(
        &mut self,
        out: &mut Vec<u8>,
        version: Version,
        durable: Durable,
    ) -> Result<(), Option<String>> {
        while let Some((position, waiting)) = self.waiting.pop_front() {
            if !durable.covers(position) {
                if durable.failed {
                    return Err(waiting.receipt());
                }
                self.waiting.push_front((position, waiting));
                break;
            }
            match waiting {
                Waiting::Receipt(id) => encode::receipt(out, version, &id, Some(AckLevel::Synced)),
                Waiting::Done(id) => done(out, version, &id, AckLevel::Synced),
                Waiting::Frame(frame) => {
                    self.frame_bytes -= frame.len();
                    out.extend_from_slice(&frame);
                }
            }
        }
        Ok(())
    }
}

impl Waiting {
    fn receipt(self) -> Option<String> {
        match self {
            Self::Receipt(id) | Self::Done(id) => Some(id),
            Self::Frame(_) => None,
        }
    }
}

fn done(out: &mut Vec<u8>, version: Version, id: &str, level: AckLevel) {
    encode::node_receipt(out, version, id, &Verdict::new("done"), Some(level));
}
