//! One STOMP client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::{AppendError, Broker, Channel, Delivery, Durable, Entry, Outbox, PublishError};
use kernel::{Headers, Name};
use wire::stomp::{Decoded, Decoder, HEARTBEAT, Version};

use super::destination;
use super::encode;
use super::limits;
use super::node::Node;
use super::receipts::Receipts;
use super::subscriptions::Subscriptions;
use super::transactions::Transactions;
use crate::batch::Batch;
use crate::clients::Said;
use crate::connection::ANSWER_BYTES_MAX;
use crate::counters::Counters;
use crate::session::{Progress, Received, Session, Stop};
use crate::{Context, Settings};

/// A client may be late with its heart-beats by this much of their period.
const HEART_BEAT_GRACE: u32 = 2;

pub(super) struct StompSession {
    pub(super) broker: Arc<Broker>,
    pub(super) counters: Counters,
    pub(super) settings: Arc<Settings>,
    pub(super) decoder: Decoder,
    pub(super) version: Version,
    /// The name of this session, different from that of every other.
    pub(super) id: String,
    pub(super) connected: bool,
    /// Whether the client is on this machine.
    pub(super) is_local: bool,
    /// The node behind it, if it is one.
    pub(super) node: Option<Node>,
    pub(super) heart: HeartBeats,
    pub(super) outbox: Arc<Outbox>,
    pub(super) subscriptions: Subscriptions,
    pub(super) transactions: Transactions,
    pub(super) receipts: Receipts,
    pub(super) sends: Sends,
    /// Temporary queues that end with this connection.
    pub(super) temporaries: Vec<Name>,
    /// The user that it has logged in as.
    pub(super) user: Option<String>,
    /// How many messages the client has sent, and how many it has received.
    pub(super) messages: (u64, u64),
}

/// When signs of life are due.
pub(super) struct HeartBeats {
    pub opened: Instant,
    pub send_every: Option<Duration>,
    pub expect_every: Option<Duration>,
    pub last_sent: Instant,
    pub last_received: Instant,
}

/// Messages on their way to one place, all of them durable or none.
#[derive(Default)]
pub(super) struct Sends {
    /// The `destination` header of the last message and what it means.
    pub target: Option<(String, Channel)>,
    pub durable: bool,
    pub batch: Batch,
    /// Receipts that were asked for, each with the place of its message in the batch.
    pub receipts: Vec<(usize, String)>,
}

impl Sends {
    /// Whether a message can join the others. A temporary queue may have ended in between, so it is
    /// looked up each time.
    pub fn joins(&self, destination: &str, durable: bool) -> bool {
        self.durable == durable
            && !destination::names_temporary(destination)
            && self
                .target
                .as_ref()
                .is_some_and(|(last, _)| last == destination)
    }

    pub fn push(
        &mut self,
        body: &[u8],
        headers: Headers,
        receipt: Option<&str>,
        more_bytes: usize,
    ) {
        if let Some(receipt) = receipt {
            self.receipts.push((self.batch.len(), receipt.to_owned()));
        }
        self.batch.push(body, headers, self.durable, more_bytes);
    }
}

impl StompSession {
    pub fn new(context: &Context, peer: SocketAddr) -> Self {
        let settings = &context.settings.stomp;
        let now = Instant::now();
        Self {
            broker: context.broker.clone(),
            counters: context.counters.clone(),
            settings: context.settings.clone(),
            decoder: Decoder::new(limits(settings)),
            version: Version::V1_2,
            id: next_session_id(context),
            connected: false,
            is_local: peer.ip().to_canonical().is_loopback(),
            node: None,
            heart: HeartBeats {
                opened: now,
                send_every: None,
                expect_every: None,
                last_sent: now,
                last_received: now,
            },
            outbox: Arc::default(),
            subscriptions: Subscriptions::default(),
            transactions: Transactions::new(
                settings.transactions_max,
                settings.transaction_bytes_max,
            ),
            receipts: Receipts::default(),
            sends: Sends::default(),
            temporaries: Vec::new(),
            user: None,
            messages: (0, 0),
        }
    }

