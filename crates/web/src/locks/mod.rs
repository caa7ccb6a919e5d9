//! Locks of shared state: all of a request at once, first come, first served, and no thread waits.
//!
//! What a request locks is known before it runs, as a [`Plan`]. If all of it is free, each lock is taken in one atomic step. If
//! not, the request is given its place in the lines of all that it wants, in one step, and is told when it has its turn. A
//! release hands the lock to the next in line: to one who writes, or to all who read up to the next one who writes.
//!
//! ```
//! use web::locks::{LocksBuilder, Mode, Plan, Want};
//!
//! let mut builder = LocksBuilder::new();
//! let cache = builder.add("cache");
//! let locks = builder.build(1_000);
//! let plan = Plan::new([Want { lock: cache, mode: Mode::Write, key: None }])?;
//!
//! let taken = locks.try_take(&plan).expect("nobody holds it");
//! let parked = locks.take_or_park(&plan, |taken| {
//!     // Usually: hand `taken` and the work to a thread that runs handlers.
//!     drop(taken);
//! })?;
//! assert!(parked.is_waiting());
//! drop(taken);
//! assert!(!parked.is_waiting());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - **Conflicts.** Who writes a state or a key holds it alone; those who read share it. A [`Want`] with a key locks this key,
//!   and holds the whole against those who want all of it.
//! - **First come, first served**, for each state and each key: nobody who comes later is given a lock before somebody who waits for
//!   it. Readers who come after a waiting writer queue behind it, and who comes when somebody waits does not try its luck.
//! - **No deadlock.** Whoever has locks already and waits for more has all its places, and they were given in one step. So among those
//!   who wait, each waits only for earlier ones. Who tries without a place gives back what it has as soon as something is not
//!   free, and never waits.
//! - **A bound on waiting.** For whom a request waits is settled when it takes its places: for those who hold or have a place in one of
//!   its lines, and for those for whom they wait in turn; all of them came before. So at the latest it has all its locks when each
//!   request that came before it, at most all that hold and `waiting_max` that waited, has been told and has released
//!   its locks. Whatever comes later never adds to this.
//! - **Bounded memory.** At most `waiting_max` requests wait, more are refused. The lock of a key exists only while it is held or
//!   waited for.
//!
//! # What it does not do
//!
//! It keeps no state, knows no handler and no time limit: who waits too long is cancelled by its caller ([`Parked::cancel`]). It has no thread.
//! Nothing stops a holder that does not come to an end.
//!
//! # Its parts
//!
//! `word` says who may hold a state, in one number; `state` changes it atomically and has the line of those who wait; `keys` is the
//! table of keys; `plan` is what is wanted, in order; `request` is who waits and how it is told; `locks` puts them together.
//! There is no unsafe code.

mod keys;
mod line;
#[expect(clippy::module_inception, reason = "the type of this name lives there")]
mod locks;
mod numbers;
mod plan;
mod request;
mod state;
mod sync;
mod taken;
mod word;

pub use locks::{LOCKS_MAX, Locks, LocksBuilder};
pub use numbers::{BUCKETS, Histogram, LockNumbers};
pub(crate) use numbers::{SAMPLED, Times, is_sampled};
pub use plan::{LockId, Mode, Plan, PlanError, WANTS_MAX, Want};
pub use taken::{Overloaded, Parked, Taken};
