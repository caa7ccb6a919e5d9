//! One connection, as long as it lasts: what is to be written, what was read, and signs of life.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use kernel::{Destination, Name};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use wire::stomp::additions::ACK_LEVEL;
use wire::stomp::{self, Command, Decoded, Decoder, Frame, HEARTBEAT};

use super::chunks::Chunks;
use super::convert;
use super::dialect::Dialect;
use super::handshake::{Heart, Opened, Seen};
use super::inbox::Inbox;
use super::receipts::{Declined, Outcome, Receipts};
use super::requests::{Answer, Requests};
use super::stream::Stream;
use crate::capabilities::AckLevel;

/// How much may wait to be written; a batch that begins below it is still let through.
const OUT_BYTES_MAX: usize = 4 << 20;
/// How much is read at a time.
const READ_BYTES: usize = 64 * 1024;
/// A buffer that grew beyond this for a large message is given back afterwards.
const KEPT_BUFFER_BYTES_MAX: usize = 1 << 20;
/// The subscription under which a broker of ours answers requests.
const ANSWERS: &str = "hivewire";
/// How many queues a connection remembers to have used.
const REMEMBERED_QUEUES_MAX: usize = 10_000;

/// A connection that was opened.
pub(super) struct Session {
    pub dialect: &'static dyn Dialect,
    /// Whether the server keeps state and commits for us.
    pub is_node: bool,
    out: Mutex<Out>,
    filled: Notify,
    emptied: Notify,
    /// Told once. Hundreds of subscriptions wait for it, so it is not what tells of room.
    ended: Notify,
    /// When each queue was used first.
    used: Mutex<HashMap<Name, Instant>>,
    /// Who shares this connection, by the id of the subscription.
    shared: Mutex<HashMap<u64, Arc<Inbox>>>,
}

/// What goes out, and the receipts that were asked for on the way.
#[derive(Default)]
pub(super) struct Out {
    pub chunks: Chunks,
    pub receipts: Receipts,
    pub requests: Requests,
    /// Where something was sent to.
    sent_to: HashSet<Destination>,
    /// Why the connection has ended, if it has.
    over: Option<Arc<str>>,
}

impl Out {
    /// Whether this is the first time, as far as is remembered.
    pub fn is_first_to(&mut self, to: &Destination) -> bool {
        if self.sent_to.contains(to) {
            return false;
        }
        if self.sent_to.len() >= REMEMBERED_QUEUES_MAX {
            self.sent_to.clear();
        }
        self.sent_to.insert(to.clone())
    }
}

/// The connection has ended.
#[derive(Debug)]
pub(super) struct Over(pub Arc<str>);

impl Session {
    pub fn new(server: Seen) -> Self {
        Self {
            dialect: server.dialect,
            is_node: server.is_node,
            out: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
            ended: Notify::new(),
            used: Mutex::default(),
            shared: Mutex::default(),
        }
    }

    /// From now on what arrives for this subscription goes to that inbox.
    pub fn route(&self, subscription: u64, inbox: Arc<Inbox>) {
        self.shared.lock().insert(subscription, inbox);
    }

    pub fn unroute(&self, subscription: u64) {
        self.shared.lock().remove(&subscription);
    }

    pub fn is_over(&self) -> bool {
        self.out.lock().over.is_some()
    }

    /// Appends frames to what is to be written.
    pub fn send<T>(&self, fill: impl FnOnce(&mut Out) -> T) -> Result<T, Over> {
        let mut out = self.out.lock();
        if let Some(reason) = &out.over {
            return Err(Over(reason.clone()));
        }
        let filled = fill(&mut out);
        drop(out);
        self.filled.notify_one();
        Ok(filled)
    }

    /// Appends one frame without a body that asks for a receipt; says where its outcome is told.
    pub fn ask(&self, fill: impl FnOnce(&mut Vec<u8>)) -> Result<oneshot::Receiver<Outcome>, Over> {
        self.send(|out| {
            let (receipt, outcome) = out.receipts.expect(1);
            let bytes = out.chunks.bytes();
            fill(bytes);
            stomp::header_number(bytes, "receipt", receipt);
            stomp::finish(bytes, b"");
            outcome
        })
    }

    /// Waits until there is room for more to write.
    pub async fn room(&self) {
        let has_room = |out: &Out| out.over.is_some() || out.chunks.len_bytes() < OUT_BYTES_MAX;
        self.wait_until(&self.emptied, has_room).await;
    }

    /// Whether there is room for more to write.
    pub fn has_room(&self) -> bool {
        self.out.lock().chunks.len_bytes() < OUT_BYTES_MAX
    }

