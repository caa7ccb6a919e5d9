//! The part of a stage that this node has, where other nodes have the rest.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bus::{BusError, Owner};
use kernel::Name;
use kernel::descriptor::PluginKind;
use parking_lot::RwLock;

use super::Stage;
use super::life::{release, wait};
use crate::control::Control;
use crate::error::ShareError;
use crate::key::BUCKETS;
use crate::scope::Scope;
use crate::spec::StageKind;

/// One share of a stage: what has one owner at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// A bucket of a keyed stage.
    Bucket(u32),
    /// The queue of a keyed stage where those publish who do not know its buckets.
    Entrance,
    /// A worker of a stage that is not keyed.
    Worker(u32),
    /// The owner of a routed stage.
    Owner,
}

impl StageKind {
    /// All shares of a stage of this kind, in an order that never changes.
    pub fn parts(&self, workers: u32) -> Vec<Part> {
        let workers = (0..workers).map(Part::Worker);
        match self {
            Self::Keyed(_) => {
                let buckets = (0..BUCKETS).map(Part::Bucket);
                buckets.chain([Part::Entrance]).collect()
            }
            Self::Pool(_) => workers.collect(),
            Self::Routed(_) => [Part::Owner].into_iter().chain(workers).collect(),
        }
    }
}

impl Part {
    fn scope(self) -> Scope {
        match self {
            Self::Bucket(bucket) => Scope::Bucket(bucket),
            Self::Worker(worker) => Scope::Worker(worker),
            // An entrance keeps no state, but it has an epoch.
            Self::Entrance | Self::Owner => Scope::Owner,
        }
    }
}

/// The shares that this node has, each with its epoch.
#[derive(Default)]
pub(crate) struct Shares {
    held: RwLock<HashMap<Part, u64>>,
    /// Those that are let go: what is in hand is finished, and nothing is begun.
    leaving: RwLock<HashSet<Part>>,
}

impl Shares {
    pub fn holds(&self, part: Part) -> bool {
        self.held.read().contains_key(&part)
    }

    pub fn epoch(&self, part: Part) -> Option<u64> {
        self.held.read().get(&part).copied()
    }

    fn list(&self) -> HashSet<Part> {
        self.held.read().keys().copied().collect()
    }
}

impl Stage {
    /// Whether other nodes have parts of this stage.
    pub fn is_shared(&self) -> bool {
        self.shares.is_some()
    }

    /// All parts of the stage.
    pub fn parts(&self) -> Vec<Part> {
        match self.is_memory() {
            true => Vec::new(),
            false => self.kind.parts(self.workers_count()),
        }
    }

    /// The parts that this node has of a shared stage.
    pub fn held(&self) -> Vec<Part> {
        let shares = self.shares.iter();
        let mut held: Vec<Part> = shares.flat_map(Shares::list).collect();
        held.sort();
        held
    }

    /// The places among all parts that belong to a worker.
    pub fn parts_of(&self, worker: u32) -> Vec<u32> {
        let belongs = |part: &Part| match part {
            Part::Bucket(bucket) => self.moves.read().table().owner(*bucket) == worker,
            Part::Worker(number) => *number == worker,
            Part::Entrance | Part::Owner => false,
        };
        let numbered = (0..).zip(self.parts());
        let own = numbered.filter(|(_, part)| belongs(part));
        own.map(|(place, _)| place).collect()
    }

    /// Whether this node has this part.
    pub fn holds(&self, part: Part) -> bool {
        self.shares.as_ref().is_none_or(|shares| shares.holds(part))
    }

    /// Whether this node has the part that a scope belongs to.
    pub fn holds_scope(&self, scope: &Scope) -> bool {
        self.holds(self.part_of(scope))
    }

    /// Whether this node has this part and keeps it.
    pub(super) fn keeps(&self, part: Part) -> bool {
        let keeps = |shares: &Shares| shares.holds(part) && !shares.leaving.read().contains(&part);
        self.shares.as_ref().is_none_or(keeps)
    }

    /// Whether this node has a worker.
    pub(super) fn holds_any_worker(&self) -> bool {
        let Some(shares) = &self.shares else {
            return true;
        };
        let is_worker = |part: &Part| matches!(part, Part::Worker(_));
        shares.list().iter().any(is_worker)
    }

    /// The part that a scope belongs to.
    pub(super) fn part_of(&self, scope: &Scope) -> Part {
        match scope {
            Scope::Bucket(bucket) => Part::Bucket(*bucket),
            Scope::Worker(worker) | Scope::Child(worker, _) => Part::Worker(*worker),
            Scope::Owner if self.is_keyed() => Part::Entrance,
            Scope::Owner => Part::Owner,
        }
    }

    /// The owner of a scope by what this node has taken. None if it raises epochs itself: as the only
    /// node, or for a child, which goes where its parent goes.
    pub fn shared_owner(&self, scope: &Scope) -> Option<Result<Owner, BusError>> {
        let shares = self.shares.as_ref()?;
        if matches!(scope, Scope::Child(..)) {
            return None;
        }
        let bucket = scope.bucket(&self.address);
        Some(match shares.epoch(self.part_of(scope)) {
            Some(epoch) => Ok(Owner { bucket, epoch }),
            None => Err(fenced(bucket)),
        })
    }

