//! What a worker may do during a turn. It is collected here and happens at the commit.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Emitted, Failure, FailureKind, Incoming, Item, ReplyTo, Row, Stretch, Ticket, Value, Wake,
};
use crate::{Address, Headers, Message, Timestamp};

/// What a turn asks of whoever runs the worker.
#[async_trait]
pub trait Host: Send + Sync {
    /// The committed value of a key.
    async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure>;

    /// The committed values of several keys, in the same order. Whoever has to ask elsewhere asks for all of them
    /// before it waits for the first.
    async fn states(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, Failure> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(self.state(key).await?);
        }
        Ok(values)
    }

    /// Committed keys and values in order, from the first after `after` that begins with
    /// `prefix`.
    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure>;

    /// Whether this worker may send there; if not, the failure says what to grant.
    fn may_send(&self, to: &Address) -> Result<(), Failure>;

    /// Whether the code may emit to this output; if not, the failure says which there are.
    fn may_emit(&self, output: &str) -> Result<(), Failure>;

    /// A ticket that this worker never had before.
    fn next_ticket(&self) -> Ticket;

    /// The time now.
    fn now(&self) -> Timestamp;

    /// A line for the worker's log. It stays there even if the turn is undone.
    fn log(&self, level: LogLevel, line: &str);

    /// What wakes the worker in the scope of this turn. Where nobody could be woken it does nothing.
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::new(WakesNobody)
    }
}

/// Wakes nobody.
struct WakesNobody;

impl Wake for WakesNobody {
    fn wake(&self) {}
}

/// How important a line of the log is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For the author.
    Debug,
    /// Worth knowing.
    Info,
    /// Something may be wrong.
    Warn,
    /// Something is wrong.
    Error,
}

/// What one commit may hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TurnLimits {
    /// Messages sent, emitted, asked and replied.
    pub sends_max: usize,
    /// Their bytes together with those of state written.
    pub bytes_max: usize,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            sends_max: 10_000,
            bytes_max: 16 << 20,
        }
    }
}

/// A message on its way out.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Where to.
    pub to: Target,
    /// What.
    pub message: Message,
    /// What it holds instead of a body.
    pub value: Option<Arc<dyn Value>>,
}

/// Where an outgoing message goes.
#[derive(Clone, Debug)]
pub enum Target {
    /// To whatever a named output of the stage is connected with; [`Effects::output_name`] names it.
    Output(u32),
    /// To an address.
    Address(Address),
    /// To somebody who waits in this process.
    Waiting(ReplyTo),
}

/// A question and how long its answer is waited for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Names it.
    pub ticket: Ticket,
    /// Who is asked.
    pub to: Address,
    /// What is asked.
    pub message: Message,
    /// How long to wait.
    pub timeout: Duration,
}

/// A timer that is set, set anew or cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerChange {
    /// Which one. Setting a timer that is set already replaces it.
    pub name: Box<str>,
    /// After how long it goes off, and with which body; none cancels it.
    pub set: Option<(Duration, Bytes)>,
}

/// A child that is started or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildChange {
    /// Start one that runs the same code.
    Spawn {
        /// Its name, unique among the children of this worker.
        name: Box<str>,
        /// Its arguments for [`super::Worker::init`].
        args: Bytes,
    },
    /// End it.
    Stop {
        /// Its name.
        name: Box<str>,
    },
}

/// Everything that a turn does, in order within each kind.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// Messages sent, emitted and replied, but for those in [`Effects::take_emitted`].
    pub sends: Vec<Outgoing>,
    /// Values and series emitted after all of `sends`.
    emitted: Emitted,
    /// Questions asked.
    pub asks: Vec<Ask>,
    /// State written; none removes the key.
    pub writes: BTreeMap<Bytes, Option<Bytes>>,
    /// Timers set and cancelled.
    pub timers: Vec<TimerChange>,
    /// Children started and ended.
    pub children: Vec<ChildChange>,
    /// The worker wants to end itself after this turn.
    pub ends: bool,
    /// The outputs that were emitted to, by the number that [`Target::Output`] has.
    outputs: Vec<Box<str>>,
}

