//! Waking workers from outside a turn.
//!
//! What wakes a worker is a message like any other, so it goes where its bucket goes. At most one waits for each scope:
//! whoever wakes notes the scope, and the note goes when the turn begins, or when the message is dropped.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use kernel::worker::{Incoming, Kind, Wake};
use parking_lot::Mutex;

use super::Stage;
use crate::cell::Cell;
use crate::mailbox::Envelope;
use crate::scope::Scope;

/// The scopes for which somebody was woken whose turn has not begun.
#[derive(Default)]
pub(crate) struct Woken(Mutex<HashSet<Scope>>);

impl Woken {
    /// Whether nobody has noted this scope before.
    pub fn note(&self, scope: &Scope) -> bool {
        let mut noted = self.0.lock();
        !noted.contains(scope) && noted.insert(scope.clone())
    }

    /// Whoever wakes from now on does so anew.
    pub fn forget(&self, scope: &Scope) {
        self.0.lock().remove(scope);
    }
}

/// Wakes whoever works on a scope.
struct StageWaker {
    stage: Weak<Stage>,
    scope: Scope,
}

impl Wake for StageWaker {
    fn wake(&self) {
        if let Some(stage) = self.stage.upgrade() {
            stage.wake(&self.scope);
        }
    }
}

impl Stage {
    /// What wakes whoever works on a scope.
    pub fn waker(self: &Arc<Self>, scope: &Scope) -> Arc<dyn Wake> {
        Arc::new(StageWaker {
            stage: Arc::downgrade(self),
            scope: scope.clone(),
        })
    }

    /// Wakes whoever works on a scope now, unless that has been done already.
    pub fn wake(&self, scope: &Scope) {
        // What a worker of a keyed stage does by itself belongs to no bucket, and so to no turn.
        let has_turns = !self.is_keyed() || matches!(scope, Scope::Bucket(_));
        // Whoever is woken again and again would never have nothing left to do.
        let is_here = has_turns && !self.is_stopping() && self.keeps(self.part_of(scope));
        if is_here
            && self.is_native()
            && self.woken.note(scope)
            && !self.push_to(scope, Incoming::woken())
        {
            self.woken.forget(scope);
        }
    }

    /// Wakes whoever works on a scope that has come (back) to it with timers: it may have been in the middle of
    /// something. In memory nothing comes back.
    pub fn wake_if_timed(&self, scope: &Scope) {
        if !self.is_memory() && self.is_native() && self.runtime.alarms.has_timer(self, scope) {
            self.wake(scope);
        }
    }

    /// Wakes a worker that begins anew, for each of its scopes that has timers.
    pub fn wake_timed(&self, cell: &Cell) {
        if self.is_memory() || !self.is_native() || !self.runtime.alarms.has_any(self) {
            return;
        }
        for scope in self.scopes_of(cell) {
            self.wake_if_timed(&scope);
        }
    }

    /// A message is dropped unseen. If it was to wake a worker, the next one may.
    pub fn note_dropped(&self, cell: &Cell, envelope: &Envelope) {
        if envelope.incoming.kind == Kind::Woken {
            self.woken.forget(&cell.scope(envelope.bucket));
        }
    }
}
