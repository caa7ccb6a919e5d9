//! Requests of a node, each with an answer: epochs, state, documents.

use broker::{DocumentError, Position};
use bytes::Bytes;
use wire::stomp::Frame;
use wire::stomp::state;

use super::commands::{Outcome, Refusal, number, required};
use super::encode;
use super::node::{Verdict, named};
use super::session::StompSession;
use crate::session::Progress;

/// How the destinations begin that are for nodes only.
pub(super) const FOR_NODES: &str = "/hivewire/";

/// How many pairs or documents an answer holds at most.
const ENTRIES_MAX: usize = 10_000;

/// An answer with several of them is not made longer than this.
const LIST_BYTES_MAX: usize = 1 << 20;

/// What a list takes for one entry beside key and value, at most.
const ENTRY_BYTES: usize = 17;

/// An answer to a request.
struct Reply {
    verdict: Verdict,
    body: Bytes,
    /// It is told when the journal is synced up to here.
    stored: Option<Position>,
}

impl From<Verdict> for Reply {
    fn from(verdict: Verdict) -> Self {
        Self {
            verdict,
            body: Bytes::new(),
            stored: None,
        }
    }
}

impl Reply {
    fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    fn when_stored(mut self, stored: Option<Position>) -> Self {
        self.stored = stored;
        self
    }
}

/// An answer; `None` if the request is to be tried again when the journal is ready.
type Replied = Result<Option<Reply>, Refusal>;

impl StompSession {
    /// A message of a node to the broker itself.
    pub(super) fn node_send(
        &mut self,
        what: &str,
        frame: &Frame<'_>,
        answers: &mut Vec<u8>,
    ) -> Outcome {
        if what == "state" {
            return self.write_state(frame, answers);
        }
        // Without one there is nobody to answer to.
        let request = required(frame, "request")?;
        let reply = match self.reply(what, frame) {
            Ok(Some(reply)) => reply,
            Ok(None) => return Ok(Progress::NotReady),
            Err(Refusal(reason)) => Verdict::refused(&reason).into(),
        };
        let receipt = frame.header("receipt");
        self.answer(&request, reply, receipt.as_deref(), answers);
        Ok(Progress::Done)
    }

    fn reply(&self, what: &str, frame: &Frame<'_>) -> Replied {
        if frame.header("transaction").is_some() {
            return Err(Refusal(
                "a request cannot be part of a transaction: leave out the header `transaction`"
                    .into(),
            ));
        }
        match what {
            "epoch" => self.raise_epoch(frame),
            "get" => self.get(frame),
            "scan" => self.scan(frame),
            "document" => self.change_document(frame),
            "document-get" => self.get_document(frame),
            "documents" => self.list_documents(frame),
            _ => Err(Refusal(format!(
                "there is no request {FOR_NODES}{what}: see the reference of the protocols"
            ))),
        }
    }

    /// Answers now or after the sync that the answer speaks of.
    fn answer(
        &mut self,
        request: &str,
        reply: Reply,
        receipt: Option<&str>,
        answers: &mut Vec<u8>,
    ) {
        let Some(node) = &mut self.node else {
            return;
        };
        let id = node.next_answer_id();
        let durable = self.broker.journal().durable();
        let unsynced = reply.stored.filter(|stored| !durable.covers(*stored));
        let reply = match unsynced {
            Some(_) if durable.failed => {
                let failure = self.broker.journal().failure();
                let reason = failure.map_or_else(String::new, |failure| failure.to_string());
                Verdict::refused(&reason).into()
            }
            _ => reply,
        };
        let unsynced = unsynced.filter(|_| !durable.failed);
        let version = self.version;
        let write = |out: &mut Vec<u8>| {
            encode::answer(out, version, &id, request, &reply.verdict, &reply.body);
        };
        match unsynced {
            Some(position) => {
                let mut frame = Vec::new();
                write(&mut frame);
                self.receipts.add_frame(position, frame);
            }
            None => write(answers),
        }
        if let Some(receipt) = receipt {
            self.receipts.add(answers, version, receipt, unsynced);
        }
    }

    fn raise_epoch(&self, frame: &Frame<'_>) -> Replied {
        let bucket = named(frame, "bucket")?;
        match self.broker.raise_epoch(&bucket) {
            Ok((epoch, stored)) => {
                let verdict = Verdict::new("done").with("epoch", epoch);
                Ok(Some(Reply::from(verdict).when_stored(Some(stored))))
            }
            Err(error) => Ok(Verdict::of(&error).map(Reply::from)),
        }
    }

    fn get(&self, frame: &Frame<'_>) -> Replied {
        let bucket = named(frame, "bucket")?;
        Ok(Some(match self.broker.state(&bucket, frame.body)? {
            Some(value) => Reply::from(Verdict::new("found")).with_body(value),
            None => Verdict::new("none").into(),
        }))
    }

    fn scan(&self, frame: &Frame<'_>) -> Replied {
        let bucket = named(frame, "bucket")?;
        let pairs_max = entries_max(frame, "pairs-max")?;
        let from_start = frame
            .header("from-start")
            .is_some_and(|text| text == "true");
        let after = (!from_start).then_some(frame.body);
        let pairs = self.broker.scan_state(&bucket, after, pairs_max + 1)?;
        let mut list = List::new(pairs_max);
        for (key, value) in &pairs {
            list.add(key.len() + value.len(), |out| {
                state::encode_pair(out, key, value);
            });
        }
        Ok(Some(list.into_reply()))
    }

