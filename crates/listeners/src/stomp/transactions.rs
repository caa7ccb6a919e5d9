//! Transactions: sends, acknowledgements and writes of state that take effect together.

use std::collections::HashMap;

use broker::{
    Broker, Commit, CommitError, Consumed, Position, Publication, Reject, StateCommit, StateWrite,
};
use bytes::Bytes;
use kernel::{Destination, Name};
use wire::stomp::state::{BadBody, Write, decode_writes};

use super::subscriptions::Subscriptions;

/// An acknowledgement in a transaction.
pub(super) struct Answer {
    pub token: u32,
    pub id: u64,
    /// The client turned the message down.
    pub rejected: bool,
}

#[derive(Default)]
pub(super) struct Transaction {
    sends: Vec<(Destination, Publication)>,
    answers: Vec<Answer>,
    state: Option<StateCommit>,
    /// What was wrong in it, in words for the node, so that it cannot be committed.
    spoiled: Option<String>,
    /// What it counts for against the limit.
    bytes: usize,
}

/// Why a command on a transaction was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum TransactionError {
    #[error("there is no transaction `{0}`: begin it first")]
    Unknown(String),
    #[error("transaction `{0}` has begun already: commit or abort it first")]
    Begun(String),
    #[error("at most {0} transactions may be open: commit or abort one")]
    TooMany(usize),
    #[error("the open transactions of a connection hold at most {0} bytes: commit more often")]
    TooLarge(usize),
    #[error("transaction `{0}` writes state already: put all writes into one frame")]
    SecondState(String),
    #[error("malformed writes: {0}")]
    BadWrites(#[from] BadBody),
    #[error("a message in it is not waiting for an acknowledgement here")]
    NotHeld,
    #[error("{0}")]
    Spoiled(String),
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// The open transactions of one connection.
pub(super) struct Transactions {
    open: HashMap<String, Transaction>,
    bytes: usize,
    transactions_max: usize,
    bytes_max: usize,
}

/// What an acknowledgement counts for against the limit.
const ANSWER_BYTES: usize = 32;

impl Transactions {
    pub fn new(transactions_max: usize, bytes_max: usize) -> Self {
        Self {
            open: HashMap::new(),
            bytes: 0,
            transactions_max,
            bytes_max,
        }
    }

    pub fn begin(&mut self, name: &str) -> Result<(), TransactionError> {
        if self.open.contains_key(name) {
            return Err(TransactionError::Begun(name.to_owned()));
        }
        if self.open.len() >= self.transactions_max {
            return Err(TransactionError::TooMany(self.transactions_max));
        }
        self.open.insert(name.to_owned(), Transaction::default());
        Ok(())
    }

    pub fn send(
        &mut self,
        name: &str,
        to: Destination,
        publication: Publication,
    ) -> Result<(), TransactionError> {
        let bytes = publication.message.len_bytes() + size_of::<Publication>();
        let transaction = self.grow(name, bytes)?;
        transaction.sends.push((to, publication));
        Ok(())
    }

    pub fn answer(&mut self, name: &str, answer: Answer) -> Result<(), TransactionError> {
        let transaction = self.grow(name, ANSWER_BYTES)?;
        transaction.answers.push(answer);
        Ok(())
    }

    /// Adds the state that a transaction writes, once.
    pub fn write_state(
        &mut self,
        name: &str,
        bucket: Name,
        epoch: u64,
        body: &[u8],
    ) -> Result<(), TransactionError> {
        // Read twice, so that no memory is taken for what is malformed or too much.
        let mut bytes = 0;
        for write in decode_writes(body) {
            bytes += write_bytes(write?);
        }
        let transaction = self.grow(name, bytes)?;
        if transaction.state.is_some() {
            return Err(TransactionError::SecondState(name.to_owned()));
        }
        transaction.state = Some(StateCommit {
            bucket,
            epoch,
            writes: decode_writes(body).flatten().map(state_write).collect(),
        });
        Ok(())
    }

    fn grow(&mut self, name: &str, bytes: usize) -> Result<&mut Transaction, TransactionError> {
        if self.bytes + bytes > self.bytes_max {
            return Err(TransactionError::TooLarge(self.bytes_max));
        }
        let transaction = self
            .open
            .get_mut(name)
            .ok_or_else(|| TransactionError::Unknown(name.to_owned()))?;
        self.bytes += bytes;
        transaction.bytes += bytes;
        Ok(transaction)
    }

    /// Notes that a part of it was refused, so that what it holds is of no use any more; the commit
    /// will tell the first such reason. Says whether there is such a transaction.
    pub fn spoil(&mut self, name: &str, reason: &str) -> bool {
        let Some(transaction) = self.open.get_mut(name) else {
            return false;
        };
        self.bytes -= transaction.bytes;
        let first = transaction.spoiled.take();
        *transaction = Transaction {
            spoiled: first.or_else(|| Some(reason.to_owned())),
            ..Transaction::default()
        };
        true
    }

    /// Forgets a transaction.
    pub fn abort(&mut self, name: &str) -> Result<(), TransactionError> {
        let transaction = self
            .open
            .remove(name)
            .ok_or_else(|| TransactionError::Unknown(name.to_owned()))?;
        self.bytes -= transaction.bytes;
        Ok(())
    }

    /// Lets all of it take effect. It stays open if that fails, so that it can be tried again.
    pub fn commit(
        &mut self,
        name: &str,
        broker: &Broker,
        subscriptions: &Subscriptions,
    ) -> Result<Option<Position>, TransactionError> {
        let transaction = self.find(name)?;
        let mut stored = broker.commit(transaction.to_commit(subscriptions))?;
        for answer in transaction.answers.iter().filter(|a| a.rejected) {
            let Some(subscribed) = subscriptions.get(answer.token) else {
                continue;
            };
            let reject = Reject::Retry {
                reason: "the subscriber rejected it".into(),
            };
            let rejected = subscribed
                .subscription
                .reject(answer.id, subscribed.through(), &reject);
            stored = stored.max(rejected.stored);
        }
        self.abort(name)?;
        Ok(stored)
    }

    /// The same for a node, which relies on it that everything it named takes effect.
    pub fn commit_whole(
        &mut self,
        name: &str,
        broker: &Broker,
        subscriptions: &Subscriptions,
    ) -> Result<Option<Position>, TransactionError> {
        let transaction = self.find(name)?;
        if let Some(reason) = &transaction.spoiled {
            return Err(TransactionError::Spoiled(reason.clone()));
        }
        let mut answers = transaction.answers.iter();
        if answers.any(|answer| subscriptions.get(answer.token).is_none()) {
            return Err(TransactionError::NotHeld);
        }
        self.commit(name, broker, subscriptions)
    }

    fn find(&self, name: &str) -> Result<&Transaction, TransactionError> {
        self.open
            .get(name)
            .ok_or_else(|| TransactionError::Unknown(name.to_owned()))
    }
}

impl Transaction {
    fn to_commit<'a>(&self, subscriptions: &'a Subscriptions) -> Commit<'a> {
        let consumed = self.answers.iter().filter(|answer| !answer.rejected);
        Commit {
            state: self.state.clone(),
            consumed: consumed
                .filter_map(|answer| {
                    let subscribed = subscriptions.get(answer.token)?;
                    Some(Consumed {
                        subscription: &subscribed.subscription,
                        id: answer.id,
                        through: subscribed.through(),
                    })
                })
                .collect(),
            sends: self.sends.clone(),
        }
    }
}

