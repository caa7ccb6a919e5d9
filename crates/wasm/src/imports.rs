//! What a worker's code calls: the imports of the world, on top of the turn in progress.

use std::time::Duration;

use bytes::Bytes;
use kernel::worker::{Bodies, Failure, FailureKind, Incoming, LogLevel};
use kernel::{Address, Headers, Message};
use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker};

use crate::bindings::worker::hivewire::worker::surroundings::Level;
use crate::bindings::worker::hivewire::worker::{life, messages, state, surroundings, types};
use crate::data::Data;
use crate::failures::Stopped;
use crate::nobody::only_in_turn;
use crate::output::cut;
use crate::waiting::wait;

/// Pairs that one scan may ask for.
const SCAN_PAIRS_MAX: u32 = 10_000;

/// Links the imports of a worker's world.
pub(crate) fn add_to_linker(linker: &mut Linker<Data>) -> Result<()> {
    types::add_to_linker::<Data, HasSelf<Data>>(linker, |data| data)?;
    messages::add_to_linker::<Data, HasSelf<Data>>(linker, |data| data)?;
    state::add_to_linker::<Data, HasSelf<Data>>(linker, |data| data)?;
    life::add_to_linker::<Data, HasSelf<Data>>(linker, |data| data)?;
    surroundings::add_to_linker::<Data, HasSelf<Data>>(linker, |data| data)
}

/// A failure that ends the call.
fn stop(failure: Failure) -> wasmtime::Error {
    Stopped(failure).into()
}

/// What the worker itself got wrong is told to it; everything else ends the call.
fn told<T>(result: Result<T, Failure>) -> Result<Result<T, String>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(failure) if failure.kind == FailureKind::Error => Ok(Err(failure.reason)),
        Err(failure) => Err(stop(failure)),
    }
}

fn message(outgoing: types::Outgoing) -> Result<Message, Failure> {
    let message = Message::new(outgoing.body);
    if outgoing.headers.is_empty() {
        return Ok(message);
    }
    let pairs = outgoing.headers.iter();
    let headers = Headers::from_pairs(pairs.map(|(name, value)| (&**name, &**value)))?;
    Ok(message.with_headers(headers))
}

impl Data {
    /// Whatever the guest calls counts, and what changes anything needs a turn.
    fn turn_call(&mut self) -> Result<()> {
        self.budget.host_call()?;
        only_in_turn(self.in_turn).map_err(stop)
    }

    /// Waits for what the host reads, as long as the call may still take.
    fn read<T>(&self, future: impl Future<Output = Result<T, Failure>>) -> Result<T> {
        let time_left = self.budget.time_left();
        let read = wait(future, time_left);
        self.budget.waited_since(time_left);
        match read {
            Some(read) => read.map_err(stop),
            None => Err(self.budget.too_late().into()),
        }
    }

    fn send_now(&mut self, address: &str, outgoing: types::Outgoing) -> Result<(), Failure> {
        let to: Address = address.parse()?;
        self.turn.send(to, message(outgoing)?)
    }

    fn reply_now(&mut self, index: u32, outgoing: types::Outgoing) -> Result<(), Failure> {
        match self.at_hand.answerable(index) {
            Some(incoming) => self.turn.reply(incoming, message(outgoing)?),
            None => Err(self.at_hand.no_answer(index)),
        }
    }

    fn ask_now(
        &mut self,
        address: &str,
        outgoing: types::Outgoing,
        timeout_ms: u32,
    ) -> Result<u64, Failure> {
        let to: Address = address.parse()?;
        let timeout = Duration::from_millis(timeout_ms.into());
        self.turn.ask(to, message(outgoing)?, timeout)
    }
}

impl types::Host for Data {}

impl messages::Host for Data {
    fn emit(&mut self, output: String, outgoing: types::Outgoing) -> Result<()> {
        self.turn_call()?;
        let message = message(outgoing).map_err(stop)?;
        self.turn.emit(&output, message).map_err(stop)
    }

    fn emit_all(&mut self, output: String, bodies: types::Bodies) -> Result<()> {
        self.turn_call()?;
        let emitted = Bodies::new(bodies.bytes, bodies.ends)
            .and_then(|bodies| self.turn.emit_series(&output, bodies));
        emitted.map_err(stop)
    }