impl Effects {
    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.emitted.is_empty() && self.has_only_sends()
    }

    /// How many messages were sent, emitted and replied.
    pub fn sends_count(&self) -> usize {
        self.sends.len() + self.emitted.len()
    }

    /// The values and series that were emitted after all of [`Effects::sends`].
    pub fn take_emitted(&mut self) -> Emitted {
        std::mem::take(&mut self.emitted)
    }

    /// Gives back the memory of what was emitted, taken and dealt with.
    pub fn give_emitted(&mut self, mut emitted: Emitted) {
        emitted.clear();
        self.emitted = emitted;
    }

    /// The same with all values and series among [`Effects::sends`], where they belong.
    #[must_use]
    pub fn spread(mut self) -> Self {
        self.spread_emitted();
        self
    }

    fn spread_emitted(&mut self) {
        let sends = &mut self.sends;
        self.emitted.drain(|output, row| {
            let outgoing = |incoming: Incoming| Outgoing {
                to: Target::Output(output),
                message: incoming.message,
                value: incoming.value,
            };
            match row {
                Row::Values(values) => {
                    sends.extend(values.map(|value| outgoing(Item::Value(value).into())));
                }
                Row::Stretch(stretch) => {
                    sends.extend(stretch.items().map(|item| outgoing(item.into())));
                }
            }
        });
    }

    /// Whether nothing happens but messages sent, emitted and replied.
    pub fn has_only_sends(&self) -> bool {
        self.asks.is_empty()
            && self.writes.is_empty()
            && self.timers.is_empty()
            && self.children.is_empty()
            && !self.ends
    }

    /// The names of the outputs that were emitted to, in the order of their numbers.
    pub fn output_names(&self) -> impl Iterator<Item = &str> {
        self.outputs.iter().map(|name| &**name)
    }

    /// The name of the output that has this number.
    pub fn output_name(&self, output: u32) -> &str {
        &self.outputs[output as usize]
    }

    fn output(&self, name: &str) -> Option<u32> {
        // Names are short: looking at their bytes here is quicker than calling somebody who does.
        let is_it = |known: &str| known.len() == name.len() && known.bytes().eq(name.bytes());
        let found = self.outputs.iter().position(|known| is_it(known));
        found.map(|output| output as u32)
    }

    /// Forgets everything and keeps the memory for the next turn.
    pub fn clear(&mut self) {
        self.sends.clear();
        self.emitted.clear();
        if self.has_only_sends() {
            return;
        }
        self.asks.clear();
        self.writes.clear();
        self.timers.clear();
        self.children.clear();
        self.ends = false;
    }
}

/// A turn in progress: what the worker has done so far, and what it can look at.
pub struct Turn {
    effects: Box<Effects>,
    host: Arc<dyn Host>,
    limits: TurnLimits,
    bytes: usize,
}

impl Turn {
    /// A turn in which nothing has happened yet.
    pub fn new(host: Arc<dyn Host>, limits: TurnLimits) -> Self {
        Self::with_memory(host, limits, Box::default())
    }

    /// As [`Turn::new`], with the memory of effects that were dealt with and cleared.
    pub fn with_memory(host: Arc<dyn Host>, limits: TurnLimits, effects: Box<Effects>) -> Self {
        Self {
            effects,
            host,
            limits,
            bytes: 0,
        }
    }

    /// What happened so far.
    pub fn effects(&self) -> &Effects {
        &self.effects
    }

    /// What happened, to be committed; the turn is as new afterwards.
    pub fn take_effects(&mut self) -> Effects {
        self.bytes = 0;
        std::mem::take(&mut *self.effects)
    }

    /// Gives back the memory of effects that were taken from this turn and dealt with.
    pub fn give_memory(&mut self, mut effects: Effects) {
        effects.clear();
        *self.effects = effects;
    }

    /// The answers to those who wait in this process, if nothing else happened; the turn is as new
    /// once they are taken.
    pub fn take_answers(&mut self) -> Option<impl Iterator<Item = (ReplyTo, Message)>> {
        let is_answer = |outgoing: &Outgoing| matches!(outgoing.to, Target::Waiting(_));
        let has_others = !self.effects.emitted.is_empty() || !self.effects.has_only_sends();
        if has_others || !self.effects.sends.iter().all(is_answer) {
            return None;
        }
        self.bytes = 0;
        let sends = self.effects.sends.drain(..);
        Some(sends.filter_map(|outgoing| match outgoing.to {
            Target::Waiting(to) => Some((to, outgoing.message)),
            Target::Address(_) | Target::Output(_) => None,
        }))
    }

    /// Undoes everything and gives the memory, for the next turn.
    pub fn into_memory(mut self) -> Box<Effects> {
        self.clear();
        // Another host may allow other outputs.
        self.effects.outputs.clear();
        self.effects
    }

    /// Undoes everything.
    pub fn clear(&mut self) {
        self.bytes = 0;
        self.effects.clear();
    }

    /// Sends a message to an address.
    pub fn send(&mut self, to: impl Into<Address>, message: Message) -> Result<(), Failure> {
        let to = to.into();
        self.host.may_send(&to)?;
        self.push(Target::Address(to), message)
    }