/// What a write counts for against the limit.
fn write_bytes(write: Write<'_>) -> usize {
    let bytes = match write {
        Write::Set { key, value } => key.len() + value.len(),
        Write::Remove { key } => key.len(),
    };
    bytes + size_of::<StateWrite>()
}

/// Keys and values are copied one by one: a small one must not keep a large body in memory.
fn state_write(write: Write<'_>) -> StateWrite {
    match write {
        Write::Set { key, value } => StateWrite::Set {
            key: Bytes::copy_from_slice(key),
            value: Bytes::copy_from_slice(value),
        },
        Write::Remove { key } => StateWrite::Remove {
            key: Bytes::copy_from_slice(key),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::stomp::state::encode_write;

    fn body(writes: usize) -> Vec<u8> {
        let mut body = Vec::new();
        for _ in 0..writes {
            encode_write(&mut body, Write::Remove { key: b"" });
        }
        body
    }

    #[test]
    fn small_writes_count_for_the_memory_they_take() {
        let bucket = || Name::new("b").unwrap();
        let bytes_max = 10 * size_of::<StateWrite>();
        let mut transactions = Transactions::new(1, bytes_max);
        transactions.begin("t").unwrap();
        let many = transactions.write_state("t", bucket(), 1, &body(11));
        assert!(matches!(many, Err(TransactionError::TooLarge(_))));
        transactions
            .write_state("t", bucket(), 1, &body(10))
            .unwrap();
        assert_eq!(transactions.bytes, bytes_max);
        let second = transactions.write_state("t", bucket(), 1, b"");
        assert!(matches!(second, Err(TransactionError::SecondState(_))));
        transactions.abort("t").unwrap();
        assert_eq!(transactions.bytes, 0);
    }

    #[test]
    fn what_is_spoiled_holds_nothing_and_keeps_its_first_reason() {
        let mut transactions = Transactions::new(1, 1_000);
        assert!(!transactions.spoil("t", "nobody began it"));
        transactions.begin("t").unwrap();
        let bucket = Name::new("b").unwrap();
        transactions.write_state("t", bucket, 1, &body(3)).unwrap();
        assert!(transactions.spoil("t", "first"));
        assert!(transactions.spoil("t", "second"));
        assert_eq!(transactions.bytes, 0);
        let spoiled = transactions.find("t").unwrap().spoiled.as_deref();
        assert_eq!(spoiled, Some("first"));
        transactions.abort("t").unwrap();
        assert_eq!(transactions.bytes, 0);
    }
}