    /// Publishes what was gathered.
    pub(super) fn flush(&mut self, answers: &mut Vec<u8>) -> Result<Progress, Stop> {
        if self.sends.batch.is_empty() {
            return Ok(Progress::Done);
        }
        let Some((_, channel)) = &self.sends.target else {
            return Ok(Progress::Done);
        };
        let now = self.broker.clock().now();
        let published = self.sends.batch.publish(channel, now);
        self.counters.messages_in.inc_by(published.accepted as u64);
        self.messages.0 += published.accepted as u64;
        let refused_receipt = self.confirm(published.accepted, published.stored, answers);
        match published.refused {
            None => Ok(Progress::Done),
            Some(PublishError::Journal(AppendError::NotReady)) => Ok(Progress::NotReady),
            Some(error) => {
                self.counters.messages_refused.inc();
                Err(self.fail(&error.to_string(), refused_receipt.as_deref(), answers))
            }
        }
    }

    /// Answers the receipts of accepted messages; gives that of the first that was not.
    fn confirm(
        &mut self,
        accepted: usize,
        stored: Option<broker::Position>,
        answers: &mut Vec<u8>,
    ) -> Option<String> {
        let asked = std::mem::take(&mut self.sends.receipts);
        let mut refused = None;
        for (place, receipt) in asked {
            match place.checked_sub(accepted) {
                None => self.receipts.add(answers, self.version, &receipt, stored),
                Some(place) => {
                    if place == 0 {
                        refused = Some(receipt.clone());
                    }
                    self.sends.receipts.push((place, receipt));
                }
            }
        }
        refused
    }

    /// Whether so many answers have gathered that they have to go out before more is done. Only what
    /// a node asks for can be much longer than the question.
    fn owes_much(&self, answers: &[u8]) -> bool {
        self.node.is_some() && answers.len() + self.receipts.waiting_bytes() >= ANSWER_BYTES_MAX
    }

    /// Tells the client what was wrong; by the protocol that is the end of the connection.
    pub(super) fn fail(&self, message: &str, receipt: Option<&str>, answers: &mut Vec<u8>) -> Stop {
        encode::error(answers, self.version, message, receipt);
        Stop::AfterAnswers
    }
}

fn next_session_id(context: &Context) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static SESSIONS: AtomicU64 = AtomicU64::new(0);
    let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
    // The time makes it different from those before a restart.
    format!("{:x}-{number:x}", context.broker.clock().now().as_micros())
}

impl Session for StompSession {
    fn receive(&mut self, input: &[u8], answers: &mut Vec<u8>) -> Received {
        self.heart.last_received = Instant::now();
        let mut consumed = 0;
        let progress = loop {
            let rest = &input[consumed..];
            match self.decoder.decode(rest) {
                Ok(Decoded::Incomplete) => break self.flush(answers),
                Ok(Decoded::HeartBeat { consumed: used }) => consumed += used,
                Ok(Decoded::Frame {
                    frame,
                    consumed: used,
                }) => match self.frame(&frame, rest.len(), answers) {
                    Ok(Progress::Done) => {
                        consumed += used;
                        if self.owes_much(answers) {
                            break self.flush(answers).map(|progress| match progress {
                                Progress::Done => Progress::AnswersFirst,
                                other => other,
                            });
                        }
                    }
                    // Not handled yet: it comes again.
                    ended => break ended,
                },
                Err(error) => {
                    self.counters.protocol_errors.inc();
                    // Whatever was complete before the mistake still counts.
                    let _ = self.flush(answers);
                    if error == wire::stomp::DecodeError::HttpRequest {
                        break Err(Stop::Now);
                    }
                    let message = format!("malformed frame: {error}");
                    break Err(self.fail(&message, None, answers));
                }
            }
        };
        Received { consumed, progress }
    }

    fn resume(&mut self, answers: &mut Vec<u8>) -> Result<Progress, Stop> {
        // Nobody listened to the client while the journal was waited for.
        self.heart.last_received = Instant::now();
        self.flush(answers)
    }

    fn awaits_sync(&self) -> bool {
        !self.receipts.is_empty()
    }

    fn waiting_bytes(&self) -> usize {
        self.receipts.waiting_bytes()
    }

