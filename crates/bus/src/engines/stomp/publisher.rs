//! Publishing with confirmation, repeated until confirmed or out of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::{Destination, Message};
use parking_lot::Mutex;
use tokio::sync::{RwLock, oneshot};
use tokio::time::Instant;
use wire::stomp::{self, Command};

use super::convert::{self, Id, Outgoing, Sending};
use super::dialect::{Confirm, Judgement};
use super::link::Link;
use super::receipts::Outcome;
use super::session::{Over, Session};
use crate::capabilities::AckLevel;
use crate::contract::Begun;
use crate::deadline::Deadline;
use crate::delivery::MESSAGE_ID;
use crate::engines::declared::Declared;
use crate::error::BusError;

/// How many messages are on their way unconfirmed in one call, and how many bytes of them.
const UNCONFIRMED_MESSAGES_MAX: usize = 1_024;
const UNCONFIRMED_BYTES_MAX: usize = 2 << 20;
/// Pause before a publish is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);
/// How long publishes go one by one after a complaint that may be about any of them.
const ONE_BY_ONE: Duration = Duration::from_secs(2);

/// What came of sending once.
enum Round {
    /// All are confirmed, which is worth this much.
    Done(AckLevel),
    /// Something is missing, for this reason; trying again can help.
    Again(String),
    Refused(BusError),
}

/// How SEND frames to one destination begin.
struct Starts {
    /// The first one on a connection.
    first: Vec<u8>,
    later: Vec<u8>,
}

/// Publishes on one connection after another.
pub(super) struct Publisher {
    link: Arc<Link>,
    declared: Arc<Declared>,
    /// Ids are this and a number, so that they differ between processes and restarts.
    id_start: String,
    next_id: AtomicU64,
    /// Held by many that publish, or by one alone while it has to be found out whom the server
    /// complains about.
    together: Arc<RwLock<()>>,
    one_by_one_until: Mutex<Option<Instant>>,
}

impl Publisher {
    pub fn new(link: Arc<Link>, declared: Arc<Declared>) -> Self {
        Self {
            link,
            declared,
            id_start: format!("{:032x}", fastrand::u128(..)),
            next_id: AtomicU64::new(0),
            together: Arc::default(),
            one_by_one_until: Mutex::default(),
        }
    }

    /// Why there is no connection, if there is none.
    pub fn trouble(&self) -> Option<String> {
        self.link.trouble()
    }

    fn outgoing(&self, message: Message, tries: u32) -> Outgoing {
        let id = match message.headers.get(MESSAGE_ID) {
            Some(_) => Id::Sender,
            None => Id::Number(self.next_id.fetch_add(1, Ordering::Relaxed)),
        };
        Outgoing {
            message,
            id,
            tries,
            confirmed: false,
        }
    }

    /// Publishes a batch in order; what is not confirmed stays in it, with its id as a header.
    pub async fn publish(
        &self,
        to: &Destination,
        batch: &mut Vec<Message>,
        deadline: Deadline,
    ) -> Result<AckLevel, BusError> {
        let outgoing = batch.drain(..).map(|message| self.outgoing(message, 0));
        let mut outgoing: Vec<Outgoing> = outgoing.collect();
        let outcome = self.send_all(to, &mut outgoing, deadline).await;
        if outcome.is_err() {
            let unconfirmed = outgoing.into_iter().filter(|one| !one.confirmed);
            batch.extend(unconfirmed.map(|one| self.with_id(one)));
        }
        outcome
    }

    /// Publishes one message that was tried before, under the id that it had.
    pub async fn publish_again(
        &self,
        to: &Destination,
        message: Message,
        id: Option<&str>,
        tries: u32,
        deadline: Deadline,
    ) -> Result<(), BusError> {
        let mut outgoing = self.outgoing(message, tries);
        if let (Id::Number(_), Some(id)) = (&outgoing.id, id) {
            outgoing.id = Id::Kept(id.into());
        }
        self.send_all(to, &mut [outgoing], deadline).await?;
        Ok(())
    }