    /// Takes a part: raises its epoch, so that whoever had it can commit nothing any more, brings back what
    /// was pending, and begins to pull.
    pub async fn take(self: &Arc<Self>, part: Part, timeout: Duration) -> Result<u64, ShareError> {
        let _changing = self.changing.lock().await;
        let shares = self.shares.as_ref().ok_or(ShareError::NotShared)?;
        if let Some(epoch) = shares.epoch(part) {
            return Ok(epoch);
        }
        let scope = part.scope();
        let bucket = scope.bucket(&self.address);
        let raised = self.runtime.bus.raise_epoch(&bucket, timeout).await;
        let epoch = raised.map_err(ShareError::Bus)?;
        if part != Part::Entrance {
            self.restore_part(&scope).await?;
        }
        shares.held.write().insert(part, epoch);
        if let Part::Worker(_) | Part::Owner = part
            && let Some(cell) = self.cell_of(&scope)
        {
            cell.control(Control::Resume);
            if self.version().code.info().kind == PluginKind::Provider {
                // No message wakes it.
                drop(cell.ask(Control::Start));
            }
        }
        self.wake_if_timed(&scope);
        self.start_intakes();
        Ok(epoch)
    }

    /// Raises the epoch of a part that this node has, so that nothing can be committed any more that was on its way. A child is no
    /// part: its worker raises its epoch itself.
    pub async fn raise_again(&self, scope: &Scope, timeout: Duration) -> Result<(), BusError> {
        if matches!(scope, Scope::Child(..)) {
            return Ok(());
        }
        let part = self.part_of(scope);
        let Some(shares) = self.shares.as_ref().filter(|shares| shares.holds(part)) else {
            return Ok(());
        };
        let bucket = scope.bucket(&self.address);
        let raised = self.runtime.bus.raise_epoch(&bucket, timeout).await?;
        if let Some(epoch) = shares.held.write().get_mut(&part) {
            *epoch = raised.max(*epoch);
        }
        Ok(())
    }

    /// Brings back what the state says of a scope: timers, pending asks, children.
    async fn restore_part(self: &Arc<Self>, scope: &Scope) -> Result<(), ShareError> {
        let restored = async {
            self.restore_scope(scope).await?;
            match scope {
                Scope::Worker(number) => self.restore_children(*number).await,
                _ => Ok(()),
            }
        };
        restored.await.map_err(|error| ShareError::Restore {
            reason: error.to_string(),
        })
    }

    /// Lets go of a part: stops pulling, finishes and commits what is in hand, and forgets the rest.
    pub async fn release(self: &Arc<Self>, part: Part) -> Result<(), ShareError> {
        let _changing = self.changing.lock().await;
        let shares = self.shares.as_ref().ok_or(ShareError::NotShared)?;
        if !shares.holds(part) {
            return Ok(());
        }
        shares.leaving.write().insert(part);
        self.stop_pulling(part).await;
        let scope = part.scope();
        let left = match part {
            Part::Entrance => Ok(()),
            Part::Bucket(bucket) => match self.cell_of(&scope) {
                Some(cell) => wait(cell.ask(|done| Control::Leave { bucket, done })).await,
                None => Ok(()),
            },
            Part::Worker(_) | Part::Owner => match self.cell_of(&scope) {
                Some(cell) => {
                    let for_good = false;
                    wait(cell.ask(|done| Control::Stop { for_good, done })).await
                }
                None => Ok(()),
            },
        };
        self.forget_part(part);
        left.map_err(|failure| ShareError::Leave {
            reason: failure.reason,
        })
    }

    /// Another node has taken a part of this one: what is in hand comes again there.
    pub fn lose(self: &Arc<Self>, scope: &Scope) {
        let Some(shares) = &self.shares else {
            return;
        };
        let part = self.part_of(scope);
        if !shares.holds(part) {
            return;
        }
        self.forget_part(part);
        self.runtime.note_lost(&self.address, part);
        let stage = self.clone();
        self.runtime
            .tokio
            .spawn(async move { stage.stop_pulling(part).await });
    }

    /// What this node knew of a part no longer counts.
    fn forget_part(self: &Arc<Self>, part: Part) {
        if let Some(shares) = &self.shares {
            shares.held.write().remove(&part);
            shares.leaving.write().remove(&part);
        }
        let scope = part.scope();
        if part != Part::Entrance {
            self.runtime.alarms.cancel_all(self, &scope);
        }
        if let Part::Worker(_) | Part::Owner = part
            && let Some(cell) = self.cell_of(&scope)
        {
            cell.put_aside();
            release(cell.take_waiting());
            self.woken.forget(&scope);
        }
        self.room.notify(usize::MAX);
    }

    /// Pulls nothing more for this part.
    async fn stop_pulling(&self, part: Part) {
        match part {
            Part::Bucket(bucket) => self.stop_pulling_from(&self.address.bucket(bucket)).await,
            Part::Entrance | Part::Owner => self.stop_pulling_from(&self.address.queue()).await,
            Part::Worker(worker) => {
                let own = self.address.worker(worker).queue();
                self.stop_pulling_from(&own).await;
                let others = self.shares.as_ref().map(Shares::list).unwrap_or_default();
                let is_other =
                    |other: &Part| matches!(other, Part::Worker(number) if *number != worker);
                if !self.is_routed() && !others.iter().any(is_other) {
                    self.stop_pulling_from(&self.address.queue()).await;
                }
            }
        }
    }
}

fn fenced(bucket: Name) -> BusError {
    BusError::Fenced {
        bucket,
        given: 0,
        current: 0,
    }
}
