//! State that is used by many at once, without a lock.

use std::ops::Deref;
use std::sync::Arc;

use crate::extract::{Asked, Problem};
use crate::locks::Mode;
use crate::shared::{Concurrent, Concurrently};

use super::declare::{Access, Scope};
use super::name::short_name;
use super::param::{Param, Wants};
use super::states::States;
use super::storage::{Held, StateCell};

/// State that sees to concurrent use by itself. A handler that takes no other state is stateless: it waits for nobody.
///
/// A state that is used so can nowhere be taken as [`Write`](super::Write).
pub struct Shared<'r, T> {
    value: Concurrently<'r, T>,
}

impl<'r, T> Deref for Shared<'r, T> {
    type Target = Concurrently<'r, T>;

    fn deref(&self) -> &Self::Target {
        &self.value
    }
}

impl<T: Concurrent> Param for Shared<'_, T> {
    type Item<'r> = Shared<'r, T>;
    type Site = Arc<StateCell<T>>;
    type Prepared = ();

    fn declare(access: &mut Access) {
        let parameter = format!("Shared<{}>", short_name::<T>());
        access.takes::<T>(parameter, Mode::Read, Scope::Concurrent);
    }

    fn bind(states: &States) -> Self::Site {
        states.get()
    }

    fn wants(_: &Self::Site, _: &mut Wants) {}

    #[inline]
    fn prepare(_: &Self::Site, _: &mut Asked, _: &mut Wants) -> Result<(), Problem> {
        Ok(())
    }

    #[inline]
    fn fetch<'r>(
        site: &'r Self::Site,
        _: &'r mut (),
        held: &'r Held,
    ) -> Result<Shared<'r, T>, Problem> {
        site.check_health()?;
        Ok(Shared {
            value: Concurrently::new(held.concurrent(site)),
        })
    }
}