    /// Publishes a batch once, on the connection of the moment, if it can go out at once and over the
    /// same connection as what is in front of it.
    pub fn begin(
        self: &Arc<Self>,
        to: &Destination,
        messages: Vec<Message>,
        behind: Option<&Begun>,
        deadline: Deadline,
    ) -> Result<Begun, Vec<Message>> {
        let is_alone = self
            .one_by_one_until
            .lock()
            .is_some_and(|until| Instant::now() < until);
        let (Some(session), Ok(together), false) = (
            self.link.connected_now().filter(|s| s.has_room()),
            self.together.clone().try_read_owned(),
            is_alone,
        ) else {
            return Err(messages);
        };
        let is_other = |begun: &Begun| {
            !std::ptr::addr_eq(Arc::as_ptr(&begun.connection), Arc::as_ptr(&session))
        };
        let starts = self.starts(&session, to);
        let outgoing = messages
            .into_iter()
            .map(|message| self.outgoing(message, 0));
        let mut outgoing: Vec<Outgoing> = outgoing.collect();
        let fits = count_together(&outgoing) == outgoing.len();
        let sent = match starts {
            Ok(starts) if fits && !behind.is_some_and(is_other) => {
                self.send(&session, to, &starts, &outgoing).ok()
            }
            _ => None,
        };
        let Some((outcome, asked)) = sent else {
            return Err(outgoing.into_iter().map(|one| one.message).collect());
        };
        let (publisher, connection) = (self.clone(), session.clone());
        let outcome = async move {
            let _together = together;
            let outcome = deadline.limit(outcome).await;
            match outcome {
                Ok(Ok(Outcome::Confirmed(_))) => return Ok(()),
                Ok(Ok(Outcome::Lost { confirmed, .. } | Outcome::Complaint { confirmed, .. })) => {
                    mark(&mut outgoing, asked, &confirmed);
                }
                Ok(Ok(Outcome::Declined(_)) | Err(_)) | Err(_) => {}
            }
            let unconfirmed = outgoing.into_iter().filter(|one| !one.confirmed);
            Err(unconfirmed.map(|one| publisher.with_id(one)).collect())
        };
        Ok(Begun {
            connection,
            outcome: Box::pin(outcome),
        })
    }

    async fn send_all(
        &self,
        to: &Destination,
        outgoing: &mut [Outgoing],
        deadline: Deadline,
    ) -> Result<AckLevel, BusError> {
        let mut level = AckLevel::Memory;
        let mut rest = outgoing;
        // Sending the next ones only after these keeps the order whatever is repeated.
        while !rest.is_empty() {
            let (some, others) = rest.split_at_mut(count_together(rest));
            level = self.send_until_confirmed(to, some, deadline).await?;
            rest = others;
        }
        Ok(level)
    }

    async fn send_until_confirmed(
        &self,
        to: &Destination,
        outgoing: &mut [Outgoing],
        deadline: Deadline,
    ) -> Result<AckLevel, BusError> {
        let mut sent = false;
        let mut reason = None;
        while !deadline.is_over() {
            let attempt = self.attempt(to, outgoing, &mut sent);
            match deadline.limit(attempt).await {
                Ok(Round::Done(level)) => return Ok(level),
                Ok(Round::Refused(error)) => return Err(error),
                Ok(Round::Again(why)) => reason = Some(why),
                Err(_) => {}
            }
            // An error means that the time is up, which ends the loop.
            let _ = deadline.limit(tokio::time::sleep(REPEAT_PAUSE)).await;
        }
        let trouble = self.link.trouble().or(reason);
        let reason = trouble.unwrap_or_else(|| "no answer".into());
        Err(match sent {
            true => deadline.in_doubt("a publish", reason),
            false => deadline.timeout("a publish", reason),
        })
    }

