//! A subscription: a connection of its own, made again whenever it is lost, unless it is a node's.
//!
//! Closing the connection is the one way to give messages back that keeps their order on every
//! server, and a slow subscriber holds up nobody else.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kernel::Destination;
use tokio::sync::{oneshot, watch};
use wire::stomp::{self, Command, Version};

use super::backoff::Backoff;
use super::dialect::Judgement;
use super::handshake::{Door, Opened};
use super::inbox::{Inbox, Nack};
use super::link::Link;
use super::publisher::Publisher;
use super::receipts::Outcome;
use super::session::Session;
use super::shared::SharedFeeder;
use crate::contract::Subscription;
use crate::dead_letter::{dead_letter, dead_letters};
use crate::deadline::Deadline;
use crate::delivery::{Delivery, Receipt, Reject};
use crate::engines::declared::Declared;
use crate::error::BusError;

/// How long the server may take to answer a SUBSCRIBE before the connection is made anew.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// No server takes more credit than this.
const CREDIT_MESSAGES_MAX: u32 = 65_535;

/// What is subscribed to, and how.
#[derive(Clone)]
pub(super) struct Wanted {
    pub from: Destination,
    pub credit_messages: u32,
    pub declared: Arc<Declared>,
}

/// The connections of a subscription.
pub(super) enum Connections {
    /// Its own.
    Own(Arc<Door>),
    /// Those of a node.
    Shared(Arc<Link>),
}

pub(super) struct StompSubscription {
    from: Destination,
    declared: Arc<Declared>,
    publisher: Arc<Publisher>,
    inbox: Arc<Inbox>,
    /// Dropping it ends the subscription.
    _open: watch::Sender<()>,
}

impl StompSubscription {
    /// Subscribes; returns once the server has said that it is done.
    pub async fn start(
        mut wanted: Wanted,
        connections: Connections,
        publisher: Arc<Publisher>,
        deadline: Deadline,
    ) -> Result<Self, BusError> {
        wanted.credit_messages = wanted.credit_messages.clamp(1, CREDIT_MESSAGES_MAX);
        let Wanted { from, declared, .. } = wanted.clone();
        let inbox = Arc::new(Inbox::new(wanted.credit_messages));
        let (open, closed) = watch::channel(());
        let (started, has_started) = oneshot::channel();
        let (inbox_fed, started) = (inbox.clone(), Some(started));
        match connections {
            Connections::Own(door) => {
                let feeder = Feeder {
                    wanted,
                    door,
                    inbox: inbox_fed,
                    closed,
                    started,
                    trouble: None,
                };
                tokio::spawn(feeder.run());
            }
            Connections::Shared(link) => {
                let feeder = SharedFeeder {
                    wanted,
                    link,
                    inbox: inbox_fed,
                    closed,
                    started,
                };
                tokio::spawn(feeder.run());
            }
        }
        match deadline.limit(has_started).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => return Err(error),
            Ok(Err(_)) | Err(_) => {
                let trouble = publisher.trouble();
                let reason = trouble.unwrap_or_else(|| "the server did not answer".into());
                return Err(deadline.timeout("a subscription", reason));
            }
        }
        Ok(Self {
            from,
            declared,
            publisher,
            inbox,
            _open: open,
        })
    }

    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Turns a message down where the server counts tries and keeps dead letters.
    async fn reject_there(
        &self,
        delivery: &Delivery,
        reason: &str,
        dead: bool,
        deadline: Deadline,
    ) -> Result<(), BusError> {
        let nack = Nack { reason, dead };
        let Some(outcome) = self.inbox.reject(delivery.receipt, &nack) else {
            return Err(BusError::NotHeld { messages: 1 });
        };
        match deadline.limit(outcome).await {
            Ok(Ok(Outcome::Confirmed(_))) => Ok(()),
            Ok(_) => Err(BusError::NotHeld { messages: 1 }),
            Err(_) => Err(deadline.in_doubt("a rejection", "no answer")),
        }
    }

    /// Publishes a rejected message again, to be retried or as a dead letter, and acknowledges it.
    async fn reject_here(
        &self,
        delivery: &Delivery,
        reason: &str,
        dead: bool,
        deadline: Deadline,
    ) -> Result<(), BusError> {
        if !self.inbox.holds(delivery.receipt) {
            return Err(BusError::NotHeld { messages: 1 });
        }
        let tries = delivery.tries + 1;
        let (to, message, tries) = match (&self.from, dead) {
            (Destination::Queue(_), false) => (self.from.clone(), delivery.message.clone(), tries),
            // Other subscribers of a topic have had it already.
            (Destination::Topic(_), false) => {
                return match self.inbox.deliver_again(delivery) {
                    true => Ok(()),
                    false => Err(BusError::NotHeld { messages: 1 }),
                };
            }
            (_, true) => {
                let letter = dead_letter(&self.from, &delivery.message, reason, tries);
                let Some(name) = dead_letters(&self.from) else {
                    tracing::warn!("a dead letter is dropped: {reason}");
                    return self.answer(&[delivery.receipt]);
                };
                (Destination::Queue(name), letter, 0)
            }
        };
        let id = delivery.message_id();
        let published = self
            .publisher
            .publish_again(&to, message, id, tries, deadline);
        published.await?;
        // If the connection is lost here, both the old and the new one come: at least once.
        self.answer(&[delivery.receipt])
    }

    fn answer(&self, receipts: &[Receipt]) -> Result<(), BusError> {
        match self.inbox.acknowledge(receipts) {
            0 => Ok(()),
            messages => Err(BusError::NotHeld { messages }),
        }
    }
}

