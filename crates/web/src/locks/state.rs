//! The lock of one state: its word, and the line of those who wait for it.
//!
//! Why no hand-over is lost: whoever joins the line sets `QUEUED` in the word, and only then looks at it once more; whoever
//! releases takes itself out of the word, and sees in the same step whether `QUEUED` is set. Both are steps on one word, so
//! they have an order. If the release came first, the second look finds the lock free. If it came second, it sees `QUEUED`
//! and goes for the mutex, which it gets when the one who joins is done. `QUEUED` is changed only under the mutex, and is set
//! exactly while the line is not empty.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::line::Line;
use super::numbers::{Counts, LockNumbers};
use super::request::{HandedOver, Request};
use super::sync::{AtomicU64, Mutex, MutexGuard};
use super::word::{self, COUNT_ONE, Kind, QUEUED};
use std::sync::Arc;

/// The lock of one state. It has cache lines of its own, so that neighbours do not slow each other down.
#[repr(align(128))]
pub(super) struct State {
    word: AtomicU64,
    line: Mutex<Line<Kind>>,
    pub counts: Counts,
}

impl State {
    pub fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            line: Mutex::new(Line::new()),
            counts: Counts::default(),
        }
    }

    /// Takes it if it is free and nobody waits. Gives how often it was taken so far.
    #[inline]
    pub fn take(&self, kind: Kind) -> Option<u64> {
        self.add(kind.unit() + COUNT_ONE, |word| word::is_free(word, kind))
    }

    /// Adds this to the word if it may.
    ///
    /// `Acquire`: what those did who held it before is seen by who takes it now. They released by steps on the same word, and
    /// steps of others in between carry that on. Nothing of the taker's own has to be seen by others yet.
    #[inline]
    fn add(&self, change: u64, may: impl Fn(u64) -> bool) -> Option<u64> {
        let mut word = self.word.load(Relaxed);
        loop {
            if !may(word) {
                return None;
            }
            let (next, wraps) = word.overflowing_add(change);
            match self
                .word
                .compare_exchange_weak(word, next, Acquire, Relaxed)
            {
                Ok(_) if wraps => return Some(self.counts_anew(next)),
                Ok(_) => return Some(word::count(next)),
                Err(changed) => word = changed,
            }
        }
    }

    #[cold]
    fn counts_anew(&self, word: u64) -> u64 {
        self.counts.wraps.fetch_add(1, Relaxed);
        word::count(word)
    }

    /// Releases it. If somebody waits, [`State::pass_on`] has to follow.
    ///
    /// `Release`: what its holder did, also reading, is over for whoever takes it next.
    #[inline]
    #[must_use]
    pub fn release(&self, kind: Kind) -> bool {
        self.word.fetch_sub(kind.unit(), Release) & QUEUED != 0
    }

    /// Releases what was taken in vain, so that it does not count as taken. If somebody waits, [`State::pass_on`] has to follow.
    #[must_use]
    pub fn give_back(&self, kind: Kind) -> bool {
        self.counts.given_back.fetch_add(1, Relaxed);
        self.release(kind)
    }

    /// The line, which nobody else changes meanwhile.
    pub fn line(&self) -> MutexGuard<'_, Line<Kind>> {
        self.line.lock()
    }

    /// Hands it to those whose turn it is, after a release.
    pub fn pass_on(&self, handed_over: &mut HandedOver<'_>) {
        self.hand_over(&mut self.line(), handed_over);
    }

    /// Hands it to those whose turn it is: one who writes, or all up to the next one who does.
    pub fn hand_over(&self, line: &mut Line<Kind>, handed_over: &mut HandedOver<'_>) {
        while let Some(first) = line.first() {
            let kind = first.how;
            if self
                .add(kind.unit(), |word| word::is_open(word, kind))
                .is_none()
            {
                // Whoever holds it now sees `QUEUED` when it releases.
                return;
            }
            if let Some(waiter) = line.take_first() {
                handed_over.had_turn(waiter.request, &self.counts);
            }
        }
        // `Relaxed` will do: who takes it by seeing this also sees, by the chain of steps on the word, all earlier releases.
        self.word.fetch_and(!QUEUED, Relaxed);
    }

    /// Gives the request its place: it has the lock at once if nobody waits and it is free, or joins the line.
    pub fn place(
        &self,
        kind: Kind,
        request: &Arc<Request>,
        line: &mut Line<Kind>,
        handed_over: &mut HandedOver<'_>,
    ) {
        if line.is_empty() && self.take(kind).is_some() {
            handed_over.granted(request.clone());
            return;
        }
        self.counts.joined();
        line.join(kind, request.clone());
        // `Relaxed` will do: the order of steps on this one word is all that is needed, and the line is guarded by its mutex.
        self.word.fetch_or(QUEUED, Relaxed);
        // It may have been released before others could see that somebody waits.
        self.hand_over(line, handed_over);
    }

    /// Takes the request out of the line, or releases what it has been granted already, and hands over what becomes free.
    pub fn withdraw(
        &self,
        kind: Kind,
        ticket: u64,
        line: &mut Line<Kind>,
        handed_over: &mut HandedOver<'_>,
    ) {
        let somebody_waits = match line.leave(ticket) {
            Some(_) => {
                self.counts.left();
                true
            }
            None => self.release(kind),
        };
        if somebody_waits {
            self.hand_over(line, handed_over);
        }
    }

    pub fn numbers(&self) -> LockNumbers {
        let word = self.word.load(Relaxed);
        self.counts.numbers(word::count(word), word::is_held(word))
    }
}
