//! What a node has of a broker of ours besides delivery: commits, state and epochs.
//!
//! - One connection carries the subscriptions, commits and requests of a node, because a commit is
//!   a transaction and may consume from several subscriptions.
//! - A commit whose receipt was lost is in doubt. Requests only read, or can be repeated: a raised
//!   epoch that nobody learned of harms nobody.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kernel::Name;
use wire::stomp::state::{self, BadBody, Write, decode_documents, decode_pairs, encode_write};
use wire::stomp::{self, Command, Version};

use super::convert::{self, Id, Outgoing, Sending};
use super::inbox::Inbox;
use super::link::Link;
use super::receipts::{Declined, Outcome};
use super::requests::Answer;
use super::session::{Out, Session};
use super::subscription::StompSubscription;
use super::unanswered::AckId;
use crate::capabilities::AckLevel;
use crate::commit::{Commit, Owner, StateWrite};
use crate::deadline::Deadline;
use crate::document::{Document, Put};
use crate::engines::declared::Declared;
use crate::error::BusError;

const COMMIT: &str = "a commit";
const READ_DOCUMENT: &str = "reading documents";
/// Pause before a request is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);
/// How many pairs are asked for at a time.
const PAIRS_MAX: usize = 10_000;

/// The part of a bus that only nodes have.
pub(super) struct NodeLink {
    pub link: Arc<Link>,
    pub declared: Arc<Declared>,
}

/// What a request asks for.
struct Request<'a> {
    /// What it is called in errors.
    what: &'static str,
    destination: &'static str,
    headers: &'a [(&'static str, &'a str)],
    body: &'a [u8],
}

impl NodeLink {
    /// Does all of a commit or nothing; returns once it is permanent.
    pub async fn commit(
        &self,
        commit: &Commit<'_>,
        deadline: Deadline,
    ) -> Result<AckLevel, BusError> {
        if commit.owner.is_none() && !commit.writes.is_empty() {
            return Err(BusError::Refused {
                reason:
                    "state is written without an owner: give the commit the bucket and its epoch"
                        .into(),
            });
        }
        let session = self.link.connected(COMMIT, deadline).await?;
        if deadline.limit(session.room()).await.is_err() {
            return Err(deadline.timeout(COMMIT, "too much is waiting to be sent"));
        }
        let held = held(commit, &session)?;
        let starts = self.starts(commit, &session)?;
        let sent = session.send(|out| write_commit(out, &session, commit, &held, &starts));
        let Ok(outcome) = sent else {
            // What was held went with the connection.
            return Err(BusError::NotHeld {
                messages: held.len().max(1),
            });
        };
        match deadline.limit(outcome).await {
            Ok(Ok(Outcome::Confirmed(level))) => {
                for consumed in &commit.consumed {
                    inbox(consumed.subscription)?.forget(&consumed.receipts);
                }
                Ok(level.unwrap_or(AckLevel::Memory))
            }
            Ok(Ok(Outcome::Declined(declined))) => Err(error(declined, commit)),
            Ok(Ok(Outcome::Complaint { text, .. })) => Err(deadline.in_doubt(COMMIT, text)),
            Ok(Ok(Outcome::Lost { reason, .. })) => Err(deadline.in_doubt(COMMIT, reason)),
            Ok(Err(_)) | Err(_) => Err(deadline.in_doubt(COMMIT, "no answer")),
        }
    }

    /// How the frame of each send begins.
    fn starts(&self, commit: &Commit<'_>, session: &Session) -> Result<Vec<Vec<u8>>, BusError> {
        let start = |to: &kernel::Destination| {
            let text = session.dialect.destination(to)?;
            let headers = session.dialect.send_headers(to, &self.declared.of(to));
            Ok(convert::send_start(&text, &headers))
        };
        commit.sends.iter().map(|(to, _)| start(to)).collect()
    }

    pub async fn raise_epoch(&self, bucket: &Name, deadline: Deadline) -> Result<u64, BusError> {
        let request = Request {
            what: "raising an epoch",
            destination: "/hivewire/epoch",
            headers: &[("bucket", bucket.as_str())],
            body: b"",
        };
        let answer = self.ask(&request, deadline).await?;
        answer.is_there()?;
        answer.epoch.ok_or_else(|| BusError::Refused {
            reason: "the broker raised an epoch and did not say to what".into(),
        })
    }

