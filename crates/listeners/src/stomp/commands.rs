//! What each frame of a client does.

use std::borrow::Cow;

use broker::{AckMode, AppendError, CommitError, Credit, Publication, PublishError, Reject};
use bytes::Bytes;
use kernel::{Destination, Headers, HeadersBuilder, HeadersError, Message};
use wire::stomp::additions::{DEAD, IN_TURN, REASON, SENDERS_MESSAGE_ID, THROUGH, TRIES, UNSEEN};
use wire::stomp::{self, Command, Frame};

use super::destination::{self, TEMPORARY};
use super::encode::{self, MESSAGE_ID, parse_message_id};
use super::requests::FOR_NODES;
use super::session::StompSession;
use super::subscriptions::Subscribed;
use super::transactions::{Answer, TransactionError};
use crate::reserved;
use crate::session::{Progress, Stop};

/// A prefetch count is never larger than this, whatever a client asks for.
const PREFETCH_MESSAGES_MAX: u32 = 65_535;

/// A command that could not be carried out, in words for the client.
pub(super) struct Refusal(pub String);

impl<E: std::error::Error> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// What carrying out a command came to.
pub(super) type Outcome = Result<Progress, Refusal>;

impl StompSession {
    /// Carries out one frame. Unless it is done, nothing of it has happened.
    pub(super) fn frame(
        &mut self,
        frame: &Frame<'_>,
        more_bytes: usize,
        answers: &mut Vec<u8>,
    ) -> Result<Progress, Stop> {
        let outcome = match (self.connected, frame.command) {
            (true, Command::Send) => return self.send(frame, more_bytes, answers),
            (false, Command::Connect | Command::Stomp) => self.connect(frame, answers),
            (false, command) => Err(Refusal(format!(
                "not connected: send CONNECT before {command}"
            ))),
            (true, command) => {
                if self.flush(answers)? == Progress::NotReady {
                    return Ok(Progress::NotReady);
                }
                if command == Command::Disconnect {
                    return Err(self.disconnect(frame, answers));
                }
                self.other(frame, answers)
            }
        };
        self.or_fail(outcome, frame, answers)
    }

    fn or_fail(
        &mut self,
        outcome: Outcome,
        frame: &Frame<'_>,
        answers: &mut Vec<u8>,
    ) -> Result<Progress, Stop> {
        outcome.or_else(|Refusal(message)| {
            if self.spoil_transaction(frame, &message) {
                return Ok(Progress::Done);
            }
            self.counters.protocol_errors.inc();
            Err(self.fail(&message, frame.header("receipt").as_deref(), answers))
        })
    }

    fn other(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        match frame.command {
            Command::Subscribe => self.subscribe(frame)?,
            Command::Unsubscribe => self.unsubscribe(frame)?,
            Command::Ack => return self.acknowledge(frame, answers),
            Command::Nack => return self.reject(frame, answers),
            Command::Begin => self.transactions.begin(&required(frame, "transaction")?)?,
            Command::Abort => self.transactions.abort(&required(frame, "transaction")?)?,
            Command::Commit => return self.commit(frame, answers),
            Command::Connect | Command::Stomp => {
                return Err(Refusal("connected already: CONNECT comes once".into()));
            }
            command => {
                return Err(Refusal(format!(
                    "{command} is not for clients: only a server sends it"
                )));
            }
        }
        if let Some(receipt) = frame.header("receipt") {
            encode::receipt(answers, self.version, &receipt, None);
        }
        Ok(Progress::Done)
    }

