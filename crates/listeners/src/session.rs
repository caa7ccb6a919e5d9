//! What a protocol provides so that a connection can be run for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{Delivery, Durable, Entry, Outbox};

use crate::clients::Said;

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// At once and without a word.
    Now,
    /// As soon as the answers are written.
    AfterAnswers,
}

/// How far a session got with its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Every complete command was handled.
    Done,
    /// The journal must become ready first; then `resume` is to be called.
    NotReady,
    /// Answers must be written first; then `receive` is to be called with what is left.
    AnswersFirst,
}

/// What became of some input.
pub(crate) struct Received {
    /// How many bytes were used.
    pub consumed: usize,
    pub progress: Result<Progress, Stop>,
}

/// The state of one client, without its socket.
pub(crate) trait Session: Send {
    /// Handles the commands at the start of `input`. Answers are appended to `answers`.
    fn receive(&mut self, input: &[u8], answers: &mut Vec<u8>) -> Received;

    /// Publishes what had to wait for the journal.
    fn resume(&mut self, answers: &mut Vec<u8>) -> Result<Progress, Stop>;

    /// Whether something waits for the journal to be synced.
    fn awaits_sync(&self) -> bool;

    /// Bytes of answers that wait for it.
    fn waiting_bytes(&self) -> usize {
        0
    }

    /// The journal was synced further, or failed.
    fn synced(&mut self, durable: Durable, answers: &mut Vec<u8>) -> Result<(), Stop>;

    /// How long the client may take over the command that it has begun.
    fn command_time_max(&self) -> Duration;

    /// The client took longer than that.
    fn too_slow(&mut self, answers: &mut Vec<u8>) -> Stop;

    /// When `tick` wants to be called next.
    fn deadline(&self) -> Option<Instant>;

    /// The deadline has passed.
    fn tick(&mut self, now: Instant, answers: &mut Vec<u8>) -> Result<(), Stop>;

    /// Bytes went out.
    fn wrote(&mut self, now: Instant);

    /// Where this session's deliveries gather.
    fn outbox(&self) -> &Arc<Outbox>;

    /// Appends one delivery as the client is to see it.
    fn encode(&mut self, delivery: &Delivery, out: &mut Vec<u8>);

    /// These deliveries were written.
    fn sent(&mut self, deliveries: &[Delivery]);

    /// Subscriptions that the client has ended. What it did not get of them yet is handed to
    /// `end_subscription`.
    fn take_ending(&mut self) -> Vec<u32> {
        Vec::new()
    }

    /// Ends a subscription; `unsent` was taken from the outbox and never reached the client.
    fn end_subscription(&mut self, _token: u32, _unsent: Vec<Entry>) {}

    /// How the client is, for people who look.
    fn describe(&self) -> Said;

    /// The server is about to stop: says so to the client.
    fn goodbye(&mut self, answers: &mut Vec<u8>);

    /// The connection is gone. `unsent` was taken from the outbox and never reached the client.
    fn close(self, unsent: Vec<Delivery>);

    /// Whether acknowledgements of received data must not be delayed.
    fn wants_quick_acknowledgements(&self) -> bool {
        false
    }
}
