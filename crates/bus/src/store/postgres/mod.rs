//! The shared store in PostgreSQL 14 or later.
//!
//! - A commit is one statement and so one round trip and one transaction: the function
//!   `commit_turns` in `schema.sql` locks the bucket's row, compares the epoch, and writes state,
//!   outbox and consumed ids.
//! - Commits of a bucket are numbered and carry a token. One whose answer was lost is repeated as it
//!   was: if the row has its number and token, it has happened. Only when the time is up meanwhile it
//!   is [in doubt](BusError::InDoubt).
//! - The schema (`?schema=`, by default `hivewire`) makes itself, under an advisory lock.
//! - A few connections are kept up for ever, with back-off and jitter, and are shared: calls are
//!   sent one behind the other and answered in that order. No transaction is longer than its
//!   statement, so none waits for what stands behind it. A pool that lends connections out would
//!   need many more of them.
//! - TLS is rustls, as everywhere here; beyond this machine it is required unless the address says
//!   `sslmode=disable`, and the certificate is always checked.
//!
//! What is consumed is remembered so: for each queue and sender a set of ranges, for which 512 are
//! allowed; beyond that the oldest are forgotten. A sender of which nothing came for a week is
//! forgotten. Ids of outside clients are remembered for an hour. What is forgotten and comes again
//! counts as new; what is new is never dropped.

mod address;
mod connection;
mod outbox;
mod schema;
mod statements;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::Name;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row, Statement};

use self::address::Address;
use self::connection::{Pool, describe};
use self::statements::Statements;
use super::{ConsumedIds, MessageId, Numbers, OutboxCommit, Position, Store, StoreCommit};
use crate::capabilities::AckLevel;
use crate::commit::StateWrite;
use crate::deadline::Deadline;
use crate::document::{Document, Put};
use crate::error::BusError;

/// Pause before a call is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);
/// How many ranges of numbers are remembered for each queue and sender.
const RANGES_MAX: i32 = 512;
/// The longest key: an index of the server holds it whole, beside the bucket's name.
const KEY_BYTES_MAX: usize = 2_048;
/// The largest commit.
const COMMIT_BYTES_MAX: usize = 256 << 20;

/// How to reach the server, and how long to remember.
#[derive(Clone, Debug)]
pub struct PostgresSettings {
    /// Address, user, password, database and more:
    /// `postgres://user:password@host:5432/database?schema=hivewire`.
    pub uri: String,
    /// How many connections are kept up.
    pub connections: usize,
    /// The longest pause between two attempts to connect.
    pub reconnect_pause_ms_max: u64,
    /// How long the ids of a silent sender are remembered.
    pub senders_kept_seconds: u64,
    /// How long the ids of outside clients are remembered.
    pub outside_ids_kept_seconds: u64,
}

impl PostgresSettings {
    /// The default settings for this address.
    pub fn new(uri: impl Into<String>) -> Self {
        Self {
            uri: uri.into(),
            connections: 4,
            reconnect_pause_ms_max: 2_000,
            senders_kept_seconds: 7 * 24 * 3_600,
            outside_ids_kept_seconds: 3_600,
        }
    }
}

/// A shared store in a PostgreSQL server.
pub struct PostgresStore {
    pool: Pool,
    senders_kept: Duration,
    outside_ids_kept: Duration,
}

/// What a call does, for errors.
#[derive(Clone, Copy)]
enum Kind {
    Reads,
    Writes,
}

impl PostgresStore {
    /// Starts connecting and returns at once; must be called within a tokio runtime. Dropping the
    /// store ends the connections.
    pub fn start(settings: &PostgresSettings) -> Result<Self, BusError> {
        let address = Address::parse(&settings.uri)?;
        let pause_max = Duration::from_millis(settings.reconnect_pause_ms_max);
        Ok(Self {
            pool: Pool::start(address, settings.connections.max(1), pause_max),
            senders_kept: Duration::from_secs(settings.senders_kept_seconds),
            outside_ids_kept: Duration::from_secs(settings.outside_ids_kept_seconds),
        })
    }

