//! Requests of a node that have not been answered yet.

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::oneshot;
use wire::stomp::Frame;

use crate::error::BusError;

/// Beyond this many, those that nobody waits for any more are looked for and forgotten.
const FORGOTTEN_MAX: usize = 1_024;

/// What a broker of ours answers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    outcome: String,
    reason: String,
    /// The epoch that a raise gave.
    pub epoch: Option<u64>,
    /// The revision of a document.
    pub revision: u64,
    /// Whether a list was cut.
    pub is_more: bool,
    pub body: Bytes,
}

impl Answer {
    /// Reads an answer; gives the number of its request.
    pub fn read(frame: &Frame<'_>) -> Option<(u64, Self)> {
        let number = frame.header("request")?.parse().ok()?;
        let text = |name| frame.header(name).unwrap_or_default().into_owned();
        let number_in = |name| frame.header(name).and_then(|text| text.parse().ok());
        let answer = Self {
            outcome: text("outcome"),
            reason: text("reason"),
            epoch: number_in("epoch"),
            revision: number_in("revision").unwrap_or(0),
            is_more: frame.header("more").as_deref() == Some("true"),
            body: Bytes::copy_from_slice(frame.body),
        };
        Some((number, answer))
    }

    /// Whether somebody else was faster.
    pub fn is_conflict(&self) -> bool {
        self.outcome == "conflict"
    }

    /// Whether it was done or found; `false` if there is none.
    pub fn is_there(&self) -> Result<bool, BusError> {
        match self.outcome.as_str() {
            "done" | "found" => Ok(true),
            "none" => Ok(false),
            "full" => Err(BusError::Full {
                reason: self.reason.clone(),
            }),
            "refused" => Err(BusError::Refused {
                reason: self.reason.clone(),
            }),
            other => Err(BusError::Refused {
                reason: format!("the broker answered `{other}`, which is not known here"),
            }),
        }
    }
}

/// The requests of one connection, numbered one after another.
#[derive(Debug, Default)]
pub(super) struct Requests {
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
}

impl Requests {
    /// The number of the next request, and where its answer is told. A lost connection tells none.
    pub fn expect(&mut self) -> (u64, oneshot::Receiver<Answer>) {
        if self.waiting.len() > FORGOTTEN_MAX {
            self.waiting.retain(|_, waiting| !waiting.is_closed());
        }
        let number = self.next;
        self.next += 1;
        let (sender, answer) = oneshot::channel();
        self.waiting.insert(number, sender);
        (number, answer)
    }

    pub fn came(&mut self, number: u64, answer: Answer) {
        if let Some(waiting) = self.waiting.remove(&number) {
            // Nobody listening means that the caller's time was up.
            let _ = waiting.send(answer);
        }
    }

    pub fn lost(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(outcome: &str) -> Answer {
        Answer {
            outcome: outcome.into(),
            reason: "because".into(),
            ..Answer::default()
        }
    }

    #[test]
    fn answers_find_their_requests_in_whatever_order_they_come() {
        let mut requests = Requests::default();
        let (first, mut one) = requests.expect();
        let (second, mut other) = requests.expect();
        requests.came(second, answer("none"));
        requests.came(9, answer("none"));
        assert!(one.try_recv().is_err());
        assert!(!other.try_recv().unwrap().is_there().unwrap());
        requests.came(first, answer("found"));
        assert!(one.try_recv().unwrap().is_there().unwrap());
        let (_, mut lost) = requests.expect();
        requests.lost();
        assert!(matches!(
            lost.try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        ));
    }

    #[test]
    fn refusals_are_told_with_their_reason() {
        for outcome in ["full", "refused"] {
            let error = answer(outcome).is_there().unwrap_err();
            assert!(error.to_string().contains("because"), "{error}");
        }
        let error = answer("odd").is_there().unwrap_err();
        assert!(error.to_string().contains("odd") && !error.can_retry());
    }
}
