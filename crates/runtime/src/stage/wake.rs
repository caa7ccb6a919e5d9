//! Waking a worker from outside a turn.

use std::sync::{Arc, Weak};

use kernel::Message;
use kernel::worker::{Incoming, Kind, Wake};

use super::Stage;
use crate::mailbox::Envelope;
use crate::scope::Scope;

/// Wakes whoever has a scope.
pub(crate) struct ScopeWaker {
    stage: Weak<Stage>,
    scope: Scope,
}

impl ScopeWaker {
    pub fn new(stage: &Arc<Stage>, scope: Scope) -> Self {
        Self {
            stage: Arc::downgrade(stage),
            scope,
        }
    }
}

impl Wake for ScopeWaker {
    fn wake(&self) {
        if let Some(stage) = self.stage.upgrade() {
            stage.wake(&self.scope);
        }
    }
}

impl Stage {
    /// Wakes whoever has a scope, if it is here.
    pub(crate) fn wake(&self, scope: &Scope) {
        let incoming = Incoming {
            kind: Kind::Woken,
            ..Incoming::new(Message::default())
        };
        self.push_to_scope(scope, incoming);
    }

    /// Puts a message from within this process into the mailbox of whoever has a scope, whether there is room or not.
    pub(crate) fn push_to_scope(&self, scope: &Scope, incoming: Incoming) {
        match scope {
            Scope::Bucket(bucket) => {
                let envelope = Envelope::local(incoming, *bucket);
                self.push_to_bucket(*bucket, std::iter::once(envelope));
            }
            scope => {
                if let Some(cell) = self.cell_of(scope) {
                    cell.push(Envelope::local(incoming, 0));
                }
            }
        }
    }
}
