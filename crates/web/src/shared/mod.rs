//! Structures to share: a map, a set, a counter, a log and a cache of what was used last.
//!
//! Each can be used in two ways. As an *ordinary state*, under the locks that a handler's `Read`, `Write` and
//! `Key` parameters stand for: what changes a structure then takes `&mut self`, so that the compiler refuses a change
//! in a handler that only reads. Or *concurrently*, by many handlers at the same time and without any of these
//! locks: every step is whole by itself, but others may take theirs in between. What can undo the work of another
//! that way is behind [`Concurrently`], so that it is never done by accident:
//!
//! ```
//! use web::shared::{Counter, Map};
//!
//! let mut stock: Map<&str, u32> = Map::new();
//! stock.insert("apples", 3);
//!
//! // By many at the same time, each with nothing but a `&Map`:
//! let stock = &stock;
//! stock.concurrently().update("apples", |apples| *apples += 1);
//! assert_eq!(stock.get("apples"), Some(4));
//!
//! let visits = Counter::new();
//! visits.add(1);
//! assert_eq!(visits.value(), 1);
//! ```
//!
//! | structure | what it is | bound |
//! |---|---|---|
//! | [`Map`] | keys and values; also one locked key at a time ([`Keyed`]) | what is put into it |
//! | [`Set`] | which values are there | what is put into it |
//! | [`Counter`] | a number that many count at once | 64 bits |
//! | [`Log`] | the latest entries, each with a position; readers wait for what comes next | entries, bytes |
//! | [`Lru`] | a cache that forgets what was not used for longest | entries, bytes |
//!
//! Where clients choose the keys, take [`Lru`], or ask for the length of a map before something is put into it.
//!
//! What these structures deliberately do not do: they know nothing of requests, classes or waiting lines. While one is
//! used concurrently, it must not be locked as an ordinary state on other routes: the service refuses such a mix.

mod concurrent;
mod counter;
mod follower;
mod keyed;
mod log;
mod lru;
mod map;
mod map_entry;
mod set;
mod shards;

pub use concurrent::{Concurrent, Concurrently};
pub use counter::Counter;
pub use follower::{FOLLOW_ENTRIES_MAX, Followed, Follower};
pub use keyed::{Keyed, hash_key};
pub use log::{Batch, Log};
pub use lru::{Lru, LruNumbers};
pub use map::{Map, VALUE_WAIT_MAX};
pub use map_entry::MapEntry;
pub use set::Set;
