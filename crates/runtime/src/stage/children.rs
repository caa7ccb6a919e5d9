//! Children: workers that a worker starts for a task and supervises.

use std::sync::Arc;

use bytes::Bytes;
use kernel::worker::{ChildChange, Incoming, Kind, ReplyTo};
use kernel::{Message, Name};

use super::Stage;
use super::life::{release, wait};
use crate::cell::{Cell, Child, Place};
use crate::control::Control;
use crate::mailbox::Envelope;
use crate::scope::Scope;

/// How many children one stage may have at a time.
const CHILDREN_MAX: usize = 100_000;

impl Stage {
    /// Does what a committed turn asked for.
    pub fn change_child(self: &Arc<Self>, parent: &Arc<Cell>, change: ChildChange) {
        match change {
            ChildChange::Spawn { name, args } => {
                if let Err(reason) = self.spawn_child(parent, &name, args) {
                    tell_end(parent, &name, reason);
                }
            }
            ChildChange::Stop { name } => {
                if let Some(child) = parent.child(&name) {
                    self.end_child(&child, "its parent stopped it");
                }
            }
        }
    }

    fn spawn_child(self: &Arc<Self>, parent: &Cell, name: &str, args: Bytes) -> Result<(), String> {
        if !matches!(parent.place, Place::Worker(_)) {
            return Err("a child cannot have children of its own".into());
        }
        if let Err(error) = parent.address().with_child(name) {
            return Err(error.to_string());
        }
        if self.children.lock().len() >= CHILDREN_MAX {
            return Err(format!("the stage has {CHILDREN_MAX} children already"));
        }
        self.add_child(parent.number(), name, args);
        Ok(())
    }

    /// Makes the place of a child. One of that name that runs already stays.
    pub(super) fn add_child(self: &Arc<Self>, worker: u32, name: &str, args: Bytes) {
        let Ok(name) = Name::new(name) else {
            return;
        };
        let mut children = self.children.lock();
        if children.contains_key(&(worker, name.clone())) {
            return;
        }
        let child = Child {
            worker,
            name: name.clone(),
            args,
        };
        let cell = Cell::new(self.clone(), Place::Child(Box::new(child)), self.version());
        children.insert((worker, name), cell.clone());
        drop(children);
        drop(cell.ask(Control::Start));
        self.listen_for(&cell);
    }

    pub(super) fn child_scope(&self, worker: u32, name: &str) -> Option<Scope> {
        Some(Scope::Child(worker, Name::new(name).ok()?))
    }

    /// A worker has ended itself.
    pub fn end(self: &Arc<Self>, cell: &Arc<Cell>) {
        match &cell.place {
            Place::Child(_) => self.end_child(cell, "its task was done"),
            _ => {
                drop(cell.ask(|done| Control::Stop {
                    for_good: true,
                    done,
                }));
            }
        }
    }

    /// Ends a child: its own `stop` runs, its state is removed, and its parent is told.
    fn end_child(self: &Arc<Self>, child: &Arc<Cell>, why: &'static str) {
        let Place::Child(place) = &child.place else {
            return;
        };
        let key = (place.worker, place.name.clone());
        if self.children.lock().remove(&key).is_none() {
            return;
        }
        let (stage, child) = (self.clone(), child.clone());
        self.runtime.tokio.spawn(async move {
            if let Err(failure) = wait(child.ask(Control::End)).await {
                tracing::warn!(child = %child.address(), reason = %failure, "a child did not end in order");
            }
            stage.forget(&child).await;
            let Place::Child(place) = &child.place else {
                return;
            };
            let parent = stage.cell_of(&Scope::Worker(place.worker));
            if let Some(parent) = parent {
                tell_end(&parent, place.name.as_str(), why.into());
            }
        });
    }

    /// What is left of a child: its messages go back, its queue is read no more.
    async fn forget(&self, child: &Arc<Cell>) {
        self.count_turns_of(child);
        release(child.retire());
        self.woken.forget(&child.scope(0));
        self.stop_listening_for(child).await;
    }
}

/// Tells a worker that a child has ended.
fn tell_end(parent: &Arc<Cell>, name: &str, why: String) {
    let incoming = Incoming {
        message: Message::new(why),
        value: None,
        kind: Kind::ChildEnded(name.into()),
        reply_to: ReplyTo::Headers,
        tries: 0,
    };
    parent.push(Envelope::local(incoming, 0));
}