    fn synced(&mut self, durable: Durable, answers: &mut Vec<u8>) -> Result<(), Stop> {
        let synced = self.receipts.synced(answers, self.version, durable);
        synced.map_err(|receipt| {
            self.receipts = Receipts::default();
            let reason = self
                .broker
                .journal()
                .failure()
                .map_or_else(String::new, |failure| failure.to_string());
            let message = format!("not stored: {reason}");
            self.fail(&message, receipt.as_deref(), answers)
        })
    }

    fn command_time_max(&self) -> Duration {
        Duration::from_secs(self.settings.stomp.frame_seconds_max)
    }

    fn too_slow(&mut self, answers: &mut Vec<u8>) -> Stop {
        self.counters.protocol_errors.inc();
        let seconds = self.settings.stomp.frame_seconds_max;
        let message = format!("too slow: a frame must be complete within {seconds} seconds");
        self.fail(&message, None, answers)
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.connected {
            let handshake = Duration::from_secs(self.settings.stomp.handshake_seconds_max);
            return Some(self.heart.opened + handshake);
        }
        let send = self.heart.send_at();
        let expect = self.heart.expect_until();
        [send, expect].into_iter().flatten().min()
    }

    fn tick(&mut self, now: Instant, answers: &mut Vec<u8>) -> Result<(), Stop> {
        if !self.connected {
            if self.deadline().is_some_and(|deadline| now >= deadline) {
                self.counters.protocol_errors.inc();
                let seconds = self.settings.stomp.handshake_seconds_max;
                let message = format!(
                    "too slow: CONNECT must come within {seconds} seconds after opening the connection"
                );
                return Err(self.fail(&message, None, answers));
            }
            return Ok(());
        }
        if self.heart.expect_until().is_some_and(|until| now >= until) {
            let message = "heart-beat missing: nothing was heard for longer than agreed, so the connection is taken for dead";
            return Err(self.fail(message, None, answers));
        }
        if self.heart.send_at().is_some_and(|at| now >= at) {
            // Nothing goes out to a client that takes nothing, and one heart-beat is enough.
            if answers.is_empty() {
                answers.extend_from_slice(HEARTBEAT);
            }
            self.heart.last_sent = now;
        }
        Ok(())
    }

    fn wrote(&mut self, now: Instant) {
        self.heart.last_sent = now;
    }

    fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    fn encode(&mut self, delivery: &Delivery, out: &mut Vec<u8>) {
        if let Some(subscribed) = self.subscriptions.get(delivery.subscription) {
            subscribed.encode(self.version, delivery.subscription, &delivery.entry, out);
        }
    }

    fn sent(&mut self, deliveries: &[Delivery]) {
        self.counters.messages_out.inc_by(deliveries.len() as u64);
        self.messages.1 += deliveries.len() as u64;
        self.subscriptions.sent(deliveries);
    }

    fn describe(&self) -> Said {
        let (sent, received) = self.messages;
        Said {
            user: self.user.clone(),
            sent,
            received,
            subscriptions: self.subscriptions.describe(),
        }
    }

    fn take_ending(&mut self) -> Vec<u32> {
        self.subscriptions.take_ending()
    }

    fn end_subscription(&mut self, token: u32, unsent: Vec<Entry>) {
        self.subscriptions.end(token, unsent);
    }

    fn goodbye(&mut self, answers: &mut Vec<u8>) {
        if self.connected {
            let message = "the server stops: connect again later";
            encode::error(answers, self.version, message, None);
        }
    }

    fn close(self, unsent: Vec<Delivery>) {
        self.subscriptions.close(unsent);
        for name in &self.temporaries {
            self.broker.remove_queue(name.as_str());
        }
    }
}

impl HeartBeats {
    /// We send a little earlier than promised, so that the other side never waits.
    fn send_at(&self) -> Option<Instant> {
        self.send_every.map(|every| self.last_sent + every * 3 / 4)
    }

    fn expect_until(&self) -> Option<Instant> {
        self.expect_every
            .map(|every| self.last_received + every * HEART_BEAT_GRACE)
    }
}