    pub async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        deadline: Deadline,
    ) -> Result<Option<Bytes>, BusError> {
        let request = Request {
            what: "reading state",
            destination: "/hivewire/get",
            headers: &[("bucket", bucket.as_str())],
            body: key,
        };
        let answer = self.ask(&request, deadline).await?;
        Ok(answer.is_there()?.then_some(answer.body))
    }

    pub async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        deadline: Deadline,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        let mut pairs: Vec<(Bytes, Bytes)> = Vec::new();
        while pairs.len() < pairs_max {
            let last = pairs.last().map(|(key, _)| key.clone());
            let after = last.as_deref().or(after);
            let wanted = (pairs_max - pairs.len()).min(PAIRS_MAX).to_string();
            let headers = [
                ("bucket", bucket.as_str()),
                ("pairs-max", wanted.as_str()),
                ("from-start", "true"),
            ];
            let request = Request {
                what: "reading state",
                destination: "/hivewire/scan",
                headers: &headers[..if after.is_some() { 2 } else { 3 }],
                body: after.unwrap_or_default(),
            };
            let answer = self.ask(&request, deadline).await?;
            if !answer.is_there()? {
                break;
            }
            let known = pairs.len();
            for pair in decode_pairs(&answer.body) {
                let (key, value) = pair.map_err(no_list)?;
                pairs.push((answer.body.slice_ref(key), answer.body.slice_ref(value)));
            }
            if !answer.is_more || pairs.len() == known {
                break;
            }
        }
        Ok(pairs)
    }

    pub async fn document(&self, name: &Name, deadline: Deadline) -> Result<Document, BusError> {
        let request = Request {
            what: READ_DOCUMENT,
            destination: "/hivewire/document-get",
            headers: &[("name", name.as_str())],
            body: b"",
        };
        let answer = self.ask(&request, deadline).await?;
        Ok(Document {
            revision: answer.revision,
            body: answer.is_there()?.then_some(answer.body),
        })
    }

    pub async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        deadline: Deadline,
    ) -> Result<Put, BusError> {
        let expected = expected_revision.to_string();
        let headers = [
            ("name", name.as_str()),
            ("revision", expected.as_str()),
            ("remove", "true"),
        ];
        let request = Request {
            what: "changing a document",
            destination: "/hivewire/document",
            headers: &headers[..if body.is_some() { 2 } else { 3 }],
            body: body.unwrap_or_default(),
        };
        let (answer, is_repeated) = self.ask_again(&request, deadline).await?;
        if !answer.is_conflict() {
            answer.is_there()?;
            return Ok(Put::Stored(answer.revision));
        }
        if is_repeated && answer.revision == expected_revision + 1 {
            let document = self.document(name, deadline).await?;
            if document.revision == answer.revision && document.body.as_deref() == body {
                // The call before the connection was lost did it, or somebody else wrote the same.
                let lost = "the connection was lost, and it has changed to just that since";
                return Err(deadline.in_doubt(request.what, lost));
            }
        }
        Ok(Put::Conflict(answer.revision))
    }

    pub async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        deadline: Deadline,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        let mut documents: Vec<(Name, Document)> = Vec::new();
        while documents.len() < documents_max {
            let last = documents.last().map(|(name, _)| name.clone());
            let after = last.as_ref().or(after);
            let wanted = (documents_max - documents.len()).min(PAIRS_MAX).to_string();
            let headers = [
                ("pairs-max", wanted.as_str()),
                ("after", after.map_or("", Name::as_str)),
            ];
            let request = Request {
                what: READ_DOCUMENT,
                destination: "/hivewire/documents",
                headers: &headers[..if after.is_some() { 2 } else { 1 }],
                body: prefix.as_bytes(),
            };
            let answer = self.ask(&request, deadline).await?;
            let known = documents.len();
            if answer.is_there()? {
                for found in decode_documents(&answer.body) {
                    documents.push(to_document(&answer.body, found.map_err(no_list)?)?);
                }
            }
            if !answer.is_more || documents.len() == known {
                break;
            }
        }
        Ok(documents)
    }

    /// Asks, again on the next connection if one is lost meanwhile.
    async fn ask(&self, request: &Request<'_>, deadline: Deadline) -> Result<Answer, BusError> {
        let (answer, _) = self.ask_again(request, deadline).await?;
        Ok(answer)
    }

    /// The same, and whether it had to be asked a second time: the first may have counted.
    async fn ask_again(
        &self,
        request: &Request<'_>,
        deadline: Deadline,
    ) -> Result<(Answer, bool), BusError> {
        let mut is_repeated = false;
        loop {
            let session = self.link.connected(request.what, deadline).await?;
            let asked = session.send(|out| write_request(out, request));
            if let Ok(answer) = asked {
                match deadline.limit(answer).await {
                    Ok(Ok(answer)) => return Ok((answer, is_repeated)),
                    // The connection was lost.
                    Ok(Err(_)) => is_repeated = true,
                    Err(_) => return Err(deadline.in_doubt(request.what, "no answer")),
                }
            }
            if deadline
                .limit(tokio::time::sleep(REPEAT_PAUSE))
                .await
                .is_err()
            {
                return Err(deadline.timeout(request.what, "the connection was lost"));
            }
        }
    }
}