    /// Waits until the connection has ended.
    pub async fn over(&self) {
        self.wait_until(&self.ended, |out| out.over.is_some()).await;
    }

    async fn wait_until(&self, changed: &Notify, is_so: impl Fn(&Out) -> bool) {
        let mut told = std::pin::pin!(changed.notified());
        loop {
            // From now on no call is missed.
            told.as_mut().enable();
            if is_so(&self.out.lock()) {
                return;
            }
            told.as_mut().await;
            told.set(changed.notified());
        }
    }

    /// How long this connection has used a queue.
    pub fn used_for(&self, queue: &Name) -> Duration {
        let mut used = self.used.lock();
        if used.len() >= REMEMBERED_QUEUES_MAX {
            used.clear();
        }
        used.entry(queue.clone())
            .or_insert_with(Instant::now)
            .elapsed()
    }

    /// Reads and writes until the connection ends; says why it did. What arrives goes to `inbox`.
    pub async fn run(&self, opened: Opened, inbox: Option<&Inbox>) -> Arc<str> {
        let heart = opened.heart;
        let (reader, writer) = tokio::io::split(opened.stream);
        let mut reading = Reading {
            session: self,
            inbox,
            reader,
            decoder: opened.decoder,
            buffer: opened.buffer,
            arrived: Vec::new(),
            arrived_for: 0,
        };
        let reason = tokio::select! {
            reason = reading.run(heart) => reason,
            error = self.write_all(writer, heart) => error.to_string(),
        };
        self.end(&reason)
    }

    /// Nothing more goes out or comes in.
    pub fn end(&self, reason: &str) -> Arc<str> {
        let mut out = self.out.lock();
        let reason = out.over.get_or_insert_with(|| reason.into()).clone();
        out.receipts.lost(&reason);
        out.requests.lost();
        out.chunks.clear();
        drop(out);
        self.shared.lock().clear();
        self.emptied.notify_waiters();
        self.ended.notify_waiters();
        reason
    }

    async fn write_all(&self, mut writer: WriteHalf<Stream>, heart: Heart) -> io::Error {
        let mut chunks = Chunks::default();
        loop {
            if let Err(error) = self.write_next(&mut writer, &mut chunks, heart).await {
                return error;
            }
        }
    }

    /// Writes what is there, or a sign of life when there is nothing for too long.
    async fn write_next(
        &self,
        writer: &mut WriteHalf<Stream>,
        chunks: &mut Chunks,
        heart: Heart,
    ) -> io::Result<()> {
        let is_empty = {
            let mut out = self.out.lock();
            std::mem::swap(&mut out.chunks, chunks);
            chunks.is_empty()
        };
        if !is_empty {
            self.emptied.notify_waiters();
            chunks.write_to(writer).await?;
            chunks.clear();
            return writer.flush().await;
        }
        let filled = self.filled.notified();
        match heart.send_every {
            None => filled.await,
            // A little earlier than promised, so that the other side never waits.
            Some(every) => {
                if tokio::time::timeout(every * 3 / 4, filled).await.is_err() {
                    writer.write_all(HEARTBEAT).await?;
                    writer.flush().await?;
                }
            }
        }
        Ok(())
    }

    fn receipt(&self, frame: &Frame<'_>) {
        let level = match frame.header(ACK_LEVEL).as_deref() {
            Some("synced") => Some(AckLevel::Synced),
            Some("memory") => Some(AckLevel::Memory),
            _ => None,
        };
        let Some(number) = receipt_id(frame) else {
            return;
        };
        let mut out = self.out.lock();
        match declined(frame) {
            None => out.receipts.came(number, level),
            Some(declined) => out.receipts.declined(number, declined),
        }
    }

    /// The server complains, which ends the connection.
    fn complaint(&self, frame: &Frame<'_>) -> String {
        let text = complaint_text(frame);
        self.out.lock().receipts.complaint(receipt_id(frame), &text);
        text
    }
}

/// What the receipt of a node's commit says if nothing happened.
fn declined(frame: &Frame<'_>) -> Option<Declined> {
    let outcome = frame.header("outcome")?;
    let reason = || frame.header("reason").unwrap_or_default().into_owned();
    Some(match &*outcome {
        "done" => return None,
        "fenced" => Declined::Fenced {
            current: frame.header("current")?.parse().ok()?,
        },
        "not-held" => Declined::NotHeld,
        "full" => Declined::Full { reason: reason() },
        "refused" => Declined::Refused { reason: reason() },
        other => Declined::Refused {
            reason: format!("the broker answered `{other}`, which is not known here"),
        },
    })
}