    fn send(&mut self, address: String, outgoing: types::Outgoing) -> Result<Result<(), String>> {
        self.turn_call()?;
        told(self.send_now(&address, outgoing))
    }

    fn reply(&mut self, index: u32, outgoing: types::Outgoing) -> Result<Result<(), String>> {
        self.turn_call()?;
        told(self.reply_now(index, outgoing))
    }

    fn reply_address(&mut self, index: u32) -> Result<Option<String>> {
        self.turn_call()?;
        let incoming = self.at_hand.answerable(index);
        Ok(incoming.and_then(Incoming::reply_address))
    }

    fn ask(
        &mut self,
        address: String,
        outgoing: types::Outgoing,
        timeout_ms: u32,
    ) -> Result<Result<u64, String>> {
        self.turn_call()?;
        told(self.ask_now(&address, outgoing, timeout_ms))
    }
}

impl state::Host for Data {
    fn get(&mut self, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        self.turn_call()?;
        let value = self.read(self.turn.state(&key))?;
        Ok(value.map(Vec::from))
    }

    fn set(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        self.turn_call()?;
        self.turn.set_state(key, value).map_err(stop)
    }

    fn remove(&mut self, key: Vec<u8>) -> Result<()> {
        self.turn_call()?;
        self.turn.remove_state(key).map_err(stop)
    }

    fn scan(
        &mut self,
        prefix: Vec<u8>,
        after: Option<Vec<u8>>,
        pairs_max: u32,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.turn_call()?;
        if pairs_max > SCAN_PAIRS_MAX {
            let reason = format!(
                "one scan may ask for {SCAN_PAIRS_MAX} pairs, not for {pairs_max}: go on after the last key"
            );
            return Err(stop(Failure::of(FailureKind::Limit, reason)));
        }
        let pairs = self
            .turn
            .scan(&prefix, after.as_deref(), pairs_max as usize);
        let pairs = self.read(pairs)?;
        Ok(pairs
            .into_iter()
            .map(|(key, value)| (Vec::from(key), Vec::from(value)))
            .collect())
    }
}

impl life::Host for Data {
    fn set_timer(&mut self, name: String, after_ms: u64, body: Vec<u8>) -> Result<()> {
        self.turn_call()?;
        let after = Duration::from_millis(after_ms);
        self.turn
            .set_timer(&name, after, Bytes::from(body))
            .map_err(stop)
    }

    fn cancel_timer(&mut self, name: String) -> Result<()> {
        self.turn_call()?;
        self.turn.cancel_timer(&name).map_err(stop)
    }

    fn spawn(&mut self, name: String, args: Vec<u8>) -> Result<Result<(), String>> {
        self.turn_call()?;
        told(self.turn.spawn(&name, Bytes::from(args)))
    }

    fn stop_child(&mut self, name: String) -> Result<()> {
        self.turn_call()?;
        self.turn.stop_child(&name).map_err(stop)
    }

    fn end(&mut self) -> Result<()> {
        self.turn_call()?;
        self.turn.end();
        Ok(())
    }
}

impl surroundings::Host for Data {
    fn log(&mut self, level: Level, line: String) -> Result<()> {
        self.budget.host_call()?;
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Info => LogLevel::Info,
            Level::Warn => LogLevel::Warn,
            Level::Error => LogLevel::Error,
        };
        let line = cut(&line);
        if level == LogLevel::Error && line.starts_with("panicked") {
            self.panic = Some(line.to_owned());
        }
        match self.in_turn {
            true => {
                self.hand_out_lines();
                self.turn.log(level, line);
            }
            // There is no log to write to before the next turn.
            false => self.output.line(level, line),
        }
        Ok(())
    }

    fn now(&mut self) -> Result<u64> {
        self.budget.host_call()?;
        Ok(self.turn.now().as_micros())
    }

    fn random(&mut self) -> Result<u64> {
        self.budget.host_call()?;
        getrandom::u64().map_err(|error| {
            let reason = format!("the system has no random numbers: {error}");
            stop(Failure::of(FailureKind::Host, reason))
        })
    }

    fn address(&mut self) -> Result<String> {
        self.budget.host_call()?;
        Ok(self.address.to_string())
    }
}