fn to_document(body: &Bytes, found: state::Document<'_>) -> Result<(Name, Document), BusError> {
    let name = Name::new(found.name).map_err(|error| BusError::Refused {
        reason: format!("the broker sent a document whose name is none: {error}"),
    })?;
    let document = Document {
        revision: found.revision,
        body: found.content.map(|content| body.slice_ref(content)),
    };
    Ok((name, document))
}

fn no_list(error: BadBody) -> BusError {
    BusError::Refused {
        reason: format!("the broker sent what is no list: {error}"),
    }
}

/// The inbox of a subscription of this engine.
fn inbox(subscription: &dyn crate::contract::Subscription) -> Result<&Inbox, BusError> {
    let subscription: &dyn Any = subscription;
    match subscription.downcast_ref::<StompSubscription>() {
        Some(subscription) => Ok(subscription.inbox()),
        None => Err(BusError::Refused {
            reason: "a commit consumes from a subscription of another engine".into(),
        }),
    }
}

/// By what the broker knows the messages that are consumed.
fn held(commit: &Commit<'_>, session: &Arc<Session>) -> Result<Vec<AckId>, BusError> {
    let mut held = Vec::new();
    for consumed in &commit.consumed {
        let missing = inbox(consumed.subscription)?.ids(session, &consumed.receipts, &mut held);
        if missing > 0 {
            return Err(BusError::NotHeld { messages: missing });
        }
    }
    Ok(held)
}

/// Appends a whole transaction; says where its outcome is told.
fn write_commit(
    out: &mut Out,
    session: &Session,
    commit: &Commit<'_>,
    held: &[AckId],
    starts: &[Vec<u8>],
) -> tokio::sync::oneshot::Receiver<Outcome> {
    let (receipt, outcome) = out.receipts.expect(1);
    let bytes = out.chunks.bytes();
    convert::transact(bytes, Command::Begin, receipt, None);
    for id in held {
        stomp::begin(bytes, Command::Ack);
        stomp::header(bytes, Version::V1_2, "id", id.as_str());
        stomp::header_number(bytes, "transaction", receipt);
        stomp::finish(bytes, b"");
    }
    for ((_, message), start) in commit.sends.iter().zip(starts) {
        let sending = Sending {
            dialect: session.dialect,
            start,
            id_start: "",
            transaction: Some(receipt),
        };
        let outgoing = Outgoing {
            message: message.clone(),
            // It is sent once or not at all.
            id: Id::Sender,
            tries: 0,
            confirmed: false,
        };
        sending.frame(&mut out.chunks, &outgoing, None);
    }
    if let Some(owner) = &commit.owner {
        write_state(out.chunks.bytes(), owner, &commit.writes, receipt);
    }
    convert::transact(out.chunks.bytes(), Command::Commit, receipt, Some(receipt));
    outcome
}

/// Appends what a transaction writes. Without writes it only checks the epoch.
fn write_state(bytes: &mut Vec<u8>, owner: &Owner, writes: &[StateWrite], transaction: u64) {
    let mut body = Vec::new();
    for write in writes {
        let write = match write {
            StateWrite::Set { key, value } => Write::Set { key, value },
            StateWrite::Remove { key } => Write::Remove { key },
        };
        encode_write(&mut body, write);
    }
    stomp::begin(bytes, Command::Send);
    stomp::header_raw(bytes, "destination", b"/hivewire/state");
    stomp::header_number(bytes, "transaction", transaction);
    stomp::header(bytes, Version::V1_2, "bucket", owner.bucket.as_str());
    stomp::header_number(bytes, "epoch", owner.epoch);
    stomp::header_number(bytes, "content-length", body.len() as u64);
    stomp::finish(bytes, &body);
}

fn write_request(out: &mut Out, request: &Request<'_>) -> tokio::sync::oneshot::Receiver<Answer> {
    let (number, answer) = out.requests.expect();
    let bytes = out.chunks.bytes();
    stomp::begin(bytes, Command::Send);
    stomp::header_raw(bytes, "destination", request.destination.as_bytes());
    stomp::header_number(bytes, "request", number);
    for (name, value) in request.headers {
        stomp::header(bytes, Version::V1_2, name, value);
    }
    stomp::header_number(bytes, "content-length", request.body.len() as u64);
    stomp::finish(bytes, request.body);
    answer
}

fn error(declined: Declined, commit: &Commit<'_>) -> BusError {
    match (declined, &commit.owner) {
        (Declined::Fenced { current }, Some(owner)) => BusError::Fenced {
            bucket: owner.bucket.clone(),
            given: owner.epoch,
            current,
        },
        (Declined::Fenced { .. }, None) => BusError::Refused {
            reason: "the broker fenced a commit that has no owner".into(),
        },
        (Declined::NotHeld, _) => BusError::NotHeld { messages: 1 },
        (Declined::Full { reason }, _) => BusError::Full { reason },
        (Declined::Refused { reason }, _) => BusError::Refused { reason },
    }
}
