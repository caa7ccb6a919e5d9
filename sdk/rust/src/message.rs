use crate::bindings::worker::hivewire::worker::types;
use crate::{Failure, Kind, Result};

/// A message in a worker's hands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Message {
    /// What was sent.
    pub body: Vec<u8>,
    /// Names and values, as the sender gave them.
    pub headers: Vec<(String, String)>,
    /// What it is about.
    pub kind: Kind,
    /// Whether somebody waits for an answer.
    pub expects_reply: bool,
    /// How often it was tried before without success.
    pub tries: u32,
    place: Place,
}

/// Where a message lies: the host knows it by its place in the list of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    turn: u64,
    index: u32,
}

impl Message {
    pub(crate) fn new(message: types::Message, turn: u64, index: u32) -> Self {
        Self {
            body: message.body,
            headers: message.headers,
            kind: message.kind,
            expects_reply: message.expects_reply,
            tries: message.tries,
            place: Place { turn, index },
        }
    }

    /// A message that has nothing but a body, which is still to come.
    pub(crate) fn empty(turn: u64, index: u32) -> Self {
        Self {
            body: Vec::new(),
            headers: Vec::new(),
            kind: Kind::Message,
            expects_reply: false,
            tries: 0,
            place: Place { turn, index },
        }
    }

    /// Becomes a message of another turn with another body.
    pub(crate) fn renew(&mut self, body: &[u8], turn: u64) {
        self.body.clear();
        self.body.extend_from_slice(body);
        self.place.turn = turn;
    }

    /// Gives back the memory of a body that is longer.
    pub(crate) fn forget_more_than(&mut self, bytes: usize) {
        if self.body.capacity() > bytes {
            self.body = Vec::new();
        }
    }

    /// The body as text; fails if it is none.
    pub fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.body).map_err(|_| Failure::from("the body is not UTF-8 text"))
    }

    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The place in the list of this turn; none if it came in an earlier one.
    pub(crate) fn index_in(&self, turn: u64) -> Option<u32> {
        (self.place.turn == turn).then_some(self.place.index)
    }
}