    /// Runs a statement until the server answers. All statements here may be repeated.
    async fn rows(
        &self,
        (what, kind): (&str, Kind),
        deadline: Deadline,
        statement: fn(&Statements) -> &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, BusError> {
        let mut in_doubt = false;
        let mut reason = None;
        while !deadline.is_over() {
            let Ok(busy) = deadline.limit(self.pool.connected()).await else {
                break;
            };
            let connected = &busy.0;
            let asked = connected
                .client
                .query(statement(&connected.statements), parameters);
            match deadline.limit(asked).await {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) => match judge(&error) {
                    Verdict::Final(error) => return Err(error),
                    Verdict::Again => reason = Some(describe(&error)),
                    Verdict::Lost => {
                        in_doubt = true;
                        reason = Some(describe(&error));
                    }
                },
                Err(_) => {
                    in_doubt = true;
                    reason = Some("the server did not answer".to_owned());
                }
            }
            drop(busy);
            // An error means that the time is up, which ends the loop.
            let _ = deadline.limit(tokio::time::sleep(REPEAT_PAUSE)).await;
        }
        let reason = reason.unwrap_or_else(|| self.pool.trouble());
        Err(match (kind, in_doubt) {
            (Kind::Writes, true) => deadline.in_doubt(what, reason),
            _ => deadline.timeout(what, reason),
        })
    }
}

/// What an error means for the call.
enum Verdict {
    /// It did not happen; trying again can help.
    Again,
    /// It may have happened.
    Lost,
    Final(BusError),
}

/// What the function `commit_turns` says of input that was consumed before.
const CONSUMED_BEFORE: &str = "HW001";

fn judge(error: &Error) -> Verdict {
    let Some(code) = error.code().map(|state| state.code()) else {
        // The connection was lost, or a value did not fit, which sends nothing.
        return match std::error::Error::source(error) {
            Some(cause) if !error.is_closed() && !cause.is::<std::io::Error>() => {
                Verdict::Final(BusError::Refused {
                    reason: describe(error),
                })
            }
            _ => Verdict::Lost,
        };
    };
    let reason = describe(error);
    match (code, &code[..2.min(code.len())]) {
        (CONSUMED_BEFORE, _) => Verdict::Final(BusError::NotHeld { messages: 1 }),
        ("53100" | "53200", _) => Verdict::Final(BusError::Full { reason }),
        // Shut down, or stopped in the middle.
        (_, "57") => Verdict::Lost,
        // Connections, deadlocks, locks, too many connections, read-only after a fail-over.
        (_, "08" | "40" | "53" | "55" | "25") => Verdict::Again,
        _ => Verdict::Final(BusError::Refused { reason }),
    }
}

fn first(rows: &[Row]) -> Result<&Row, BusError> {
    rows.first().ok_or_else(|| BusError::Refused {
        reason: "the shared store gave no answer: is it a PostgreSQL server?".into(),
    })
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn to_u64(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The last write of each key.
type LastWrites<'a> = BTreeMap<&'a [u8], Option<&'a [u8]>>;

fn last_writes(writes: &[StateWrite]) -> Result<LastWrites<'_>, BusError> {
    let mut last = BTreeMap::new();
    for write in writes {
        let (key, value) = match write {
            StateWrite::Set { key, value } => (key, Some(&value[..])),
            StateWrite::Remove { key } => (key, None),
        };
        if key.len() > KEY_BYTES_MAX {
            let reason = format!(
                "a key has {} bytes, and the shared store takes at most {KEY_BYTES_MAX}: choose shorter keys",
                key.len()
            );
            return Err(BusError::Refused { reason });
        }
        last.insert(&key[..], value);
    }
    Ok(last)
}

/// What a commit consumes, as the server takes it: side by side for each queue and sender, and for
/// each id of outside clients.
#[derive(Default)]
struct ConsumedColumns<'a> {
    queues: Vec<&'a str>,
    senders: Vec<&'a str>,
    numbers: Vec<String>,
    outside_queues: Vec<&'a str>,
    outside_ids: Vec<&'a [u8]>,
}

impl<'a> ConsumedColumns<'a> {
    /// Sorts what is consumed; none of it may be there twice.
    fn of(consumed: &'a [ConsumedIds]) -> Result<Self, BusError> {
        let twice = || BusError::NotHeld { messages: 1 };
        let mut columns = Self::default();
        let mut senders: BTreeMap<(&str, &str), Numbers> = BTreeMap::new();
        let mut outside: BTreeMap<(&str, &str), ()> = BTreeMap::new();
        for ConsumedIds { queue, ids } in consumed {
            for id in ids {
                let is_new = match id {
                    MessageId::Ours { sender, number } => senders
                        .entry((queue.as_str(), sender))
                        .or_default()
                        .insert(*number),
                    MessageId::Outside(id) => outside.insert((queue.as_str(), id), ()).is_none(),
                };
                if !is_new {
                    return Err(twice());
                }
            }
        }
        for ((queue, sender), numbers) in senders {
            columns.queues.push(queue);
            columns.senders.push(sender);
            columns.numbers.push(multirange(&numbers));
        }
        for (queue, id) in outside.into_keys() {
            columns.outside_queues.push(queue);
            columns.outside_ids.push(id.as_bytes());
        }
        Ok(columns)
    }
}