fn receipt_id(frame: &Frame<'_>) -> Option<u64> {
    frame.header("receipt-id")?.parse().ok()
}

/// How much of a complaint is kept.
const COMPLAINT_BYTES_MAX: usize = 1_024;

/// What an ERROR frame says. Its body tells more than its header.
pub(super) fn complaint_text(frame: &Frame<'_>) -> String {
    let short = frame.header("message").unwrap_or_default();
    let long = String::from_utf8_lossy(frame.body);
    let long = long.trim_end_matches(['\0', '\n']);
    let mut text = match long.starts_with(&*short) {
        true => long.to_owned(),
        false => format!("{short}: {long}"),
    };
    text.truncate(text.floor_char_boundary(COMPLAINT_BYTES_MAX));
    format!("the STOMP server says: {text}")
}

/// The reading side of a connection.
struct Reading<'a> {
    session: &'a Session,
    inbox: Option<&'a Inbox>,
    reader: ReadHalf<Stream>,
    decoder: Decoder,
    buffer: BytesMut,
    /// Messages of the frames that were looked at since the last read.
    arrived: Vec<convert::Arrived>,
    /// The subscription that they are for, where several share the connection.
    arrived_for: u64,
}

impl Reading<'_> {
    /// Reads until the connection ends; says why it did.
    async fn run(&mut self, heart: Heart) -> String {
        loop {
            if let Err(reason) = self.frames() {
                return reason;
            }
            if !self.arrived.is_empty() {
                match self.inbox {
                    Some(inbox) => {
                        inbox.push(self.session, &mut self.arrived);
                        inbox.room().await;
                    }
                    None => self.pass_on(),
                }
            }
            if let Err(reason) = self.read(heart).await {
                return reason;
            }
        }
    }

    /// Hands what arrived to the subscription that it is for.
    fn pass_on(&mut self) {
        pass_on(self.session, self.arrived_for, &mut self.arrived);
    }

    async fn read(&mut self, heart: Heart) -> Result<(), String> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER_BYTES_MAX {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(READ_BYTES);
        let reading = self.reader.read_buf(&mut self.buffer);
        let read = match heart.expect_within {
            None => reading.await,
            Some(within) => match tokio::time::timeout(within, reading).await {
                Ok(read) => read,
                Err(_) => return Err(format!("nothing was heard from the server for {within:?}")),
            },
        };
        match read {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Looks at every frame that is complete.
    fn frames(&mut self) -> Result<(), String> {
        let mut consumed = 0;
        loop {
            match self.decoder.decode(&self.buffer[consumed..]) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::HeartBeat { consumed: used }) => consumed += used,
                Ok(Decoded::Frame {
                    frame,
                    consumed: used,
                }) => {
                    match frame.command {
                        Command::Message => message(
                            self.session,
                            self.inbox,
                            &frame,
                            &mut self.arrived,
                            &mut self.arrived_for,
                        ),
                        Command::Receipt => self.session.receipt(&frame),
                        Command::Error => return Err(self.session.complaint(&frame)),
                        other => return Err(format!("the server sent {other}, which is wrong")),
                    }
                    consumed += used;
                }
                Err(error) => return Err(format!("the server sent what is no frame: {error}")),
            }
        }
        self.buffer.advance(consumed);
        Ok(())
    }
}

/// Takes in a MESSAGE: an answer to a request of a node, or a delivery.
fn message(
    session: &Session,
    inbox: Option<&Inbox>,
    frame: &Frame<'_>,
    arrived: &mut Vec<convert::Arrived>,
    arrived_for: &mut u64,
) {
    if inbox.is_none() {
        let subscription = frame.header("subscription").unwrap_or_default();
        if subscription == ANSWERS {
            if let Some((number, answer)) = Answer::read(frame) {
                session.out.lock().requests.came(number, answer);
            }
            return;
        }
        let Ok(subscription) = subscription.parse() else {
            return;
        };
        if subscription != *arrived_for {
            pass_on(session, *arrived_for, arrived);
            *arrived_for = subscription;
        }
    }
    arrived.push(convert::to_delivery(session.dialect, frame));
}

fn pass_on(session: &Session, subscription: u64, arrived: &mut Vec<convert::Arrived>) {
    let inbox = session.shared.lock().get(&subscription).cloned();
    match inbox {
        Some(inbox) if !arrived.is_empty() => inbox.push(session, arrived),
        // Whoever subscribed is gone, so the server has them back.
        _ => arrived.clear(),
    }
}