    /// Sends a message to whatever this output of the stage is connected with.
    pub fn emit(&mut self, output: &str, message: Message) -> Result<(), Failure> {
        let output = self.output(output)?;
        self.push(Target::Output(output), message)
    }

    /// As [`Turn::emit`], with a value instead of a body: as long as it stays among native workers of this process
    /// nobody writes or reads bytes.
    pub fn emit_value(&mut self, output: &str, value: Arc<dyn Value>) -> Result<(), Failure> {
        let output = self.output(output)?;
        self.count_send(value.len_bytes())?;
        self.effects.emitted.push(output, value);
        Ok(())
    }

    /// As [`Turn::emit`] for each message of a series, in order. As long as it stays in this process and
    /// nobody needs one of them by itself, all of them cost about as much as one.
    pub fn emit_series(&mut self, output: &str, series: impl Into<Stretch>) -> Result<(), Failure> {
        let stretch = series.into();
        let output = self.output(output)?;
        self.count_sends(stretch.len(), stretch.len_bytes())?;
        if !stretch.is_empty() {
            self.effects.emitted.push_stretch(output, stretch);
        }
        Ok(())
    }

    /// The number of an output. Whether it may be emitted to is asked once.
    fn output(&mut self, name: &str) -> Result<u32, Failure> {
        if let Some(output) = self.effects.output(name) {
            return Ok(output);
        }
        self.host.may_emit(name)?;
        self.effects.outputs.push(name.into());
        Ok(self.effects.outputs.len() as u32 - 1)
    }

    /// Answers a message. Fails if it names no address for answers.
    pub fn reply(&mut self, to: &Incoming, message: Message) -> Result<(), Failure> {
        let message = match to.message.headers.get(Message::CORRELATION_ID) {
            Some(id) => correlated(message, id)?,
            None => message,
        };
        match &to.reply_to {
            ReplyTo::Waiting(_) => self.push(Target::Waiting(to.reply_to.clone()), message),
            ReplyTo::Headers => {
                let Some(address) = to.message.headers.get(Message::REPLY_TO) else {
                    return Err(Failure::new("the message names no address for a reply"));
                };
                // Whoever asks names the address, so an answer needs no grant. One who names none
                // that can be understood gets no answer; the worker is not to blame.
                match address.parse() {
                    Ok(address) => self.push(Target::Address(address), message),
                    Err(error) => {
                        let line = format!("a reply was dropped: {error}");
                        self.host.log(LogLevel::Warn, &line);
                        Ok(())
                    }
                }
            }
        }
    }

    /// Asks: the answer, or that none came within `timeout`, is a later message to this very
    /// worker, of the kind [`super::Kind::Reply`] or [`super::Kind::TimedOut`].
    pub fn ask(
        &mut self,
        to: impl Into<Address>,
        message: Message,
        timeout: Duration,
    ) -> Result<Ticket, Failure> {
        let to = to.into();
        self.host.may_send(&to)?;
        self.count_send(message.len_bytes())?;
        let ticket = self.host.next_ticket();
        self.effects.asks.push(Ask {
            ticket,
            to,
            message,
            timeout,
        });
        Ok(ticket)
    }

    /// Sets a timer, or sets it anew. It goes off once.
    pub fn set_timer(&mut self, name: &str, after: Duration, body: Bytes) -> Result<(), Failure> {
        self.count_bytes(name.len() + body.len())?;
        self.effects.timers.push(TimerChange {
            name: name.into(),
            set: Some((after, body)),
        });
        Ok(())
    }

    /// Cancels a timer, if it is set.
    pub fn cancel_timer(&mut self, name: &str) -> Result<(), Failure> {
        self.count_bytes(name.len())?;
        self.effects.timers.push(TimerChange {
            name: name.into(),
            set: None,
        });
        Ok(())
    }

    /// Starts a child that runs the same code, supervised by this worker. It can be sent to as
    /// `flow/stage/worker/name`.
    pub fn spawn(&mut self, name: &str, args: Bytes) -> Result<(), Failure> {
        self.count_send(name.len() + args.len())?;
        self.effects.children.push(ChildChange::Spawn {
            name: name.into(),
            args,
        });
        Ok(())
    }

    /// Ends a child.
    pub fn stop_child(&mut self, name: &str) -> Result<(), Failure> {
        self.count_send(name.len())?;
        self.effects
            .children
            .push(ChildChange::Stop { name: name.into() });
        Ok(())
    }

    /// Ends this worker after the turn. Meant for children whose task is done.
    pub fn end(&mut self) {
        self.effects.ends = true;
    }

    /// The value of a key of this worker's state, or of its bucket if the stage is keyed.
    pub async fn state(&self, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        match self.effects.writes.get(key) {
            Some(written) => Ok(written.clone()),
            None => self.host.state(key).await,
        }
    }