    /// Sends once on whatever connection there is.
    async fn attempt(&self, to: &Destination, outgoing: &mut [Outgoing], sent: &mut bool) -> Round {
        let until = *self.one_by_one_until.lock();
        if until.is_some_and(|until| Instant::now() < until) {
            let _alone = self.together.write().await;
            return self.attempt_now(to, outgoing, sent).await;
        }
        let _together = self.together.read().await;
        self.attempt_now(to, outgoing, sent).await
    }

    async fn attempt_now(
        &self,
        to: &Destination,
        outgoing: &mut [Outgoing],
        sent: &mut bool,
    ) -> Round {
        let session = self.link.connected_some_time().await;
        let queue = self.declared.of(to);
        let starts = match self.starts(&session, to) {
            Ok(starts) => starts,
            Err(error) => return Round::Refused(error),
        };
        let used_for = match to {
            Destination::Queue(name) => session.used_for(name),
            Destination::Topic(_) => Duration::ZERO,
        };
        session.room().await;
        *sent = true;
        let (outcome, asked) = match self.send(&session, to, &starts, outgoing) {
            Ok(sent) => sent,
            Err(Over(reason)) => return Round::Again(reason.to_string()),
        };
        match outcome.await {
            Ok(Outcome::Confirmed(told)) => {
                outgoing.iter_mut().for_each(|one| one.confirmed = true);
                Round::Done(session.dialect.level(told, queue.durable, used_for))
            }
            Ok(Outcome::Lost { reason, confirmed }) => {
                mark(outgoing, asked, &confirmed);
                Round::Again(reason)
            }
            Ok(Outcome::Complaint {
                text,
                is_certain,
                confirmed,
            }) => {
                mark(outgoing, asked, &confirmed);
                self.complaint(&session, text, is_certain)
            }
            Ok(Outcome::Declined(_)) | Err(_) => Round::Again("the connection has ended".into()),
        }
    }

    fn starts(&self, session: &Session, to: &Destination) -> Result<Starts, BusError> {
        let (dialect, queue) = (session.dialect, self.declared.of(to));
        let text = dialect.destination(to)?;
        Ok(Starts {
            first: convert::send_start(&text, &dialect.send_headers(to, &queue)),
            later: convert::send_start(&text, &dialect.later_send_headers(to, &queue)),
        })
    }

    /// What the server's complaint means for a publish.
    fn complaint(&self, session: &Session, text: String, is_certain: bool) -> Round {
        match session.dialect.judge(&text) {
            Judgement::Again => Round::Again(text),
            // Somebody else may have caused it. From now on each is alone, so that it shows.
            _ if !is_certain => {
                *self.one_by_one_until.lock() = Some(Instant::now() + ONE_BY_ONE);
                Round::Again(text)
            }
            Judgement::Full => Round::Refused(BusError::Full { reason: text }),
            Judgement::Refused => Round::Refused(BusError::Refused { reason: text }),
        }
    }

    /// Hands all frames that are not confirmed yet to the connection, in one piece. Says where the
    /// outcome is told, and whether each has a receipt of its own.
    fn send(
        &self,
        session: &Session,
        to: &Destination,
        starts: &Starts,
        outgoing: &[Outgoing],
    ) -> Result<(oneshot::Receiver<Outcome>, Confirm), Over> {
        let unconfirmed = || outgoing.iter().filter(|one| !one.confirmed);
        let count = unconfirmed().count();
        let confirm = session.dialect.confirm(count);
        session.send(|out| {
            let receipts = if confirm == Confirm::Each { count } else { 1 };
            let (first, outcome) = out.receipts.expect(receipts);
            let transaction = (confirm == Confirm::Transaction).then_some(first);
            if let Some(transaction) = transaction {
                convert::transact(out.chunks.bytes(), Command::Begin, transaction, None);
            }
            let mut sending = Sending {
                dialect: session.dialect,
                start: match out.is_first_to(to) {
                    true => &starts.first,
                    false => &starts.later,
                },
                id_start: &self.id_start,
                transaction,
            };
            for (place, one) in unconfirmed().enumerate() {
                let receipt = match confirm {
                    Confirm::Each => Some(first + place as u64),
                    Confirm::Last => (place + 1 == count).then_some(first),
                    Confirm::Transaction => None,
                };
                sending.frame(&mut out.chunks, one, receipt);
                sending.start = &starts.later;
            }
            if let Some(transaction) = transaction {
                convert::transact(
                    out.chunks.bytes(),
                    Command::Commit,
                    transaction,
                    Some(first),
                );
            }
            (outcome, confirm)
        })
    }