    fn change_document(&self, frame: &Frame<'_>) -> Replied {
        let name = named(frame, "name")?;
        let expected = number(frame, "revision")?;
        let removes = frame.header("remove").is_some_and(|text| text == "true");
        let content = (!removes).then(|| Bytes::copy_from_slice(frame.body));
        Ok(
            match self.broker.change_document(&name, expected, content) {
                Ok((revision, stored)) => {
                    let verdict = Verdict::new("done").with("revision", revision);
                    Some(Reply::from(verdict).when_stored(stored))
                }
                Err(DocumentError::Conflict { current, .. }) => {
                    let verdict = Verdict::new("conflict").with("revision", current.revision);
                    Some(Reply::from(verdict).when_stored(current.stored))
                }
                Err(DocumentError::Commit(error)) => Verdict::of(&error).map(Reply::from),
                Err(error) => return Err(error.into()),
            },
        )
    }

    fn get_document(&self, frame: &Frame<'_>) -> Replied {
        let name = named(frame, "name")?;
        let document = self.broker.document(&name);
        let outcome = match document.content {
            Some(_) => "found",
            None => "none",
        };
        let verdict = Verdict::new(outcome).with("revision", document.revision);
        let reply = Reply::from(verdict).with_body(document.content.unwrap_or_default());
        Ok(Some(reply.when_stored(document.stored)))
    }

    fn list_documents(&self, frame: &Frame<'_>) -> Replied {
        let prefix = str::from_utf8(frame.body)
            .map_err(|_| Refusal("bad prefix: the body is not UTF-8".into()))?;
        let documents_max = entries_max(frame, "pairs-max")?;
        let after = frame.header("after");
        let documents = self
            .broker
            .documents(prefix, after.as_deref(), documents_max + 1);
        let mut list = List::new(documents_max);
        let mut stored = None;
        for (name, document) in &documents {
            let content = document.content.as_deref();
            let bytes = name.as_str().len() + content.map_or(0, <[u8]>::len);
            let entry = state::Document {
                name: name.as_str(),
                revision: document.revision,
                content,
            };
            if list.add(bytes, |out| state::encode_document(out, entry)) {
                stored = stored.max(document.stored);
            }
        }
        Ok(Some(list.into_reply().when_stored(stored)))
    }
}

/// How many entries a request wants at most.
fn entries_max(frame: &Frame<'_>, header: &str) -> Result<usize, Refusal> {
    let wanted = number(frame, header)?;
    if wanted == 0 {
        return Err(Refusal(format!(
            "bad {header}: `0` would never give anything; ask for at least 1"
        )));
    }
    Ok(usize::try_from(wanted)
        .unwrap_or(ENTRIES_MAX)
        .min(ENTRIES_MAX))
}

/// The entries of one answer, as many as fit.
struct List {
    body: Vec<u8>,
    entries: usize,
    entries_max: usize,
    is_cut: bool,
}

impl List {
    fn new(entries_max: usize) -> Self {
        Self {
            body: Vec::new(),
            entries: 0,
            entries_max,
            is_cut: false,
        }
    }

    /// Adds an entry if it fits; the first one always does. After one that does not, none does.
    fn add(&mut self, bytes: usize, encode: impl FnOnce(&mut Vec<u8>)) -> bool {
        let is_long = self.body.len() + bytes + ENTRY_BYTES > LIST_BYTES_MAX && self.entries > 0;
        self.is_cut |= is_long || self.entries == self.entries_max;
        if !self.is_cut {
            encode(&mut self.body);
            self.entries += 1;
        }
        !self.is_cut
    }

    fn into_reply(self) -> Reply {
        let verdict = Verdict::new(if self.entries > 0 { "found" } else { "none" });
        let verdict = match self.is_cut {
            true => verdict.with("more", "true"),
            false => verdict,
        };
        Reply::from(verdict).with_body(self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries_max: usize, sizes: &[usize]) -> (usize, bool) {
        let mut list = List::new(entries_max);
        for size in sizes {
            list.add(*size, |out| out.resize(out.len() + size, 0));
        }
        assert!(list.body.len() <= LIST_BYTES_MAX || list.entries == 1);
        (list.entries, list.is_cut)
    }

    #[test]
    fn a_list_ends_where_a_limit_is_reached_and_says_so() {
        assert_eq!(list(5, &[]), (0, false));
        assert_eq!(list(2, &[1, 1]), (2, false));
        assert_eq!(list(2, &[1, 1, 1]), (2, true));
        assert_eq!(list(9, &[LIST_BYTES_MAX / 2; 3]), (1, true));
        assert_eq!(
            list(9, &[2 * LIST_BYTES_MAX]),
            (1, false),
            "one always fits"
        );
        let small_after_long = [10, LIST_BYTES_MAX, 10];
        assert_eq!(list(9, &small_after_long), (1, true), "no gaps");
    }
}