    /// As [`Turn::state`] for several keys, in the same order; over a network it takes about as long as for one.
    pub async fn states<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Bytes>>, Failure> {
        let writes = &self.effects.writes;
        let all = keys.iter().map(AsRef::as_ref);
        let unwritten: Vec<&[u8]> = all.filter(|key| !writes.contains_key(*key)).collect();
        let mut committed = match unwritten.is_empty() {
            true => Vec::new(),
            false => self.host.states(&unwritten).await?,
        }
        .into_iter();
        let value = |key: &K| match writes.get(key.as_ref()) {
            Some(written) => written.clone(),
            None => committed.next().flatten(),
        };
        Ok(keys.iter().map(value).collect())
    }

    /// Gives a key a value.
    pub fn set_state(
        &mut self,
        key: impl Into<Bytes>,
        value: impl Into<Bytes>,
    ) -> Result<(), Failure> {
        let (key, value) = (key.into(), value.into());
        self.count_bytes(key.len() + value.len())?;
        self.effects.writes.insert(key, Some(value));
        Ok(())
    }

    /// Removes a key.
    pub fn remove_state(&mut self, key: impl Into<Bytes>) -> Result<(), Failure> {
        let key = key.into();
        self.count_bytes(key.len())?;
        self.effects.writes.insert(key, None);
        Ok(())
    }

    /// Keys that begin with `prefix` and their values, in order, from the first after `after`.
    pub async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        // Each key removed in this turn may hide one committed pair.
        let wanted = pairs_max.saturating_add(self.effects.writes.len());
        let committed = self.host.scan(prefix, after, wanted).await?;
        let complete = committed.len() < wanted;
        let last = committed.last().map(|(key, _)| key.clone());
        let mut merged: BTreeMap<Bytes, Bytes> = committed.into_iter().collect();
        let from = match after {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let written = self
            .effects
            .writes
            .range::<[u8], _>((from, Bound::Unbounded));
        for (key, value) in written.filter(|(key, _)| key.starts_with(prefix)) {
            // Beyond the last committed pair that was read, others may come first.
            if !complete && last.as_ref().is_some_and(|last| key > last) {
                break;
            }
            match value {
                Some(value) => merged.insert(key.clone(), value.clone()),
                None => merged.remove(key),
            };
        }
        Ok(merged.into_iter().take(pairs_max).collect())
    }

    /// What wakes this worker later, from outside a turn, with a message of the kind [`super::Kind::Woken`] in the scope of
    /// this turn: in a keyed stage its bucket, with whatever worker of this process has it by then. If this process has the
    /// bucket no longer, or the stage is gone, nothing happens. Only native code is woken, and not for
    /// [`super::Worker::init`] of a keyed stage, which belongs to no bucket.
    pub fn waker(&self) -> Arc<dyn Wake> {
        self.host.waker()
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// Writes a line to the worker's log.
    pub fn log(&self, level: LogLevel, line: &str) {
        self.host.log(level, line);
    }

    fn push(&mut self, to: Target, message: Message) -> Result<(), Failure> {
        self.count_send(message.len_bytes())?;
        // Nothing overtakes what was emitted before.
        self.effects.spread_emitted();
        self.effects.sends.push(Outgoing {
            to,
            message,
            value: None,
        });
        Ok(())
    }

    fn count_send(&mut self, bytes: usize) -> Result<(), Failure> {
        self.count_sends(1, bytes)
    }

    fn count_sends(&mut self, count: usize, bytes: usize) -> Result<(), Failure> {
        let effects = &self.effects;
        let sends = effects.sends_count() + effects.asks.len() + effects.children.len();
        if sends + count > self.limits.sends_max {
            let reason = format!(
                "one turn may send {} messages, not more: send fewer, or raise sends_max of the stage",
                self.limits.sends_max
            );
            return Err(Failure::of(FailureKind::Limit, reason));
        }
        self.count_bytes(bytes)
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes += bytes;
        if self.bytes > self.limits.bytes_max {
            let reason = format!(
                "one turn may send and write {} bytes, not more: do less in one turn, or raise bytes_max of the stage",
                self.limits.bytes_max
            );
            return Err(Failure::of(FailureKind::Limit, reason));
        }
        Ok(())
    }
}

/// The message with the id of what it answers.
fn correlated(mut message: Message, id: &str) -> Result<Message, Failure> {
    message.headers = match message.headers.is_empty() {
        true => Headers::from_pairs([(Message::CORRELATION_ID, id)])?,
        false => message.headers.with([(Message::CORRELATION_ID, id)])?,
    };
    Ok(message)
}
