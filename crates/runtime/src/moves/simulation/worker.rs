//! A worker that is only simulated. Its mailbox is the real one; it takes batches, fails, and does what it is asked for between
//! two batches, as `cell` does.

use std::collections::VecDeque;

use super::Chance;
use crate::mailbox::{Envelope, Envelopes, Mailbox};
use crate::moves::MoveId;

/// What a worker is asked for.
pub enum Ask {
    Give(MoveId),
    /// Go over to another version; that takes a while.
    Replace,
    Stop,
}

enum Doing {
    Nothing,
    Batch {
        batch: Envelopes,
        until_ms: u64,
    },
    /// It settles what it has begun of a bucket.
    Settling {
        id: MoveId,
        until_ms: u64,
    },
    /// It has taken a bucket out of its mailbox and has not given it yet.
    Giving {
        id: MoveId,
        given: Vec<Envelope>,
        of_first: usize,
    },
    GoingOver {
        until_ms: u64,
    },
}

/// What came of a step.
pub enum Did {
    Nothing,
    Handled(Vec<Envelope>),
    Gave {
        id: MoveId,
        given: Vec<Envelope>,
    },
    /// It forgot that it was asked.
    Forgot(MoveId),
}

pub struct Worker {
    pub mailbox: Mailbox,
    asked: VecDeque<Ask>,
    doing: Doing,
    singles: usize,
    paused_until_ms: u64,
    /// It handles nothing more, but still does what it is asked for.
    has_stopped: bool,
}

impl Worker {
    pub fn new() -> Self {
        Self {
            mailbox: Mailbox::default(),
            asked: VecDeque::new(),
            doing: Doing::Nothing,
            singles: 0,
            paused_until_ms: 0,
            has_stopped: false,
        }
    }

    pub fn ask(&mut self, ask: Ask) {
        self.asked.push_back(ask);
    }

    /// Nothing waits and nothing is in hand.
    pub fn is_idle(&self) -> bool {
        self.is_resting() && self.mailbox.len() == 0
    }

    pub fn has_stopped(&self) -> bool {
        self.has_stopped && self.is_resting()
    }

    fn is_resting(&self) -> bool {
        matches!(self.doing, Doing::Nothing) && self.asked.is_empty()
    }

    /// Every message that it has, in its mailbox or in hand.
    pub fn buckets(&mut self) -> Vec<u32> {
        let mut all = self.mailbox.drain();
        let mut buckets: Vec<u32> = all.iter().map(|e| e.bucket).collect();
        for envelope in all.drain(..) {
            self.mailbox.push(envelope);
        }
        match &mut self.doing {
            Doing::Batch { batch, .. } => {
                let mut same = Envelopes::default();
                while let Some(envelope) = batch.pop() {
                    buckets.push(envelope.bucket);
                    same.push(envelope);
                }
                *batch = same;
            }
            Doing::Giving { given, .. } => buckets.extend(given.iter().map(|e| e.bucket)),
            _ => {}
        }
        buckets
    }

    /// The next thing that it does, if it is time for that.
    pub fn step(&mut self, now_ms: u64, batch_messages_max: usize, chance: &mut Chance) -> Did {
        match std::mem::replace(&mut self.doing, Doing::Nothing) {
            Doing::Batch { batch, until_ms } if until_ms <= now_ms => {
                return self.handle(batch, now_ms, chance);
            }
            Doing::Settling { id, until_ms } if until_ms <= now_ms => {
                if chance.forgets() {
                    return Did::Forgot(id);
                }
                let (given, of_first) = self.mailbox.take_bucket(id.bucket, self.singles);
                self.doing = Doing::Giving {
                    id,
                    given,
                    of_first,
                };
            }
            Doing::Giving {
                id,
                given,
                of_first,
            } => {
                self.singles -= of_first;
                return Did::Gave { id, given };
            }
            Doing::GoingOver { until_ms } if until_ms <= now_ms => {}
            Doing::Nothing => self.begin(now_ms, batch_messages_max, chance),
            not_yet => self.doing = not_yet,
        }
        Did::Nothing
    }

    /// What it gave comes back.
    pub fn put_back(&mut self, messages: Vec<Envelope>) {
        if self.singles > 0 {
            self.singles += messages.len();
        }
        self.mailbox.put_back(messages.into_iter());
    }

    fn begin(&mut self, now_ms: u64, batch_messages_max: usize, chance: &mut Chance) {
        if self.begin_asked(now_ms, chance)
            || self.has_stopped
            || self.paused_until_ms > now_ms
            || self.mailbox.len() == 0
        {
            return;
        }
        let messages_max = match self.singles {
            0 => batch_messages_max,
            _ => 1,
        };
        self.singles = self.singles.saturating_sub(1);
        let mut batch = Envelopes::default();
        self.mailbox.take_batch(messages_max, &mut batch);
        batch.sort_by_bucket();
        self.doing = Doing::Batch {
            batch,
            until_ms: now_ms + chance.takes_ms(),
        };
    }

    /// Whether it was asked for something.
    fn begin_asked(&mut self, now_ms: u64, chance: &mut Chance) -> bool {
        let Some(ask) = self.asked.pop_front() else {
            return false;
        };
        let until_ms = now_ms + chance.takes_ms();
        self.doing = match ask {
            Ask::Give(id) => Doing::Settling { id, until_ms },
            Ask::Replace => Doing::GoingOver { until_ms },
            Ask::Stop => {
                self.has_stopped = true;
                Doing::Nothing
            }
        };
        true
    }

    /// Handles the messages of one bucket; the next one follows later.
    fn handle(&mut self, mut batch: Envelopes, now_ms: u64, chance: &mut Chance) -> Did {
        let Some(bucket) = batch.first_bucket() else {
            return Did::Nothing;
        };
        let mut turn = Vec::new();
        while batch.first_bucket() == Some(bucket)
            && let Some(envelope) = batch.pop()
        {
            turn.push(envelope);
        }
        if chance.fails() {
            // The messages come again one by one, then what was not begun.
            self.paused_until_ms = match turn.len() {
                1 => now_ms + chance.takes_ms(),
                _ => now_ms,
            };
            self.singles += turn.len();
            let rest: Vec<Envelope> = std::iter::from_fn(|| batch.pop()).collect();
            self.mailbox.put_back(rest.into_iter());
            self.mailbox.put_back(turn.into_iter());
            return Did::Nothing;
        }
        if !batch.is_empty() {
            let until_ms = now_ms + chance.takes_ms();
            self.doing = Doing::Batch { batch, until_ms };
        }
        Did::Handled(turn)
    }
}