#[async_trait]
impl Subscription for StompSubscription {
    async fn next_batch(
        &self,
        messages_max: usize,
        timeout: Duration,
    ) -> Result<Vec<Delivery>, BusError> {
        let deadline = Deadline::after(timeout);
        let next = deadline.limit(self.inbox.next(messages_max)).await;
        Ok(next.unwrap_or_default())
    }

    async fn acknowledge(&self, receipts: &[Receipt], _timeout: Duration) -> Result<(), BusError> {
        if receipts.is_empty() {
            return Ok(());
        }
        self.answer(receipts)
    }

    fn release(&self, receipts: &[Receipt]) {
        self.inbox.release(receipts);
    }

    async fn reject(
        &self,
        delivery: &Delivery,
        reject: Reject,
        timeout: Duration,
    ) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        let tries = delivery.tries + 1;
        let (reason, dead) = match reject {
            Reject::Retry { reason } if tries < self.declared.tries_max(&self.from) => {
                (reason, false)
            }
            Reject::Retry { reason } => (format!("{reason} ({tries} tries)"), true),
            Reject::Dead { reason } => (reason, true),
        };
        match self.inbox.is_ours() {
            Some(true) => self.reject_there(delivery, &reason, dead, deadline).await,
            Some(false) => self.reject_here(delivery, &reason, dead, deadline).await,
            None => Err(BusError::NotHeld { messages: 1 }),
        }
    }
}

impl Wanted {
    /// Appends the SUBSCRIBE; says where its outcome is told.
    pub fn subscribe(
        &self,
        session: &Session,
        id: u64,
    ) -> Result<oneshot::Receiver<Outcome>, BusError> {
        let dialect = session.dialect;
        let destination = dialect.destination(&self.from)?;
        let queue = self.declared.of(&self.from);
        let asked = session.ask(|bytes| {
            stomp::begin(bytes, Command::Subscribe);
            stomp::header_number(bytes, "id", id);
            stomp::header(bytes, Version::V1_2, "destination", &destination);
            stomp::header_raw(bytes, "ack", b"client-individual");
            let credit = u64::from(self.credit_messages);
            stomp::header_number(bytes, dialect.credit_header(), credit);
            for (name, value) in dialect.queue_headers(&self.from, &queue) {
                stomp::header_raw(bytes, name, value.as_bytes());
            }
        });
        asked.map_err(|over| BusError::Stopped {
            reason: over.0.to_string(),
        })
    }

    /// Why a subscription will never work, if the answer to the SUBSCRIBE says so.
    pub fn refusal(&self, session: &Session, outcome: Outcome) -> Option<BusError> {
        match outcome {
            Outcome::Complaint { text, .. } => match session.dialect.judge(&text) {
                Judgement::Again => None,
                Judgement::Full => Some(BusError::Full { reason: text }),
                Judgement::Refused => Some(BusError::Refused { reason: text }),
            },
            Outcome::Confirmed(_) | Outcome::Declined(_) | Outcome::Lost { .. } => None,
        }
    }
}