/// Numbers as the server writes them.
fn multirange(numbers: &Numbers) -> String {
    let mut text = String::from("{");
    for (index, (first, last)) in numbers.ranges().iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}[{first},{last}]");
    }
    text.push('}');
    text
}

fn document(row: &Row, at: usize) -> Document {
    Document {
        revision: to_u64(row.get(at)),
        body: row.get::<_, Option<Vec<u8>>>(at + 1).map(Bytes::from),
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn level(&self) -> AckLevel {
        self.pool.level()
    }

    async fn raise_epoch(&self, bucket: &Name, timeout: Duration) -> Result<u64, BusError> {
        let rows = self
            .rows(
                ("an epoch", Kind::Writes),
                Deadline::after(timeout),
                |statements| &statements.raise_epoch,
                &[&bucket.as_str()],
            )
            .await?;
        Ok(to_u64(first(&rows)?.get(0)))
    }

    async fn position(&self, bucket: &Name, timeout: Duration) -> Result<Position, BusError> {
        let rows = self
            .rows(
                ("reading an epoch", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.position,
                &[&bucket.as_str()],
            )
            .await?;
        let position = rows.first().map(|row| Position {
            epoch: to_u64(row.get(0)),
            number: to_u64(row.get(1)),
        });
        Ok(position.unwrap_or_default())
    }

    async fn state(
        &self,
        bucket: &Name,
        key: &[u8],
        timeout: Duration,
    ) -> Result<Option<Bytes>, BusError> {
        let rows = self
            .rows(
                ("reading state", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.state,
                &[&bucket.as_str(), &key],
            )
            .await?;
        Ok(rows.first().map(|row| row.get::<_, Vec<u8>>(0).into()))
    }

    async fn states(
        &self,
        bucket: &Name,
        keys: &[&[u8]],
        timeout: Duration,
    ) -> Result<Vec<Option<Bytes>>, BusError> {
        let rows = self
            .rows(
                ("reading state", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.states,
                &[&bucket.as_str(), &keys],
            )
            .await?;
        let pair = |row: &Row| (row.get::<_, Vec<u8>>(0), row.get::<_, Vec<u8>>(1).into());
        let found: HashMap<Vec<u8>, Bytes> = rows.iter().map(pair).collect();
        Ok(keys.iter().map(|key| found.get(*key).cloned()).collect())
    }

    async fn scan(
        &self,
        bucket: &Name,
        after: Option<&[u8]>,
        pairs_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        // No key lies between a key and the same one with a zero byte more.
        let from = after.map_or_else(Vec::new, |after| [after, &[0]].concat());
        let pairs_max = i64::try_from(pairs_max).unwrap_or(i64::MAX);
        let rows = self
            .rows(
                ("reading state", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.scan,
                &[&bucket.as_str(), &from, &pairs_max],
            )
            .await?;
        let pair = |row: &Row| {
            let (key, value): (Vec<u8>, Vec<u8>) = (row.get(0), row.get(1));
            (key.into(), value.into())
        };
        Ok(rows.iter().map(pair).collect())
    }

    async fn commit(&self, commit: &StoreCommit, timeout: Duration) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        let writes = last_writes(&commit.writes)?;
        let (mut set_keys, mut set_values, mut removed_keys) = (vec![], vec![], vec![]);
        for (key, value) in &writes {
            match value {
                Some(value) => {
                    set_keys.push(*key);
                    set_values.push(*value);
                }
                None => removed_keys.push(*key),
            }
        }
        let consumed = ConsumedColumns::of(&commit.consumed)?;
        let has_outbox = !commit.outbox.is_empty();
        let entries = has_outbox.then(|| outbox::encode(&commit.outbox));
        let values_bytes: usize = set_values.iter().map(|value| value.len()).sum();
        let bytes = values_bytes + entries.as_ref().map_or(0, Vec::len);
        if bytes > COMMIT_BYTES_MAX {
            let reason = format!(
                "a commit of {bytes} bytes is too large for the shared store, which takes at most {COMMIT_BYTES_MAX}: send or write less in one turn"
            );
            return Err(BusError::Refused { reason });
        }
        let rows = self
            .rows(
                ("a commit", Kind::Writes),
                deadline,
                |statements| &statements.commit,
                &[
                    &commit.bucket.as_str(),
                    &to_i64(commit.epoch),
                    &to_i64(commit.number),
                    &(commit.token as i64),
                    &set_keys,
                    &set_values,
                    &removed_keys,
                    &entries,
                    &to_i64(commit.published),
                    &consumed.queues,
                    &consumed.senders,
                    &consumed.numbers,
                    &consumed.outside_queues,
                    &consumed.outside_ids,
                    &RANGES_MAX,
                ],
            )
            .await?;
        let row = first(&rows)?;
        match row.get::<_, i32>(0) {
            0 => Ok(()),
            // Two who commit in one epoch are as bad as two epochs: this one must stop.
            _ => Err(BusError::Fenced {
                bucket: commit.bucket.clone(),
                given: commit.epoch,
                current: to_u64(row.get(1)),
            }),
        }
    }

    async fn outbox(
        &self,
        bucket: &Name,
        after: Position,
        commits_max: usize,
        timeout: Duration,
    ) -> Result<Vec<OutboxCommit>, BusError> {
        let commits_max = i64::try_from(commits_max).unwrap_or(i64::MAX);
        let rows = self
            .rows(
                ("reading an outbox", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.outbox,
                &[
                    &bucket.as_str(),
                    &to_i64(after.epoch),
                    &to_i64(after.number),
                    &commits_max,
                ],
            )
            .await?;
        let commit = |row: &Row| {
            let entries = outbox::decode(row.get::<_, Vec<u8>>(2).into());
            Ok(OutboxCommit {
                position: Position {
                    epoch: to_u64(row.get(0)),
                    number: to_u64(row.get(1)),
                },
                entries: entries.ok_or_else(|| BusError::Refused {
                    reason: format!(
                        "the outbox of bucket {bucket} in the shared store is damaged or was written by a newer node: upgrade this one"
                    ),
                })?,
            })
        };
        rows.iter().map(commit).collect()
    }

    async fn published(
        &self,
        bucket: &Name,
        through: Position,
        timeout: Duration,
    ) -> Result<(), BusError> {
        self.rows(
            ("marking as published", Kind::Writes),
            Deadline::after(timeout),
            |statements| &statements.published,
            &[
                &bucket.as_str(),
                &to_i64(through.epoch),
                &to_i64(through.number),
            ],
        )
        .await?;
        Ok(())
    }

    async fn abandoned(&self, age: Duration, timeout: Duration) -> Result<Vec<Name>, BusError> {
        let rows = self
            .rows(
                ("looking for outboxes", Kind::Writes),
                Deadline::after(timeout),
                |statements| &statements.abandoned,
                &[&age.as_secs_f64()],
            )
            .await?;
        Ok(rows.iter().filter_map(name).collect())
    }

    async fn consumed(
        &self,
        queue: &Name,
        ids: &[MessageId],
        timeout: Duration,
    ) -> Result<Vec<bool>, BusError> {
        let (mut places, mut senders, mut numbers) = (vec![], vec![], vec![]);
        let (mut outside_places, mut outside_ids) = (vec![], vec![]);
        for (place, id) in (0_i64..).zip(ids) {
            match id {
                MessageId::Ours { sender, number } => {
                    places.push(place);
                    senders.push(sender.as_str());
                    numbers.push(to_i64(*number));
                }
                MessageId::Outside(id) => {
                    outside_places.push(place);
                    outside_ids.push(id.as_bytes());
                }
            }
        }
        let rows = self
            .rows(
                ("looking for consumed messages", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.consumed,
                &[
                    &queue.as_str(),
                    &places,
                    &senders,
                    &numbers,
                    &outside_places,
                    &outside_ids,
                ],
            )
            .await?;
        let mut consumed = vec![false; ids.len()];
        for row in &rows {
            let place = usize::try_from(row.get::<_, i64>(0)).ok();
            if let Some(one) = place.and_then(|place| consumed.get_mut(place)) {
                *one = true;
            }
        }
        Ok(consumed)
    }

    async fn tidy(&self, timeout: Duration) -> Result<(), BusError> {
        let deadline = Deadline::after(timeout);
        let what = ("tidying up", Kind::Writes);
        let senders_kept = self.senders_kept.as_secs_f64();
        let outside_ids_kept = self.outside_ids_kept.as_secs_f64();
        let senders: [&(dyn ToSql + Sync); 1] = [&senders_kept];
        let outside: [&(dyn ToSql + Sync); 1] = [&outside_ids_kept];
        let buckets: [&(dyn ToSql + Sync); 2] = [&senders_kept, &super::OWNERLESS_PREFIX];
        self.rows(what, deadline, |s| &s.tidy_senders, &senders)
            .await?;
        self.rows(what, deadline, |s| &s.tidy_outside, &outside)
            .await?;
        self.rows(what, deadline, |s| &s.tidy_buckets, &buckets)
            .await?;
        Ok(())
    }

    async fn document(&self, of: &Name, timeout: Duration) -> Result<Document, BusError> {
        let rows = self
            .rows(
                ("reading a document", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.document,
                &[&of.as_str()],
            )
            .await?;
        Ok(rows.first().map(|row| document(row, 0)).unwrap_or_default())
    }

    async fn put_document(
        &self,
        name: &Name,
        expected_revision: u64,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Put, BusError> {
        let token = fastrand::i64(..);
        let rows = self
            .rows(
                ("a change of a document", Kind::Writes),
                Deadline::after(timeout),
                |statements| &statements.put_document,
                &[&name.as_str(), &to_i64(expected_revision), &body, &token],
            )
            .await?;
        let row = first(&rows)?;
        let revision = to_u64(row.get(1));
        Ok(match row.get(0) {
            true => Put::Stored(revision),
            false => Put::Conflict(revision),
        })
    }

    async fn documents(
        &self,
        prefix: &str,
        after: Option<&Name>,
        documents_max: usize,
        timeout: Duration,
    ) -> Result<Vec<(Name, Document)>, BusError> {
        let after = after.map_or("", Name::as_str);
        let documents_max = i64::try_from(documents_max).unwrap_or(i64::MAX);
        let rows = self
            .rows(
                ("reading documents", Kind::Reads),
                Deadline::after(timeout),
                |statements| &statements.documents,
                &[&prefix, &after, &documents_max],
            )
            .await?;
        let found = rows
            .iter()
            .filter_map(|row| Some((name(row)?, document(row, 1))));
        Ok(found.collect())
    }
}

/// The name in the first column. Only names are ever written there.
fn name(row: &Row) -> Option<Name> {
    Name::new(row.get(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumed_ids_become_ranges_and_none_may_be_there_twice() {
        let queue = Name::new("q").unwrap();
        let ours = |number| MessageId::parse(&format!("hw:b.1.2.{number}"));
        let outside = MessageId::parse("x");
        let ids = vec![ours(3), ours(1), outside.clone(), ours(2), ours(7)];
        let consumed = [ConsumedIds {
            queue: queue.clone(),
            ids,
        }];
        let columns = ConsumedColumns::of(&consumed).unwrap();
        assert_eq!(columns.queues, ["q"]);
        assert_eq!(columns.senders, ["b.1.2"]);
        assert_eq!(columns.numbers, ["{[1,3],[7,7]}"]);
        assert_eq!(columns.outside_ids, [b"x"]);
        for twice in [ours(5), outside] {
            let ids = vec![twice.clone(), twice];
            let consumed = [ConsumedIds {
                queue: queue.clone(),
                ids,
            }];
            assert!(ConsumedColumns::of(&consumed).is_err());
        }
    }

    #[test]
    fn the_last_write_of_a_key_counts() {
        let set = |value: &'static str| StateWrite::Set {
            key: "k".into(),
            value: value.into(),
        };
        let remove = StateWrite::Remove { key: "k".into() };
        let writes = [set("1"), remove.clone(), set("2")];
        assert_eq!(last_writes(&writes).unwrap()[&b"k"[..]], Some(&b"2"[..]));
        let writes = [set("1"), remove];
        assert_eq!(last_writes(&writes).unwrap()[&b"k"[..]], None);
        let key = vec![0; KEY_BYTES_MAX + 1].into();
        assert!(last_writes(&[StateWrite::Remove { key }]).is_err());
    }
}
