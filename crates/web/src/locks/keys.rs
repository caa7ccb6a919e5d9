//! The locks of keys. A lock exists only while somebody holds it or waits for it, so there are never more than what is under way.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::line::Line;
use super::numbers::Counts;
use super::plan::LockId;
use super::request::{HandedOver, Request};
use super::sync::{KEY_SHARDS, Mutex, MutexGuard};

/// A shard that had to grow is made small again when this many times its locks would fit.
const ROOM_TIMES_MAX: usize = 16;
/// Below this much room nothing is made smaller.
const ROOM_KEPT: usize = 64;

/// A key of a state, and how it is wanted.
#[derive(Clone, Copy)]
pub(super) struct KeyWant {
    pub lock: LockId,
    pub key: u64,
    pub writes: bool,
}

/// All locks of keys.
pub(super) struct Keys {
    shards: Box<[Mutex<Shard>]>,
    /// Makes it unknown outside which keys meet in one shard.
    seed: u64,
}

/// Some of the locks of keys.
#[derive(Default)]
pub(super) struct Shard {
    locks: HashMap<(LockId, u64), KeyLock, BuildHasherDefault<Scattered>>,
}

/// The lock of one key. All of it is under the mutex of its shard.
struct KeyLock {
    readers: usize,
    writer: bool,
    line: Line<bool>,
}

impl Keys {
    pub fn new() -> Self {
        let shards = (0..KEY_SHARDS).map(|_| Mutex::new(Shard::default()));
        Self {
            shards: shards.collect(),
            seed: fastrand::u64(..),
        }
    }

    /// In which shard the lock of a key is. Mutexes of shards are taken in this order.
    pub fn shard_of(&self, want: KeyWant) -> usize {
        (scatter(self.seed, want.lock, want.key) >> 32) as usize & (KEY_SHARDS - 1)
    }

    pub fn shard(&self, place: usize) -> MutexGuard<'_, Shard> {
        self.shards[place].lock()
    }

    /// Takes it if it is free and nobody waits.
    pub fn take(&self, want: KeyWant) -> bool {
        self.shard(self.shard_of(want)).take(want)
    }

    /// Releases it and hands it to those whose turn it is.
    pub fn release(&self, want: KeyWant, counts: &Counts, handed_over: &mut HandedOver<'_>) {
        let mut shard = self.shard(self.shard_of(want));
        shard.withdraw(want, None, counts, handed_over);
    }

    /// How many locks of keys exist now.
    pub fn len(&self) -> usize {
        let shards = self.shards.iter();
        shards.map(|shard| shard.lock().locks.len()).sum()
    }
}

impl Shard {
    fn take(&mut self, want: KeyWant) -> bool {
        match self.locks.entry((want.lock, want.key)) {
            Entry::Vacant(vacant) => {
                vacant.insert(KeyLock::new()).add(want.writes);
                true
            }
            Entry::Occupied(mut occupied) => {
                let lock = occupied.get_mut();
                let is_free = lock.line.is_empty() && lock.is_open(want.writes);
                if is_free {
                    lock.add(want.writes);
                }
                is_free
            }
        }
    }

    /// Gives the request its place: it has the lock at once if nobody waits and it is free, or joins the line.
    pub fn place(
        &mut self,
        want: KeyWant,
        request: &Arc<Request>,
        counts: &Counts,
        handed_over: &mut HandedOver<'_>,
    ) {
        if self.take(want) {
            handed_over.granted(request.clone());
        } else if let Some(lock) = self.locks.get_mut(&(want.lock, want.key)) {
            counts.joined();
            lock.line.join(want.writes, request.clone());
        }
    }

    /// Takes the one with this ticket out of the line, or releases what it has been granted already (as do all who have no
    /// ticket), and hands over what becomes free.
    pub fn withdraw(
        &mut self,
        want: KeyWant,
        ticket: Option<u64>,
        counts: &Counts,
        handed_over: &mut HandedOver<'_>,
    ) {
        let Entry::Occupied(mut occupied) = self.locks.entry((want.lock, want.key)) else {
            return;
        };
        let lock = occupied.get_mut();
        match ticket.and_then(|ticket| lock.line.leave(ticket)) {
            Some(_) => counts.left(),
            None => lock.remove(want.writes),
        }
        lock.hand_over(counts, handed_over);
        if lock.is_unused() {
            occupied.remove();
            self.give_room_back();
        }
    }

    fn give_room_back(&mut self) {
        let room = self.locks.capacity();
        if room > ROOM_KEPT && room / ROOM_TIMES_MAX > self.locks.len() {
            self.locks.shrink_to(ROOM_KEPT / 2);
        }
    }
}

impl KeyLock {
    fn new() -> Self {
        Self {
            readers: 0,
            writer: false,
            line: Line::new(),
        }
    }

    fn is_open(&self, writes: bool) -> bool {
        !self.writer && (self.readers == 0 || !writes)
    }

    fn add(&mut self, writes: bool) {
        match writes {
            true => self.writer = true,
            false => self.readers += 1,
        }
    }

    fn remove(&mut self, writes: bool) {
        match writes {
            true => self.writer = false,
            false => self.readers -= 1,
        }
    }

    fn hand_over(&mut self, counts: &Counts, handed_over: &mut HandedOver<'_>) {
        while let Some(first) = self.line.first()
            && self.is_open(first.how)
            && let Some(waiter) = self.line.take_first()
        {
            self.add(waiter.how);
            handed_over.had_turn(waiter.request, counts);
        }
    }

    fn is_unused(&self) -> bool {
        !self.writer && self.readers == 0 && self.line.is_empty()
    }
}

/// Mixes a key with what nobody outside knows. Keys are hashes already, so one multiplication will do.
fn scatter(seed: u64, lock: LockId, key: u64) -> u64 {
    let wide =
        u128::from(key ^ seed) * u128::from(0x9E37_79B9_7F4A_7C15 ^ (u64::from(lock.0) << 32));
    (wide >> 64) as u64 ^ wide as u64
}

/// Hashes what is in one shard: keys are hashes already.
#[derive(Default)]
struct Scattered(u64);

impl Hasher for Scattered {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let wide = u128::from(self.0 ^ number) * u128::from(0x9E37_79B9_7F4A_7C15_u64);
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}
