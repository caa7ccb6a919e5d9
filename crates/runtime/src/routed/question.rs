//! Questions that the owner of a routed stage has passed on and that are not answered yet. They are
//! kept in its state, so that they survive restart and replacement.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kernel::worker::{Failure, FailureKind, Incoming, Ticket, Turn};
use kernel::{Headers, Message, Timestamp};
use serde::{Deserialize, Serialize};

/// The key under which the number of open questions stands.
const OPEN: &[u8] = b"open";

/// A question that was passed on. Its id is the ticket of its first ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    /// Where the answer goes.
    asker: String,
    /// What the asker knows its question by.
    correlation_id: Option<String>,
    /// When the last ask times out, in microseconds since 1970.
    ends_at_us: u64,
    /// How many asks have had neither answer nor timeout.
    pub asked: u32,
    /// Who is asked later, the next one last.
    pub rest: Vec<u32>,
}

impl Question {
    /// The question of `asker`, about which nobody was asked yet.
    pub fn new(asker: String, message: &Message, ends_at: Timestamp) -> Self {
        let correlation_id = message.headers.get(Message::CORRELATION_ID);
        Self {
            asker,
            correlation_id: correlation_id.map(str::to_owned),
            ends_at_us: ends_at.as_micros(),
            asked: 0,
            rest: Vec::new(),
        }
    }

    /// When the last ask times out.
    pub fn ends_at(&self) -> Timestamp {
        Timestamp::from_micros(self.ends_at_us)
    }

    /// Sends an answer to whoever asked.
    pub fn answer(&self, answer: &Message, turn: &mut Turn) -> Result<(), Failure> {
        let id = self.correlation_id.as_deref();
        let id = id.map(|id| (Message::CORRELATION_ID, id));
        let reply_to = (Message::REPLY_TO, self.asker.as_str());
        let headers = Headers::from_pairs([reply_to].into_iter().chain(id))?;
        let asked = Incoming::new(Message::default().with_headers(headers));
        // The id in the answer is that of our own ask and means nothing to the asker.
        let answer = without(answer, |name| name == Message::CORRELATION_ID);
        turn.reply(&asked, answer)
    }

    /// Keeps the question.
    pub fn write(&self, id: Ticket, turn: &mut Turn) -> Result<(), Failure> {
        turn.set_state(question_key(id), serde_json::to_vec(self)?)
    }

    /// A question that was kept and is still open.
    pub async fn read(id: Ticket, turn: &Turn) -> Result<Option<Self>, Failure> {
        let stored = turn.state(question_key(id).as_bytes()).await?;
        let stored = stored.map(|stored| serde_json::from_slice(&stored));
        stored.transpose().map_err(|_| damaged("a question"))
    }
}

/// How many questions are open.
pub(super) async fn open_count(turn: &Turn) -> Result<u32, Failure> {
    match turn.state(OPEN).await? {
        Some(mut count) => count.try_get_u32().map_err(|_| damaged("their number")),
        None => Ok(0),
    }
}

/// Keeps a new question.
pub(super) async fn open(id: Ticket, question: &Question, turn: &mut Turn) -> Result<(), Failure> {
    let count = open_count(turn).await?;
    turn.set_state(OPEN, Bytes::copy_from_slice(&(count + 1).to_be_bytes()))?;
    question.write(id, turn)
}

/// Forgets a question. Tickets that are still out find their way back on their own.
pub(super) async fn close(id: Ticket, turn: &mut Turn) -> Result<(), Failure> {
    match open_count(turn).await?.saturating_sub(1) {
        0 => turn.remove_state(OPEN)?,
        count => turn.set_state(OPEN, Bytes::copy_from_slice(&count.to_be_bytes()))?,
    }
    turn.remove_state(question_key(id))
}

/// Notes which question an ask belongs to.
pub(super) fn write_ticket(ticket: Ticket, id: Ticket, turn: &mut Turn) -> Result<(), Failure> {
    turn.set_state(
        ticket_key(ticket),
        Bytes::copy_from_slice(&id.to_be_bytes()),
    )
}

/// Takes out which question an ask belongs to; none if it was taken out before.
pub(super) async fn take_ticket(
    ticket: Ticket,
    turn: &mut Turn,
) -> Result<Option<Ticket>, Failure> {
    let Some(mut id) = turn.state(ticket_key(ticket).as_bytes()).await? else {
        return Ok(None);
    };
    turn.remove_state(ticket_key(ticket))?;
    id.try_get_u64().map(Some).map_err(|_| damaged("a ticket"))
}

/// Keeps a message, so that it can be sent to others later.
pub(super) fn write_message(id: Ticket, message: &Message, turn: &mut Turn) -> Result<(), Failure> {
    let headers = message.headers.as_encoded();
    let mut stored = BytesMut::with_capacity(4 + headers.len() + message.body.len());
    stored.put_u32(headers.len() as u32);
    stored.put_slice(headers);
    stored.put_slice(&message.body);
    turn.set_state(message_key(id), stored.freeze())
}

/// A message that was kept.
pub(super) async fn read_message(id: Ticket, turn: &Turn) -> Result<Message, Failure> {
    let stored = turn.state(message_key(id).as_bytes()).await?;
    stored
        .and_then(decode_message)
        .ok_or_else(|| damaged("a message"))
}

/// Forgets a message.
pub(super) fn remove_message(id: Ticket, turn: &mut Turn) -> Result<(), Failure> {
    turn.remove_state(message_key(id))
}

fn decode_message(mut stored: Bytes) -> Option<Message> {
    let headers_bytes = stored.try_get_u32().ok()? as usize;
    if headers_bytes > stored.len() {
        return None;
    }
    let headers = Headers::from_encoded(stored.split_to(headers_bytes)).ok()?;
    Some(Message::new(stored).with_headers(headers))
}

/// The message without the headers that `drop` picks.
pub(super) fn without(message: &Message, drop: impl Fn(&str) -> bool) -> Message {
    let mut message = message.clone();
    if message.headers.iter().any(|(name, _)| drop(name)) {
        message.headers = message.headers.without(drop);
    }
    message
}

fn damaged(what: &str) -> Failure {
    let reason = format!("the state of the router is damaged or of another version: {what}");
    Failure::of(FailureKind::Host, reason)
}

fn question_key(id: Ticket) -> String {
    format!("question/{id}")
}

fn ticket_key(ticket: Ticket) -> String {
    format!("ticket/{ticket}")
}

fn message_key(id: Ticket) -> String {
    format!("message/{id}")
}