/// Feeds a subscription from one connection after another, until the subscription is dropped.
struct Feeder {
    wanted: Wanted,
    door: Arc<Door>,
    inbox: Arc<Inbox>,
    closed: watch::Receiver<()>,
    /// Whom to tell that the subscription works, or never will.
    started: Option<oneshot::Sender<Result<(), BusError>>>,
    /// The complaint that ended the last connection before it worked.
    trouble: Option<BusError>,
}

/// How a connection ended.
enum Ended {
    /// The subscription was dropped.
    Left,
    Lost(Arc<str>),
}

impl Feeder {
    async fn run(mut self) {
        let mut backoff = Backoff::new(self.door.pause_max);
        let mut closed = self.closed.clone();
        loop {
            backoff.attempt();
            let opened = tokio::select! {
                _ = closed.changed() => return,
                opened = self.door.open() => opened,
            };
            let reason = match opened {
                Ok(opened) => match self.serve(opened).await {
                    Ended::Left => return,
                    Ended::Lost(reason) => reason,
                },
                Err(reason) => reason,
            };
            // Later refusals may pass, the first one is told to whoever subscribes.
            if let Some(error) = self.trouble.take()
                && let Some(started) = self.started.take()
            {
                // Nobody listening means that the subscription was given up.
                let _ = started.send(Err(error));
                return;
            }
            tracing::warn!(from = %self.wanted.from, "the subscription is interrupted: {reason}; trying again");
            tokio::select! {
                _ = closed.changed() => return,
                () = backoff.pause() => {}
            }
        }
    }

    /// Passes on what arrives until the connection or the subscription ends.
    async fn serve(&mut self, opened: Opened) -> Ended {
        let session = Arc::new(Session::new(opened.server));
        let mut closed = self.closed.clone();
        let mut subscribed = match self.wanted.subscribe(&session, 0) {
            Ok(subscribed) => subscribed,
            Err(error) => {
                let reason = error.to_string().into();
                self.trouble = Some(error);
                return Ended::Lost(reason);
            }
        };
        self.inbox.begin(session.clone());
        let inbox = self.inbox.clone();
        let mut running = std::pin::pin!(session.run(opened, Some(&inbox)));
        let mut too_late = std::pin::pin!(tokio::time::sleep(OPEN_TIMEOUT));
        let mut is_open = false;
        let reason = loop {
            tokio::select! {
                outcome = &mut subscribed, if !is_open => {
                    is_open = true;
                    if let Ok(outcome) = outcome {
                        self.subscribed(&session, outcome);
                    }
                }
                reason = &mut running => break reason,
                _ = closed.changed() => {
                    self.leave(&session, running).await;
                    return Ended::Left;
                }
                () = &mut too_late, if !is_open => {
                    break session.end("the server did not answer a SUBSCRIBE in time");
                }
            }
        };
        self.inbox.end();
        // An answer that came right before the end counts.
        if !is_open && let Ok(outcome) = subscribed.try_recv() {
            self.subscribed(&session, outcome);
        }
        Ended::Lost(reason)
    }

    /// The server has answered the SUBSCRIBE.
    fn subscribed(&mut self, session: &Session, outcome: Outcome) {
        let is_confirmed = matches!(outcome, Outcome::Confirmed(_));
        self.trouble = self.wanted.refusal(session, outcome);
        if is_confirmed && let Some(started) = self.started.take() {
            let _ = started.send(Ok(()));
        }
    }

    /// Says goodbye and waits until the server has heard all that was said, so that no
    /// acknowledgement is lost.
    async fn leave(&self, session: &Session, running: impl Future<Output = Arc<str>>) {
        self.inbox.release_waiting();
        let mut running = std::pin::pin!(running);
        let acknowledging = self.inbox.acknowledging();
        if !acknowledging.is_zero() {
            let unsubscribed = session.ask(|bytes| {
                stomp::begin(bytes, Command::Unsubscribe);
                stomp::header_raw(bytes, "id", b"0");
            });
            tokio::select! {
                () = tokio::time::sleep(acknowledging) => {}
                _ = &mut running => return,
            }
            drop(unsubscribed);
        }
        let asked = session.ask(|bytes| stomp::begin(bytes, Command::Disconnect));
        let Ok(goodbye) = asked else {
            return;
        };
        let ended = async {
            tokio::select! {
                // Either will do: some servers close the connection without an answer.
                _ = goodbye => {}
                _ = &mut running => {}
            }
        };
        // A server that does not answer in time finds the connection closed.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
    }
}
