//! One gamq client on TCP.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{
    AckMode, AppendError, Broker, Channel, Credit, Delivery, Durable, Entry, Outbox, Position,
    PublishError, Subscription,
};
use kernel::{Headers, Timestamp};
use parking_lot::Mutex;
use wire::gamq::{self, Command, Decoded, Decoder};

use super::{destination, limits};
use crate::Context;
use crate::batch::Batch;
use crate::clients::{ClientSubscription, Said, written};
use crate::counters::Counters;
use crate::reserved;
use crate::session::{Progress, Received, Session, Stop};
use crate::settings::GamqSettings;

/// The answer to a publish that was refused. It is as long as the one to a publish that was
/// accepted, so that a client that reads a fixed number of bytes stays in step.
pub(super) const REFUSED: &[u8; 8] = b"PUBNACK\n";

/// The command whose refusal may have to be counted in bytes.
const PUBLISH: &str = "PUB";

/// Answers to publishes that wait for a sync. A client knows them only by their order, so what comes
/// after one that waits has to wait as well.
#[derive(Clone, Copy)]
struct Waiting {
    position: Position,
    count: usize,
    accepted: bool,
}

/// What a client has subscribed to. Its place in the list is the token on its deliveries.
#[derive(Clone, Default)]
pub(super) struct Subscriptions(Arc<Mutex<Vec<Subscription>>>);

impl Subscriptions {
    /// These deliveries went out.
    pub fn sent(&self, deliveries: &[Delivery]) {
        let subscriptions = self.0.lock();
        for run in deliveries.chunk_by(|a, b| a.subscription == b.subscription) {
            subscriptions[run[0].subscription as usize].sent(run);
        }
    }

