//! What changes in a simulated stage while messages flow: buckets move, workers come and go, it is replaced, and it ends.

use std::collections::VecDeque;
use std::time::Instant;

use super::book::bucket_of_key;
use super::worker::{Ask, Worker};
use super::world::{KEYS, WORKERS_MAX, World};
use super::{Ending, Fault};
use crate::moves::{Event, GIVE_MAX, MoveId, Moves, ROUND};
use crate::table::Table;

/// A bucket that somebody waits for.
pub struct Wanted {
    pub id: MoveId,
    pub until: Instant,
    /// The stage changes its size.
    pub is_resize: bool,
}

/// The stage changes its size.
pub struct Resize {
    pub workers: u32,
    pub moves: VecDeque<(u32, u32)>,
    pub has_failed: bool,
}

impl World {
    /// Somebody wants a bucket to move.
    pub(super) fn want(&mut self) -> Result<(), String> {
        if self.has_ended || !self.chance.wants() {
            return Ok(());
        }
        let bucket = bucket_of_key(self.chance.random.u32(0..KEYS));
        let to = self.chance.random.u32(0..=self.workers.len() as u32);
        if self.fault == Fault::Unasked {
            let to = to % self.workers.len() as u32;
            self.moves.move_wrongly(bucket, to);
            return Ok(());
        }
        self.begin_move(bucket, to, false)
    }

    fn begin_move(&mut self, bucket: u32, to: u32, is_resize: bool) -> Result<(), String> {
        let owner = self.moves.table().owner(bucket) as usize;
        let waiting = match self.fault {
            Fault::WaitingForgotten => 0,
            _ => self.workers[owner].mailbox.len() as u32,
        };
        let wanted = Event::Wanted {
            bucket,
            to,
            waiting,
        };
        let (before, stayed) = (self.wanted.len(), self.outcome.stayed);
        self.event("wanted", wanted, None)?;
        if let Some(wanted) = self.wanted.get_mut(before) {
            wanted.is_resize = is_resize;
        }
        if let Some(resize) = &mut self.resize {
            resize.has_failed |= is_resize && self.outcome.stayed > stayed;
        }
        Ok(())
    }

    /// Those who wait for a bucket learn that it does not come, or look at the clock.
    pub(super) fn wait(&mut self) -> Result<(), String> {
        if self.is_stopping && !self.chance.is_looking() {
            return Ok(());
        }
        if self.chance.is_learned()
            && let Some(id) = self.forgotten.pop()
        {
            self.outcome.gone += 1;
            return self.event("gone", Event::Gone { id }, None);
        }
        let now = self.now();
        let is_overdue = |wanted: &Wanted| wanted.until <= now;
        match self.wanted.iter().find(|wanted| is_overdue(wanted)) {
            Some(Wanted { id, .. }) => {
                let id = *id;
                self.event("waited", Event::Waited { id }, None)
            }
            None => Ok(()),
        }
    }

    /// The stage begins to change its size, or goes on with it: some buckets at a time.
    pub(super) fn change_size(&mut self) -> Result<(), String> {
        if self.is_stopping {
            self.resize = None;
            return Ok(());
        }
        let Some(resize) = &mut self.resize else {
            if !self.chance.is_calm {
                self.begin_resize()?;
            }
            return Ok(());
        };
        if self.wanted.iter().any(|wanted| wanted.is_resize) {
            return Ok(());
        }
        if resize.has_failed {
            self.resize = None;
            return Ok(());
        }
        let round = ROUND.min(resize.moves.len());
        let round: Vec<(u32, u32)> = resize.moves.drain(..round).collect();
        if round.is_empty() {
            let workers = resize.workers;
            self.resize = None;
            if workers < self.workers.len() as u32 {
                return self.event("removed", Event::Removed { workers }, None);
            }
        }
        for (bucket, to) in round {
            self.begin_move(bucket, to, true)?;
        }
        Ok(())
    }

    fn begin_resize(&mut self) -> Result<(), String> {
        let now = self.workers.len() as u32;
        let change = self.chance.random.u32(0..=4);
        let workers = (now + change).saturating_sub(2).clamp(1, WORKERS_MAX);
        if workers > self.workers.len() as u32 {
            self.workers.resize_with(workers as usize, Worker::new);
            self.event("added", Event::Added { workers }, None)?;
        }
        self.resize = Some(Resize {
            workers,
            moves: self.moves.moves_for(workers).into(),
            has_failed: false,
        });
        Ok(())
    }

    /// Workers go over to another version, one after another.
    pub(super) fn replace(&mut self) {
        if !self.chance.is_calm && !self.is_stopping {
            self.outcome.replaced += 1;
            self.workers.iter_mut().for_each(|w| w.ask(Ask::Replace));
        }
    }

    /// The stage ends, if it is to: first everybody stops, then what is left is taken to the next one, if there is one.
    pub(super) fn end(&mut self) -> Result<(), String> {
        if self.has_ended || !self.ending.is_due(self.now_ms) {
            return Ok(());
        }
        if !self.is_stopping {
            self.is_stopping = true;
            self.event("stopping", Event::Stopping, None)?;
            self.workers.iter_mut().for_each(|w| w.ask(Ask::Stop));
            return Ok(());
        }
        if !self.workers.iter().all(Worker::has_stopped) {
            return Ok(());
        }
        self.event("ended", Event::Ended, None)?;
        self.forgotten.clear();
        let wanted = std::mem::take(&mut self.wanted);
        for Wanted { id, .. } in wanted {
            let late = self.moves.step(Event::Waited { id }, self.now() + GIVE_MAX);
            if !late.is_empty() {
                return Err("a bucket was on its way after the end".into());
            }
        }
        self.resize = None;
        self.has_ended = self.ending.is_for_good();
        if !self.has_ended {
            self.outcome.built_anew += 1;
            self.is_stopping = false;
            let workers = self.chance.random.u32(1..=WORKERS_MAX);
            self.moves = Moves::new(Table::new(workers), workers);
            self.workers.resize_with(workers as usize, Worker::new);
            self.ending = Ending::Never;
        }
        Ok(())
    }
}