    /// Everything before it has been published, so only receipts may still be due.
    fn disconnect(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Stop {
        if let Some(receipt) = frame.header("receipt") {
            self.receipts.add_last(answers, self.version, &receipt);
        }
        Stop::AfterAnswers
    }

    fn send(
        &mut self,
        frame: &Frame<'_>,
        more_bytes: usize,
        answers: &mut Vec<u8>,
    ) -> Result<Progress, Stop> {
        let send = match Send::read(frame) {
            Ok(send) => send,
            Err(refusal) => {
                // What was sent before the mistake still counts.
                return match self.flush(answers)? {
                    Progress::Done => self.or_fail(Err(refusal), frame, answers),
                    other => Ok(other),
                };
            }
        };
        if send.transaction.is_none()
            && send.reply_to_temporary.is_none()
            && self.sends.joins(&send.destination, send.durable)
        {
            let receipt = send.receipt.as_deref();
            self.sends
                .push(frame.body, send.headers, receipt, more_bytes);
            return Ok(Progress::Done);
        }
        if self.flush(answers)? == Progress::NotReady {
            return Ok(Progress::NotReady);
        }
        let outcome = self.send_elsewhere(frame, send, more_bytes, answers);
        self.or_fail(outcome, frame, answers)
    }

    /// A send that cannot simply join those before it.
    fn send_elsewhere(
        &mut self,
        frame: &Frame<'_>,
        mut send: Send<'_>,
        more_bytes: usize,
        answers: &mut Vec<u8>,
    ) -> Outcome {
        if self.node.is_some()
            && let Some(what) = send.destination.strip_prefix(FOR_NODES)
        {
            return self.node_send(what, frame, answers);
        }
        let destination = destination::parse(&send.destination, &self.id)?;
        if self.node.is_none() && reserved::is_for_nodes(&destination) {
            self.counters.messages_refused.inc();
            return Err(Refusal(format!(
                "access refused: {destination} is for nodes only; choose a name that does not begin with `hivewire.`"
            )));
        }
        if self.owner_has_gone(&destination) {
            return self.refuse_orphan(&destination, send.receipt.is_some());
        }
        if let Some(reply_to) = send.reply_to_temporary.take() {
            let name = self.imply_subscription(&reply_to)?;
            let address = format!("/queue/{name}");
            send.headers = send.headers.with([(Message::REPLY_TO, address.as_str())])?;
        }
        if let Some(transaction) = &send.transaction {
            let message = Message::new(Bytes::copy_from_slice(frame.body))
                .with_headers(send.headers)
                .published_at(self.broker.clock().now());
            let publication = Publication {
                message,
                durable: send.durable,
            };
            self.transactions
                .send(transaction, destination, publication)?;
            if let Some(receipt) = &send.receipt {
                self.receipts.add(answers, self.version, receipt, None);
            }
            return Ok(Progress::Done);
        }
        let channel = self.broker.channel(&destination)?;
        self.sends.target = Some((send.destination.into_owned(), channel));
        self.sends.durable = send.durable;
        self.sends.push(
            frame.body,
            send.headers,
            send.receipt.as_deref(),
            more_bytes,
        );
        Ok(Progress::Done)
    }

    /// Whether it is a temporary queue that ended with its connection.
    fn owner_has_gone(&self, destination: &Destination) -> bool {
        destination::is_foreign_temporary(destination, &self.id)
            && self
                .broker
                .find_queue(destination.name().as_str())
                .is_none()
    }

    /// Nobody could ever read what is sent there. Whoever asked for a receipt is told; an answer
    /// that comes too late must not cost others their connection.
    fn refuse_orphan(&self, destination: &Destination, asked: bool) -> Outcome {
        self.counters.messages_refused.inc();
        let text = format!("no such queue: {destination} ended with the connection that made it");
        if asked {
            return Err(Refusal(text));
        }
        tracing::info!("a message is refused: {text}");
        Ok(Progress::Done)
    }

    /// A reply address that is a temporary queue is subscribed to, unless the client did so itself.
    fn imply_subscription(&mut self, reply_to: &str) -> Result<String, Refusal> {
        let name = destination::temporary(&reply_to[TEMPORARY.len()..], &self.id);
        if !self.subscriptions.has_destination(reply_to) {
            let id = reply_to.to_owned();
            let token =
                self.add_subscription(id, reply_to, AckMode::Auto, Credit::default(), false)?;
            self.subscriptions.imply(token);
        }
        Ok(name)
    }

    fn subscribe(&mut self, frame: &Frame<'_>) -> Result<(), Refusal> {
        let destination = required(frame, "destination")?;
        let id = match frame.header("id") {
            Some(id) => id.into_owned(),
            None if self.version == stomp::Version::V1_0 => destination.clone().into_owned(),
            None => return Err(missing(frame, "id")),
        };
        if let Some(implied) = self.subscriptions.implied(&destination) {
            self.subscriptions.begin_end(&implied);
        }
        if self.subscriptions.contains(&id) {
            return Err(Refusal(format!(
                "subscription id in use: `{id}` is there already; choose another"
            )));
        }
        let mode = ack_mode(frame)?;
        let credit = self.credit(frame, mode)?;
        let in_turn = is_true(frame, IN_TURN);
        self.add_subscription(id, &destination, mode, credit, in_turn)?;
        Ok(())
    }

    fn credit(&self, frame: &Frame<'_>, mode: AckMode) -> Result<Credit, Refusal> {
        let asked = match frame.header("prefetch-count") {
            None => None,
            Some(text) => match text.parse::<u32>() {
                Ok(count) => Some(count),
                Err(_) => {
                    return Err(Refusal(format!(
                        "bad prefetch-count: `{text}` is not a number of messages"
                    )));
                }
            },
        };
        let messages = match (mode, asked) {
            (AckMode::Auto, _) => u32::MAX,
            (_, Some(0)) => PREFETCH_MESSAGES_MAX,
            (_, Some(count)) => count.min(PREFETCH_MESSAGES_MAX),
            (_, None) => self.settings.stomp.prefetch_messages,
        };
        Ok(Credit {
            messages,
            ..Credit::default()
        })
    }

    fn add_subscription(
        &mut self,
        id: String,
        destination: &str,
        mode: AckMode,
        credit: Credit,
        in_turn: bool,
    ) -> Result<u32, Refusal> {
        let subscriptions_max = self.settings.stomp.subscriptions_max;
        if self.subscriptions.len() >= subscriptions_max {
            return Err(Refusal(format!(
                "too many subscriptions: a connection may have {subscriptions_max}; unsubscribe first"
            )));
        }
        let target = destination::parse(destination, &self.id)?;
        if destination::is_foreign_temporary(&target, &self.id) {
            return Err(Refusal(format!(
                "access refused: {target} is a temporary queue of another connection"
            )));
        }
        if self.node.is_none() && reserved::is_hidden(&target) {
            return Err(Refusal(format!(
                "access refused: {target} is for nodes only; the logs of all nodes are at /api/v1/logs"
            )));
        }
        if let (Destination::Queue(name), true) = (&target, destination.starts_with(TEMPORARY))
            && !self.temporaries.contains(name)
        {
            self.temporaries.push(name.clone());
        }
        let channel = self.broker.channel(&target)?;
        let token = self.subscriptions.take_token();
        let outbox = self.outbox.clone();
        let prefetch = credit.messages;
        let subscription = match in_turn {
            true => channel.subscribe_in_turn(token, mode, credit, outbox),
            false => channel.subscribe(token, mode, credit, outbox),
        };
        let subscribed = Subscribed::new(
            self.version,
            id,
            destination.to_owned(),
            mode,
            subscription,
            prefetch,
        );
        self.subscriptions.insert(token, subscribed);
        Ok(token)
    }

    fn unsubscribe(&mut self, frame: &Frame<'_>) -> Result<(), Refusal> {
        let id = match frame.header("id") {
            Some(id) => id,
            None if self.version == stomp::Version::V1_0 => required(frame, "destination")?,
            None => return Err(missing(frame, "id")),
        };
        if self.subscriptions.begin_end(&id) {
            return Ok(());
        }
        Err(Refusal(format!("no such subscription: `{id}`")))
    }

    /// The message that an ACK or NACK frame speaks of.
    fn answered(&self, frame: &Frame<'_>) -> Result<Answer, Refusal> {
        let name = match self.version {
            stomp::Version::V1_2 => "id",
            stomp::Version::V1_0 | stomp::Version::V1_1 => "message-id",
        };
        let text = required(frame, name)?;
        // What a node does not hold any more, its commit tells it.
        let is_told_later = self.node.is_some() && frame.header("transaction").is_some();
        let is_known = |token| is_told_later || self.subscriptions.get(token).is_some();
        match parse_message_id(&text).filter(|(_, token)| is_known(*token)) {
            Some((id, token)) => Ok(Answer {
                token,
                id,
                rejected: frame.command == Command::Nack,
            }),
            None => Err(Refusal(format!(
                "unknown message: `{text}` was not delivered to a subscription of this connection"
            ))),
        }
    }

    fn acknowledge(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        let answer = self.answered(frame)?;
        if let Some(transaction) = frame.header("transaction") {
            return self.answer_later(&transaction, answer, frame, answers);
        }
        let through = is_true(frame, THROUGH);
        let subscribed = self.subscriptions.get(answer.token);
        let done = subscribed.map(|s| {
            s.subscription
                .acknowledge(answer.id, through || s.through())
        });
        self.finish_answer(done, frame, answers)
    }

    fn reject(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        let answer = self.answered(frame)?;
        if let Some(transaction) = frame.header("transaction") {
            return self.answer_later(&transaction, answer, frame, answers);
        }
        if is_true(frame, UNSEEN) {
            return self.release(&answer, frame, answers);
        }
        let reason = match frame.header(REASON) {
            Some(reason) => reason.into_owned(),
            None => "the subscriber rejected it".into(),
        };
        let reject = match is_true(frame, DEAD) {
            true => Reject::Dead { reason },
            false => Reject::Retry { reason },
        };
        let subscribed = self.subscriptions.get(answer.token);
        let done = subscribed.map(|s| s.subscription.reject(answer.id, s.through(), &reject));
        self.finish_answer(done, frame, answers)
    }

    /// The client never looked at the message, which counts when its subscription ends.
    fn release(&mut self, answer: &Answer, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        if let Some(subscribed) = self.subscriptions.get(answer.token) {
            subscribed.subscription.release([answer.id]);
        }
        if let Some(receipt) = frame.header("receipt") {
            self.receipts.add(answers, self.version, &receipt, None);
        }
        Ok(Progress::Done)
    }

    fn answer_later(
        &mut self,
        transaction: &str,
        answer: Answer,
        frame: &Frame<'_>,
        answers: &mut Vec<u8>,
    ) -> Outcome {
        self.transactions.answer(transaction, answer)?;
        if let Some(receipt) = frame.header("receipt") {
            self.receipts.add(answers, self.version, &receipt, None);
        }
        Ok(Progress::Done)
    }

    fn finish_answer(
        &mut self,
        done: Option<broker::Acknowledged>,
        frame: &Frame<'_>,
        answers: &mut Vec<u8>,
    ) -> Outcome {
        let done = done.unwrap_or_default();
        if done.messages == 0 {
            return Err(Refusal(
                "unknown message: it is not waiting for an answer; it may have been answered already"
                    .into(),
            ));
        }
        if let Some(receipt) = frame.header("receipt") {
            self.receipts
                .add(answers, self.version, &receipt, done.stored);
        }
        Ok(Progress::Done)
    }

    fn commit(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        if self.node.is_some() {
            return self.commit_as_node(frame, answers);
        }
        let name = required(frame, "transaction")?;
        let committed = self
            .transactions
            .commit(&name, &self.broker, &self.subscriptions);
        match committed {
            Ok(stored) => {
                if let Some(receipt) = frame.header("receipt") {
                    self.receipts.add(answers, self.version, &receipt, stored);
                }
                Ok(Progress::Done)
            }
            Err(TransactionError::Commit(CommitError::Send(PublishError::Journal(
                AppendError::NotReady,
            )))) => Ok(Progress::NotReady),
            Err(error) => Err(error.into()),
        }
    }
}

/// A SEND frame, read.
struct Send<'a> {
    destination: Cow<'a, str>,
    durable: bool,
    receipt: Option<Cow<'a, str>>,
    transaction: Option<Cow<'a, str>>,
    /// The reply address, if it is a temporary queue and has to be replaced.
    reply_to_temporary: Option<Cow<'a, str>>,
    headers: Headers,
}