    /// Ends all of them and gives back what did not go out.
    pub fn close(&self, unsent: Vec<Delivery>) {
        let subscriptions = std::mem::take(&mut *self.0.lock());
        let mut unsent_by: Vec<Vec<Entry>> = Vec::new();
        unsent_by.resize_with(subscriptions.len(), Vec::new);
        for delivery in unsent {
            unsent_by[delivery.subscription as usize].push(delivery.entry);
        }
        for (subscription, unsent) in subscriptions.into_iter().zip(unsent_by) {
            subscription.close(unsent, false);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// All of them, for people who look.
    fn describe(&self) -> Vec<ClientSubscription> {
        let subscriptions = self.0.lock();
        let described = |subscription: &Subscription| ClientSubscription {
            destination: written(subscription.destination()),
            waiting_acks: 0,
            prefetch: None,
        };
        subscriptions.iter().map(described).collect()
    }
}

/// The client's half of the protocol without its transport.
pub(super) struct GamqSession {
    broker: Arc<Broker>,
    counters: Counters,
    settings: Arc<crate::Settings>,
    decoder: Decoder,
    outbox: Arc<Outbox>,
    subscriptions: Subscriptions,
    acknowledge: bool,
    /// Where the last publish went: most clients publish to one place.
    target: Option<(String, Channel)>,
    batch: Batch,
    /// How many acknowledgements wait for which sync.
    waiting: VecDeque<Waiting>,
    /// How many messages the client has sent, and how many it has received.
    messages: (u64, u64),
}

impl GamqSession {
    pub fn new(context: &Context) -> Self {
        Self {
            broker: context.broker.clone(),
            counters: context.counters.clone(),
            settings: context.settings.clone(),
            decoder: Decoder::new(limits(&context.settings.gamq)),
            outbox: Arc::default(),
            subscriptions: Subscriptions::default(),
            acknowledge: false,
            target: None,
            batch: Batch::default(),
            waiting: VecDeque::new(),
            messages: (0, 0),
        }
    }

    fn settings(&self) -> &GamqSettings {
        &self.settings.gamq
    }

    /// Carries out one command. Unless it is done, nothing of it has happened.
    pub(super) fn command(
        &mut self,
        command: Command<'_>,
        more_bytes: usize,
        answers: &mut Vec<u8>,
    ) -> Result<Progress, Stop> {
        if let Command::Publish { name, body } = command
            && self.target.as_ref().is_some_and(|(last, _)| last == name)
        {
            self.batch.push(body, Headers::new(), false, more_bytes);
            return Ok(Progress::Done);
        }
        if self.flush(answers)? == Progress::NotReady {
            return Ok(Progress::NotReady);
        }
        match command {
            Command::Blank => {}
            Command::Publish { name, body } => self.publish(name, body, more_bytes, answers),
            Command::Subscribe { name } => self.subscribe(name, answers),
            Command::Close { name } => self.close_queue(name, answers),
            Command::SetAck(on) => self.acknowledge = on,
            Command::PingRequest => answers.extend_from_slice(gamq::PING_RESPONSE),
            Command::Help => answers.extend_from_slice(gamq::help_text().as_bytes()),
            Command::Disconnect => return Err(Stop::AfterAnswers),
            Command::Unrecognised(_) => answers.extend_from_slice(gamq::UNRECOGNISED),
            Command::MissingArgument { command } => {
                self.complain_of(
                    command,
                    answers,
                    &format!("{command} needs a word after it"),
                );
            }
            Command::BadArgument { command, reason } => {
                self.complain_of(command, answers, &format!("{command}: {reason}"));
            }
        }
        Ok(Progress::Done)
    }

    fn complain(&self, answers: &mut Vec<u8>, text: &str) {
        answers.extend_from_slice(text.as_bytes());
        answers.push(b'\n');
    }

    /// A publish that was to be acknowledged is answered as a client that counts bytes expects it.
    fn complain_of(&mut self, command: &str, answers: &mut Vec<u8>, text: &str) {
        if command == PUBLISH {
            self.counters.messages_refused.inc();
            if self.acknowledge {
                tracing::debug!("a gamq publish is refused: {text}");
                self.answer(1, false, None, answers);
                return;
            }
        }
        self.complain(answers, text);
    }

    /// Publishes to another place than before.
    fn publish(&mut self, name: &str, body: &[u8], more_bytes: usize, answers: &mut Vec<u8>) {
        let destination = match destination(name) {
            Ok(destination) => destination,
            Err(error) => {
                let text = format!("{PUBLISH}: {error}");
                return self.complain_of(PUBLISH, answers, &text);
            }
        };
        if reserved::is_for_nodes(&destination) {
            let text = format!("{PUBLISH}: access refused: {destination} is for nodes only");
            return self.complain_of(PUBLISH, answers, &text);
        }
        match self.broker.channel(&destination) {
            Ok(channel) => {
                self.target = Some((name.to_owned(), channel));
                self.batch.push(body, Headers::new(), false, more_bytes);
            }
            Err(error) => self.refuse(&PublishError::from(error), answers),
        }
    }

    /// Publishes what was gathered.
    pub(super) fn flush(&mut self, answers: &mut Vec<u8>) -> Result<Progress, Stop> {
        while !self.batch.is_empty() {
            let Some((_, channel)) = &self.target else {
                break;
            };
            let published = self.batch.publish(channel, self.now());
            self.counters.messages_in.inc_by(published.accepted as u64);
            self.messages.0 += published.accepted as u64;
            self.accepted(published.accepted, published.stored, answers);
            match published.refused {
                None => {}
                Some(PublishError::Journal(AppendError::NotReady)) => {
                    return Ok(Progress::NotReady);
                }
                Some(error) => {
                    self.batch.drop_first();
                    self.refuse(&error, answers);
                }
            }
        }
        Ok(Progress::Done)
    }

    fn now(&self) -> Timestamp {
        self.broker.clock().now()
    }

    fn accepted(&mut self, count: usize, stored: Option<Position>, answers: &mut Vec<u8>) {
        if !self.acknowledge || count == 0 {
            return;
        }
        self.answer(count, true, stored, answers);
    }

    /// Answers publishes at once, or after everything that waits for a sync.
    fn answer(
        &mut self,
        count: usize,
        accepted: bool,
        stored: Option<Position>,
        answers: &mut Vec<u8>,
    ) {
        let last = self.waiting.back().map(|waiting| waiting.position);
        match stored.or(last) {
            Some(position) => self.waiting.push_back(Waiting {
                position,
                count,
                accepted,
            }),
            None => answers.extend_from_slice(&answer_bytes(accepted).repeat(count)),
        }
    }

    fn refuse(&mut self, error: &PublishError, answers: &mut Vec<u8>) {
        self.counters.messages_refused.inc();
        if self.acknowledge {
            self.answer(1, false, None, answers);
        }
        tracing::debug!("a gamq publish is refused: {error}");
    }

    fn subscribe(&self, name: &str, answers: &mut Vec<u8>) {
        let mut subscriptions = self.subscriptions.0.lock();
        if subscriptions.len() >= self.settings().subscriptions_max {
            let text = format!(
                "SUB: at most {} subscriptions are allowed",
                self.settings().subscriptions_max
            );
            return self.complain(answers, &text);
        }
        let destination = match destination(name) {
            Ok(destination) => destination,
            Err(error) => return self.complain(answers, &format!("SUB: {error}")),
        };
        if reserved::is_hidden(&destination) {
            let text = format!("SUB: access refused: {destination} is for nodes only");
            return self.complain(answers, &text);
        }
        match self.broker.channel(&destination) {
            Ok(channel) => {
                let token = subscriptions.len() as u32;
                let outbox = self.outbox.clone();
                let credit = Credit::default();
                let subscription = channel.subscribe(token, AckMode::Auto, credit, outbox);
                subscriptions.push(subscription);
            }
            Err(error) => self.complain(answers, &format!("SUB: {error}")),
        }
    }

    fn close_queue(&self, name: &str, answers: &mut Vec<u8>) {
        match destination(name) {
            Ok(kernel::Destination::Queue(name)) => {
                if let Some(queue) = self.broker.find_queue(name.as_str()) {
                    queue.close();
                }
            }
            Ok(kernel::Destination::Topic(_)) => {
                self.complain(
                    answers,
                    "CLOSE ends queues; a topic ends with its subscribers",
                );
            }
            Err(error) => self.complain(answers, &format!("CLOSE: {error}")),
        }
    }

    pub(super) fn acknowledges(&self) -> bool {
        self.acknowledge
    }

    pub(super) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }
}

fn answer_bytes(accepted: bool) -> &'static [u8] {
    if accepted { gamq::PUBACK } else { REFUSED }
}

