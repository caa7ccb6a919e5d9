//! State that is read, and state that is written.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::extract::{Asked, Problem};
use crate::locks::{Mode, Want};

use super::declare::{Access, Scope};
use super::name::short_name;
use super::param::{Param, Wants};
use super::states::States;
use super::storage::{Held, StateCell};

/// State that a handler reads. Other handlers may read it at the same time, and none writes it.
///
/// What takes long is better computed without the lock: see [`Read::compute`].
pub struct Read<'r, T> {
    value: &'r T,
    cell: &'r Arc<StateCell<T>>,
}

impl<T> Read<'_, T> {
    pub(crate) fn cell(&self) -> &Arc<StateCell<T>> {
        self.cell
    }
}

impl<T> Deref for Read<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: Send + Sync + 'static> Param for Read<'_, T> {
    type Item<'r> = Read<'r, T>;
    type Site = Arc<StateCell<T>>;
    type Prepared = ();

    fn declare(access: &mut Access) {
        let parameter = format!("Read<{}>", short_name::<T>());
        access.takes::<T>(parameter, Mode::Read, Scope::Whole);
    }

    fn bind(states: &States) -> Self::Site {
        states.get()
    }

    fn wants(site: &Self::Site, wants: &mut Wants) {
        wants.add(whole(site, Mode::Read));
    }

    #[inline]
    fn prepare(_: &Self::Site, _: &mut Asked, _: &mut Wants) -> Result<(), Problem> {
        Ok(())
    }

    #[inline]
    fn fetch<'r>(
        site: &'r Self::Site,
        _: &'r mut (),
        held: &'r Held,
    ) -> Result<Read<'r, T>, Problem> {
        site.check_health()?;
        Ok(Read {
            value: held.read(site),
            cell: site,
        })
    }
}

/// State that a handler writes. Nobody else has it at the same time.
pub struct Write<'r, T> {
    value: &'r mut T,
}

impl<T> Deref for Write<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Write<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T: Send + Sync + 'static> Param for Write<'_, T> {
    type Item<'r> = Write<'r, T>;
    type Site = Arc<StateCell<T>>;
    type Prepared = ();

    fn declare(access: &mut Access) {
        let parameter = format!("Write<{}>", short_name::<T>());
        access.takes::<T>(parameter, Mode::Write, Scope::Whole);
    }

    fn bind(states: &States) -> Self::Site {
        states.get()
    }

    fn wants(site: &Self::Site, wants: &mut Wants) {
        wants.add(whole(site, Mode::Write));
    }

    #[inline]
    fn prepare(_: &Self::Site, _: &mut Asked, _: &mut Wants) -> Result<(), Problem> {
        Ok(())
    }

    #[inline]
    fn fetch<'r>(
        site: &'r Self::Site,
        _: &'r mut (),
        held: &'r Held,
    ) -> Result<Write<'r, T>, Problem> {
        site.check_health()?;
        Ok(Write {
            value: site.to_write(held),
        })
    }

    fn panicked(site: &Self::Site, held: &mut Held, by: &str) {
        site.mend(held, by);
    }
}

/// The want of a whole state.
fn whole<T>(cell: &StateCell<T>, mode: Mode) -> Want {
    Want {
        lock: cell.lock,
        mode,
        key: None,
    }
}

impl<T: Send + Sync + 'static> StateCell<T> {
    /// What a commit wants.
    pub(crate) fn want_to_write(&self) -> Want {
        whole(self, Mode::Write)
    }

    /// Runs this with the state, when its lock is held. A panic of it is dealt with as the state says.
    pub(crate) fn write_with(
        &self,
        mut held: Held,
        by: &str,
        change: impl FnOnce(&mut T),
    ) -> Result<(), Problem> {
        self.check_health()?;
        let changing = std::panic::AssertUnwindSafe(|| change(self.to_write(&held)));
        match std::panic::catch_unwind(changing) {
            Ok(()) => Ok(()),
            Err(_) => {
                self.mend(&mut held, by);
                Err(Problem::panicked())
            }
        }
    }

    pub(crate) fn locks(&self) -> &Arc<crate::locks::Locks> {
        &self.locks
    }
}