impl<'a> Send<'a> {
    fn read(frame: &Frame<'a>) -> Result<Self, Refusal> {
        let mut destination = None;
        let mut persistent = None;
        let mut receipt = None;
        let mut transaction = None;
        let mut reply_to_temporary = None;
        let mut headers = HeadersBuilder::default();
        for (name, value) in frame.headers() {
            match &*name {
                "destination" => first(&mut destination, value),
                "persistent" => first(&mut persistent, value),
                "receipt" => first(&mut receipt, value),
                "transaction" => first(&mut transaction, value),
                "content-length" => {}
                // What the server says about a message is not for the sender to say.
                "subscription" | MESSAGE_ID | "ack" | "redelivered" | TRIES => {}
                SENDERS_MESSAGE_ID => headers.push(MESSAGE_ID, &value).map_err(too_large)?,
                Message::REPLY_TO if value.starts_with(TEMPORARY) => {
                    first(&mut reply_to_temporary, value);
                }
                _ => headers.push(&name, &value).map_err(too_large)?,
            }
        }
        Ok(Self {
            destination: destination.ok_or_else(|| missing(frame, "destination"))?,
            durable: persistent.is_some_and(|value| value == "true"),
            receipt,
            transaction,
            reply_to_temporary,
            headers: headers.build(),
        })
    }
}

