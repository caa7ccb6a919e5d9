//! The durable log of the broker: records are appended in memory, written and synced in batches, and found again
//! after a crash.
//!
//! The main type is [`Journal`]. A record is a few bytes without meaning here; it is acknowledged to the
//! outside only when [`Journal::durable`] has passed its [`Position`].
//!
//! ```
//! use std::sync::Arc;
//! use hivewire_journal::{Journal, Options, testing::MemoryStorage};
//!
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! // On a real disk: DiskStorage::open("data/journal")?
//! let storage = MemoryStorage::new(1);
//! let (journal, _) = Journal::open(Arc::new(storage.clone()), Options::default(), &mut |_, _| {})?;
//! let position = journal.append(&[b"hello, ", b"world"], 1)?;
//! journal.wait(position).await?;
//! journal.shutdown()?;
//!
//! let mut found = Vec::new();
//! Journal::open(Arc::new(storage), Options::default(), &mut |_, record| found.push(record.to_vec()))?;
//! assert_eq!(found, [b"hello, world"]);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! What holds:
//! - A record at or before [`Journal::durable`] survives loss of power. After a failed write or sync nothing is
//!   ever reported durable again.
//! - Every flipped bit and every missing or shortened segment is reported as damage or, in unused bytes, harms no record. One case cannot be told
//!   apart from a crash: damage in the very last batch of a journal that was not shut down.
//! - A batch is recovered whole or not at all; records come back in the order of appending.
//! - A full disk refuses records, and the journal goes on by itself when there is space.
//!
//! What it deliberately does not do: it knows nothing of what records mean, keeps no index, does not
//! rewrite old records to free segments (the caller appends them anew and releases the old ones), and does not repair
//! damage.

mod counters;
mod disk;
mod error;
mod format;
mod housekeeper;
mod journal;
mod options;
mod pending;
mod position;
mod recovery;
mod scan;
mod segment;
mod shared;
mod storage;
pub mod testing;
mod writer;

pub use counters::Counters;
pub use disk::DiskStorage;
pub use error::{AppendError, JournalFailed, OpenError, ReadError, StorageError};
pub use journal::Journal;
pub use options::{Options, Sync};
pub use pending::Appender;
pub use position::{Durable, Position};
pub use recovery::{Recovery, TornTail};
pub use segment::SegmentInfo;
pub use storage::{Storage, StorageFile};
