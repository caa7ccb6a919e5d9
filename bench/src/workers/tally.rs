//! Numbered bodies, and whether all of them arrived in order.

use std::time::Instant;

use tokio::sync::mpsc;

use super::{Result, WorkerError, in_time};

/// The length of every body.
pub const BODY_BYTES: usize = 128;

/// A body.
pub type Body = [u8; BODY_BYTES];

const NUMBER_BYTES: usize = 4;

/// The body of this number.
pub fn body(number: u32) -> Body {
    let mut body = [b'x'; BODY_BYTES];
    body[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
    body
}

/// The number of a body; one that is none of ours has a number that is never due.
pub fn number_of(body: &[u8]) -> u32 {
    match body.first_chunk::<NUMBER_BYTES>() {
        Some(number) if body.len() == BODY_BYTES => u32::from_le_bytes(*number),
        _ => u32::MAX,
    }
}

/// Counts what a receiver gets and tells when it has all.
#[derive(Clone, Debug)]
pub struct Tally {
    messages: u32,
    received: u32,
    wrong: u32,
    /// What came already, if the order does not matter.
    seen: Option<Vec<bool>>,
    done: mpsc::UnboundedSender<(Instant, u32)>,
}

/// The other end of a tally.
#[derive(Debug)]
pub struct Verdict {
    messages: u32,
    done: mpsc::UnboundedReceiver<(Instant, u32)>,
}

impl Tally {
    /// A tally of so many messages that come in order.
    pub fn new(messages: u32) -> (Self, Verdict) {
        Self::with(messages, None)
    }

    /// A tally of so many messages that come once each, in any order.
    pub fn unordered(messages: u32) -> (Self, Verdict) {
        Self::with(messages, Some(vec![false; messages as usize]))
    }

    fn with(messages: u32, seen: Option<Vec<bool>>) -> (Self, Verdict) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let tally = Self {
            messages,
            received: 0,
            wrong: 0,
            seen,
            done: sender,
        };
        let verdict = Verdict {
            messages,
            done: receiver,
        };
        (tally, verdict)
    }

    /// A body came.
    pub fn take(&mut self, body: &[u8]) {
        let number = number_of(body);
        let right = match &mut self.seen {
            None => number == self.received,
            Some(seen) => seen
                .get_mut(number as usize)
                .is_some_and(|seen| !std::mem::replace(seen, true)),
        };
        self.wrong += u32::from(!right);
        self.received += 1;
        if self.received == self.messages {
            // Whoever no longer waits has reported an error already.
            let _ = self.done.send((Instant::now(), self.wrong));
        }
    }
}

impl Verdict {
    /// When the last message was handled.
    pub async fn wait(mut self) -> Result<Instant> {
        let received = in_time("the arrival of the last message", self.done.recv()).await?;
        match received {
            Some((at, 0)) => Ok(at),
            Some((_, wrong)) => Err(WorkerError::Wrong {
                wrong,
                messages: self.messages,
            }),
            None => Err(WorkerError::Refused {
                action: "count messages".to_owned(),
                reason: "the receiver ended".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_in_order_is_right_and_anything_else_is_wrong() {
        let (mut tally, verdict) = Tally::new(2);
        tally.take(&body(0));
        tally.take(&body(1));
        assert!(verdict.wait().await.is_ok());

        let (mut tally, verdict) = Tally::new(2);
        tally.take(&body(1));
        tally.take(&body(0));
        let error = verdict.wait().await.unwrap_err().to_string();
        assert!(error.starts_with("2 or more of 2"), "{error}");
        assert_eq!(number_of(b"short"), u32::MAX);

        let (mut tally, verdict) = Tally::unordered(2);
        tally.take(&body(1));
        tally.take(&body(0));
        assert!(verdict.wait().await.is_ok());

        let (mut tally, verdict) = Tally::unordered(2);
        tally.take(&body(1));
        tally.take(&body(1));
        assert!(verdict.wait().await.is_err());
    }
}