impl Session for GamqSession {
    fn receive(&mut self, input: &[u8], answers: &mut Vec<u8>) -> Received {
        let mut consumed = 0;
        let progress = loop {
            let rest = &input[consumed..];
            match self.decoder.decode(rest) {
                Ok(Decoded::Incomplete) => break self.flush(answers),
                Ok(Decoded::Command {
                    command,
                    consumed: used,
                }) => {
                    match self.command(command, rest.len(), answers) {
                        Ok(Progress::Done) => consumed += used,
                        // Not handled yet: it comes again.
                        ended => break ended,
                    }
                }
                Err(error) => {
                    self.counters.protocol_errors.inc();
                    // Whatever was complete before the mistake still counts.
                    let _ = self.flush(answers);
                    if error == gamq::DecodeError::HttpRequest {
                        break Err(Stop::Now);
                    }
                    self.complain(answers, &error.to_string());
                    break Err(Stop::AfterAnswers);
                }
            }
        };
        Received { consumed, progress }
    }

    fn resume(&mut self, answers: &mut Vec<u8>) -> Result<Progress, Stop> {
        self.flush(answers)
    }

    fn awaits_sync(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn synced(&mut self, durable: Durable, answers: &mut Vec<u8>) -> Result<(), Stop> {
        while let Some(waiting) = self.waiting.front() {
            let synced = durable.covers(waiting.position);
            if !synced && !durable.failed {
                break;
            }
            let bytes = answer_bytes(waiting.accepted && synced);
            answers.extend_from_slice(&bytes.repeat(waiting.count));
            self.waiting.pop_front();
        }
        Ok(())
    }

    fn command_time_max(&self) -> Duration {
        Duration::from_secs(if self.decoder.in_body() {
            self.settings().body_seconds_max
        } else {
            self.settings().line_seconds_max
        })
    }

    fn too_slow(&mut self, answers: &mut Vec<u8>) -> Stop {
        self.counters.protocol_errors.inc();
        self.complain(answers, "the command was not completed in time");
        Stop::AfterAnswers
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn tick(&mut self, _: Instant, _: &mut Vec<u8>) -> Result<(), Stop> {
        Ok(())
    }

    fn wrote(&mut self, _: Instant) {}

    fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    fn encode(&mut self, delivery: &Delivery, out: &mut Vec<u8>) {
        gamq::encode_delivery(out, &delivery.entry.message.body);
    }

    fn sent(&mut self, deliveries: &[Delivery]) {
        self.counters.messages_out.inc_by(deliveries.len() as u64);
        self.messages.1 += deliveries.len() as u64;
        self.subscriptions.sent(deliveries);
    }

    fn describe(&self) -> Said {
        let (sent, received) = self.messages;
        Said {
            user: None,
            sent,
            received,
            subscriptions: self.subscriptions.describe(),
        }
    }

    fn goodbye(&mut self, _: &mut Vec<u8>) {}

    fn close(self, unsent: Vec<Delivery>) {
        self.subscriptions.close(unsent);
    }

    fn wants_quick_acknowledgements(&self) -> bool {
        self.acknowledge
    }
}
