//! What a node may do besides what every client may: commits that write state, and whose outcome is
//! told without ending the connection.

use broker::{AppendError, CommitError, PublishError};
use kernel::Name;
use wire::stomp::{Command, Frame};

use super::commands::{Outcome, Refusal, number, required};
use super::encode;
use super::session::StompSession;
use super::transactions::TransactionError;
use crate::session::Progress;

/// A reason is cut to this length, since it may repeat what the node sent.
const REASON_BYTES_MAX: usize = 1_024;

/// The node behind a connection.
pub(super) struct Node {
    /// What it calls itself.
    pub name: Name,
    /// How many answers it got.
    answers: u64,
}

impl Node {
    pub fn new(name: Name) -> Self {
        Self { name, answers: 0 }
    }

    /// An id for the next answer, different from that of every delivery.
    pub fn next_answer_id(&mut self) -> String {
        self.answers += 1;
        format!("hivewire-{}", self.answers)
    }
}

/// What came of a commit or a request, as it is told to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub outcome: &'static str,
    pub header: Option<(&'static str, String)>,
}

impl Verdict {
    pub const fn new(outcome: &'static str) -> Self {
        Self {
            outcome,
            header: None,
        }
    }

    pub fn with(mut self, header: &'static str, value: impl ToString) -> Self {
        self.header = Some((header, value.to_string()));
        self
    }

    pub fn refused(reason: &str) -> Self {
        Self::because("refused", reason)
    }

    fn because(outcome: &'static str, reason: &str) -> Self {
        let end = reason.floor_char_boundary(REASON_BYTES_MAX);
        Self::new(outcome).with("reason", &reason[..end])
    }

    /// What a failed commit is told; `None` if it is to be tried again when the journal is ready.
    pub fn of(error: &CommitError) -> Option<Self> {
        Some(match error {
            CommitError::Send(PublishError::Journal(AppendError::NotReady)) => return None,
            CommitError::Fenced { current, .. } => Self::new("fenced").with("current", current),
            CommitError::NotHeld { .. } => Self::new("not-held"),
            CommitError::Send(
                PublishError::Full { .. } | PublishError::Journal(AppendError::DiskFull { .. }),
            ) => Self::because("full", &error.to_string()),
            CommitError::Send(_)
            | CommitError::StateTooLarge { .. }
            | CommitError::TooManyBuckets { .. }
            | CommitError::State(_)
            | CommitError::Reserved { .. } => Self::refused(&error.to_string()),
        })
    }
}

impl StompSession {
    /// Commits a node's transaction, which is gone afterwards whatever comes of it.
    pub(super) fn commit_as_node(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        let name = required(frame, "transaction")?;
        // Without one its outcome could not be told.
        let receipt = required(frame, "receipt")?;
        let committed = self
            .transactions
            .commit_whole(&name, &self.broker, &self.subscriptions);
        let verdict = match committed {
            Ok(stored) => {
                self.receipts
                    .add_done(answers, self.version, &receipt, stored);
                return Ok(Progress::Done);
            }
            Err(TransactionError::Commit(error)) => match Verdict::of(&error) {
                Some(verdict) => verdict,
                None => return Ok(Progress::NotReady),
            },
            Err(TransactionError::NotHeld) => Verdict::new("not-held"),
            Err(error) => Verdict::refused(&error.to_string()),
        };
        // It may not even have begun.
        let _ = self.transactions.abort(&name);
        encode::node_receipt(answers, self.version, &receipt, &verdict, None);
        Ok(Progress::Done)
    }

    /// Takes a mistake in a node's transaction: its COMMIT will tell. Whether it was one.
    pub(super) fn spoil_transaction(&mut self, frame: &Frame<'_>, reason: &str) -> bool {
        let is_part = matches!(frame.command, Command::Send | Command::Ack | Command::Nack);
        let transaction = frame.header("transaction").filter(|_| is_part);
        match (&self.node, transaction) {
            (Some(node), Some(transaction)) => {
                tracing::debug!(node = %node.name, "a commit will be refused: {reason}");
                self.transactions.spoil(&transaction, reason)
            }
            _ => false,
        }
    }

    /// The state that a transaction writes.
    pub(super) fn write_state(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        let transaction = required(frame, "transaction")?;
        let bucket = named(frame, "bucket")?;
        let epoch = number(frame, "epoch")?;
        self.transactions
            .write_state(&transaction, bucket, epoch, frame.body)?;
        if let Some(receipt) = frame.header("receipt") {
            self.receipts.add(answers, self.version, &receipt, None);
        }
        Ok(Progress::Done)
    }
}

/// A header that holds a name.
pub(super) fn named(frame: &Frame<'_>, header: &str) -> Result<Name, Refusal> {
    let text = required(frame, header)?;
    Name::new(&text).map_err(|error| Refusal(format!("bad {header}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_cut_between_characters() {
        let verdict = Verdict::refused(&"é".repeat(REASON_BYTES_MAX));
        let (_, reason) = verdict.header.unwrap();
        assert_eq!(reason.len(), REASON_BYTES_MAX);
        let odd = format!("a{}", "é".repeat(REASON_BYTES_MAX));
        let (_, reason) = Verdict::refused(&odd).header.unwrap();
        assert_eq!(reason.len(), REASON_BYTES_MAX - 1);
    }

    #[test]
    fn every_failure_has_a_verdict() {
        let bucket = Name::new("b").unwrap();
        let fenced = CommitError::Fenced {
            bucket: bucket.clone(),
            given: 1,
            current: 7,
        };
        let expected = Verdict::new("fenced").with("current", 7);
        assert_eq!(Verdict::of(&fenced), Some(expected));
        let held = CommitError::NotHeld {
            queue: bucket.clone(),
            id: 3,
        };
        assert_eq!(Verdict::of(&held), Some(Verdict::new("not-held")));
        let full = PublishError::Full {
            queue: bucket.clone(),
            limit: "at most 1".into(),
        };
        assert_eq!(Verdict::of(&full.into()).unwrap().outcome, "full");
        let reserved = CommitError::Reserved { bucket };
        assert_eq!(Verdict::of(&reserved).unwrap().outcome, "refused");
        let not_ready = CommitError::from(AppendError::NotReady);
        assert_eq!(Verdict::of(&not_ready), None);
    }
}