fn too_large(error: HeadersError) -> Refusal {
    Refusal(format!("headers too large: {error}"))
}

/// The first of repeated headers counts.
fn first<'a>(slot: &mut Option<Cow<'a, str>>, value: Cow<'a, str>) {
    if slot.is_none() {
        *slot = Some(value);
    }
}

fn is_true(frame: &Frame<'_>, name: &str) -> bool {
    frame.header(name).as_deref() == Some("true")
}

pub(super) fn required<'a>(frame: &Frame<'a>, name: &str) -> Result<Cow<'a, str>, Refusal> {
    frame.header(name).ok_or_else(|| missing(frame, name))
}

/// A header that holds a number.
pub(super) fn number(frame: &Frame<'_>, name: &str) -> Result<u64, Refusal> {
    let text = required(frame, name)?;
    text.parse()
        .map_err(|_| Refusal(format!("bad {name}: `{text}` is not a number")))
}

fn missing(frame: &Frame<'_>, name: &str) -> Refusal {
    Refusal(format!(
        "header missing: {} needs a header `{name}`",
        frame.command
    ))
}

fn ack_mode(frame: &Frame<'_>) -> Result<AckMode, Refusal> {
    match frame.header("ack").as_deref() {
        None | Some("auto") => Ok(AckMode::Auto),
        Some("client") => Ok(AckMode::Client),
        Some("client-individual") => Ok(AckMode::Individual),
        Some(other) => Err(Refusal(format!(
            "bad ack mode: `{other}` is none of auto, client and client-individual"
        ))),
    }
}
