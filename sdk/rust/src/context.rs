use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::bindings::worker::hivewire::worker::{life, messages, surroundings};
use crate::emitted::Emitted;
use crate::{Failure, Level, Message, Outgoing, Result, State, Ticket};

/// What a worker can do during a turn. Nothing leaves before the turn is committed: if the worker
/// fails, nothing was sent, and the state is as it was before.
///
/// A function that may not be used, or too often, ends the turn: it does not return. What is emitted is handed over many at
/// a time, so a message that may not be emitted ends the turn later, at its end at the latest.
#[derive(Debug, Default)]
pub struct Context {
    turn: u64,
    emitted: Emitted,
}

impl Context {
    /// The next turn begins.
    pub(crate) fn begin(&mut self) {
        self.turn += 1;
        self.emitted.clear();
    }

    /// The turn ends well.
    pub(crate) fn end_turn(&mut self) {
        self.emitted.hand_over();
    }

    pub(crate) fn turn(&self) -> u64 {
        self.turn
    }

    /// Sends to whatever this output of the stage is connected with.
    pub fn emit<'a>(&mut self, output: &str, message: impl Into<Outgoing<'a>>) {
        let message = message.into();
        match message.short_body() {
            Some(body) => self.emitted.push(output, body),
            None => {
                self.emitted.hand_over();
                message.lend(|message| messages::emit(output, message));
            }
        }
    }

    /// Sends to an address: `flow/stage`, `flow/stage/3`, `queue:NAME` or `topic:NAME`. Outside
    /// the worker's own flow it needs a grant.
    pub fn send<'a>(&mut self, address: &str, message: impl Into<Outgoing<'a>>) -> Result {
        self.emitted.hand_over();
        message
            .into()
            .lend(|message| messages::send(address, message))
            .map_err(Failure::from)
    }

    /// Answers a message that came in this turn.
    pub fn reply<'a>(&mut self, to: &Message, message: impl Into<Outgoing<'a>>) -> Result {
        let index = self.index(to).ok_or(
            "only a message of this turn can be answered so: for later, keep its reply address",
        )?;
        self.emitted.hand_over();
        message
            .into()
            .lend(|message| messages::reply(index, message))
            .map_err(Failure::from)
    }

    /// The address for an answer to a message of this turn, for later or for a third worker. Whoever
    /// answers there copies the header `correlation-id` of the message.
    pub fn reply_address(&self, to: &Message) -> Option<String> {
        messages::reply_address(self.index(to)?)
    }

    /// Asks. The answer, or that none came in time, is a later message to this very worker, of the
    /// kind [`crate::Kind::Reply`] or [`crate::Kind::TimedOut`].
    pub fn ask<'a>(
        &mut self,
        address: &str,
        message: impl Into<Outgoing<'a>>,
        timeout: Duration,
    ) -> Result<Ticket> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        self.emitted.hand_over();
        message
            .into()
            .lend(|message| messages::ask(address, message, timeout_ms))
            .map_err(Failure::from)
    }

    /// Keys and values that survive everything.
    pub fn state(&self) -> State {
        State::new()
    }

    /// Sets a timer, or sets it anew. It goes off once, as a message of the kind
    /// [`crate::Kind::Timer`] with this body.
    pub fn set_timer(&mut self, name: &str, after: Duration, body: impl AsRef<[u8]>) {
        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        life::set_timer(name, after_ms, body.as_ref());
    }

    /// Cancels a timer, if it is set.
    pub fn cancel_timer(&mut self, name: &str) {
        life::cancel_timer(name);
    }

    /// Starts a child that runs the same code. Its address is that of this worker, a stroke and
    /// its name.
    pub fn spawn(&mut self, name: &str, args: impl AsRef<[u8]>) -> Result {
        self.emitted.hand_over();
        life::spawn(name, args.as_ref()).map_err(Failure::from)
    }

    /// Ends a child.
    pub fn stop_child(&mut self, name: &str) {
        self.emitted.hand_over();
        life::stop_child(name);
    }

    /// Ends this worker after the turn.
    pub fn end(&mut self) {
        life::end();
    }

    /// Writes a line to the worker's log. It stays there even if the turn is undone.
    pub fn log(&self, level: Level, line: &str) {
        surroundings::log(level, line);
    }

    /// The time now.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(surroundings::now())
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        surroundings::random()
    }

    /// The address of this worker.
    pub fn address(&self) -> String {
        surroundings::address()
    }

    fn index(&self, message: &Message) -> Option<u32> {
        message.index_in(self.turn)
    }
}