    /// Makes a queue without sending anything to it, where the server has a way.
    pub async fn declare(&self, queue: &Destination, deadline: Deadline) -> Result<(), BusError> {
        const WHAT: &str = "a declaration";
        let session = self.link.connected(WHAT, deadline).await?;
        let destination = session.dialect.destination(queue)?;
        if !session.dialect.declares() {
            return Ok(());
        }
        let settings = self.declared.of(queue);
        let headers = session.dialect.send_headers(queue, &settings);
        let start = convert::send_start(&destination, &headers);
        if let Destination::Queue(name) = queue {
            session.used_for(name);
        }
        let asked = session.send(|out| {
            let (receipt, outcome) = out.receipts.expect(1);
            let bytes = out.chunks.bytes();
            convert::transact(bytes, Command::Begin, receipt, None);
            bytes.extend_from_slice(&start);
            stomp::header_number(bytes, "transaction", receipt);
            stomp::finish(bytes, b"");
            convert::transact(bytes, Command::Abort, receipt, Some(receipt));
            outcome
        });
        let outcome = match asked {
            Ok(outcome) => deadline.limit(outcome).await,
            Err(Over(reason)) => return Err(deadline.timeout(WHAT, &*reason)),
        };
        match outcome {
            Ok(Ok(Outcome::Confirmed(_))) => Ok(()),
            Ok(Ok(Outcome::Complaint { text, .. })) => match session.dialect.judge(&text) {
                Judgement::Again => Err(deadline.timeout(WHAT, text)),
                Judgement::Full => Err(BusError::Full { reason: text }),
                Judgement::Refused => Err(BusError::Refused { reason: text }),
            },
            Ok(Ok(Outcome::Lost { reason, .. })) => Err(deadline.timeout(WHAT, reason)),
            Ok(Ok(Outcome::Declined(_)) | Err(_)) | Err(_) => {
                Err(deadline.timeout(WHAT, "no answer"))
            }
        }
    }

    /// The message with its id as a header, so that its sender can repeat it under that id.
    fn with_id(&self, outgoing: Outgoing) -> Message {
        let id = match &outgoing.id {
            Id::Sender => return outgoing.message,
            Id::Number(number) => format!("{}-{number}", self.id_start),
            Id::Kept(id) => id.to_string(),
        };
        match outgoing.message.headers.with([(MESSAGE_ID, id.as_str())]) {
            Ok(headers) => outgoing.message.with_headers(headers),
            // No room for another header; the repeated one gets a new id.
            Err(_) => outgoing.message,
        }
    }
}

/// How many of these are sent before the first confirmations are waited for.
fn count_together(outgoing: &[Outgoing]) -> usize {
    let mut bytes = 0;
    let fits = |one: &&Outgoing| {
        let fits = bytes == 0 || bytes + one.message.len_bytes() <= UNCONFIRMED_BYTES_MAX;
        bytes += one.message.len_bytes();
        fits
    };
    let some = outgoing.iter().take(UNCONFIRMED_MESSAGES_MAX);
    some.take_while(fits).count().max(1)
}

/// Marks what was confirmed before the connection was lost.
fn mark(outgoing: &mut [Outgoing], asked: Confirm, confirmed: &[bool]) {
    if asked == Confirm::Each {
        let unconfirmed = outgoing.iter_mut().filter(|one| !one.confirmed);
        for (one, confirmed) in unconfirmed.zip(confirmed) {
            one.confirmed = *confirmed;
        }
    }
}
