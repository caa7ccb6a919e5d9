//! Transactions: sends and acknowledgements that take effect together.

use std::collections::HashMap;

use broker::{Broker, Commit, CommitError, Consumed, Position, Publication, Reject};
use kernel::Destination;

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

    fn grow(&mut self, name: &str, bytes: usize) -> Result<&mut Transaction, TransactionError> {
        if self.bytes + bytes > self.bytes_max {
            return Err(TransactionError::TooLarge(self.bytes_max));
        }
        let transaction = self
            .open
            .get_mut(name)
            .ok_or_else(|| TransactionError::Unknown(name.to_owned()))?;
        self.bytes += bytes;
        Ok(transaction)
    }

    /// Forgets a transaction.
    pub fn abort(&mut self, name: &str) -> Result<(), TransactionError> {
        let transaction = self
            .open
            .remove(name)
            .ok_or_else(|| TransactionError::Unknown(name.to_owned()))?;
        self.bytes -= transaction.bytes();
        Ok(())
    }

    /// Lets all of it take effect. It stays open if that fails, so that it can be tried again.
    pub fn commit(
        &mut self,
        name: &str,
        broker: &Broker,
        subscriptions: &Subscriptions,
    ) -> Result<Option<Position>, TransactionError> {
        let transaction = self
            .open
            .get(name)
            .ok_or_else(|| TransactionError::Unknown(name.to_owned()))?;
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
}

impl Transaction {
    fn bytes(&self) -> usize {
        let sends = self.sends.iter();
        let sends = sends.map(|(_, p)| p.message.len_bytes() + size_of::<Publication>());
        sends.sum::<usize>() + self.answers.len() * ANSWER_BYTES
    }

    fn to_commit<'a>(&self, subscriptions: &'a Subscriptions) -> Commit<'a> {
        let consumed = self.answers.iter().filter(|answer| !answer.rejected);
        Commit {
            state: None,
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
