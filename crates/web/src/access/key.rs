//! One key of a state.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::extract::{Asked, Extract, Path, PathId, Problem};
use crate::locks::{Mode, Want};
use crate::shared::Keyed;

use super::declare::{Access, Scope};
use super::name::short_name;
use super::param::{Param, Wants};
use super::read_write::{Read, Write};
use super::states::States;
use super::storage::{Held, StateCell};

/// How a key is taken: `Read<State>` or `Write<State>`.
pub trait KeyMode {
    /// The state whose key it is.
    type State: Keyed;
    /// Whether it is read or written.
    const MODE: Mode;
    /// The word for it.
    const WORD: &'static str;
}

impl<T: Keyed> KeyMode for Read<'_, T> {
    type State = T;
    const MODE: Mode = Mode::Read;
    const WORD: &'static str = "Read";
}

impl<T: Keyed> KeyMode for Write<'_, T> {
    type State = T;
    const MODE: Mode = Mode::Write;
    const WORD: &'static str = "Write";
}

/// What in a request names a key. Implement it for types of your own, beside [`Extract`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` gives no key of type `{K}`",
    note = "use `Path<{K}>` or `PathId<{K}>`, or implement `web::KeySource<{K}>` for `{Self}`"
)]
pub trait KeySource<K>: Extract {
    /// The key.
    fn into_key(self) -> K;
}

impl<K: serde::de::DeserializeOwned + Send + 'static> KeySource<K> for Path<K> {
    fn into_key(self) -> K {
        self.0
    }
}

impl<K: serde::de::DeserializeOwned + Send + 'static> KeySource<K> for PathId<K> {
    fn into_key(self) -> K {
        self.0
    }
}

/// One entry of a state, such as a map: `Key<Write<Accounts>, PathId>` is the entry whose key stands as `{id}` in the path.
/// Only that key is locked, so requests with other keys run at the same time.
///
/// A handler may take several keys of a state; a request that names the same key twice is refused, unless both only read.
pub struct Key<'r, A: KeyMode, P> {
    entry: <A::State as Keyed>::Entry<'r>,
    key: &'r <A::State as Keyed>::Key,
    source: PhantomData<fn() -> P>,
}

impl<A: KeyMode, P> Key<'_, A, P> {
    /// The key that the request named.
    pub fn key(&self) -> &<A::State as Keyed>::Key {
        self.key
    }
}

impl<'r, A: KeyMode, P> Deref for Key<'r, A, P> {
    type Target = <A::State as Keyed>::Entry<'r>;

    fn deref(&self) -> &Self::Target {
        &self.entry
    }
}

impl<T: Keyed, P> DerefMut for Key<'_, Write<'_, T>, P> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entry
    }
}

impl<A: KeyMode + 'static, P> Param for Key<'_, A, P>
where
    P: KeySource<<A::State as Keyed>::Key>,
{
    type Item<'r> = Key<'r, A, P>;
    type Site = Arc<StateCell<A::State>>;
    type Prepared = <A::State as Keyed>::Key;

    fn declare(access: &mut Access) {
        let state = short_name::<A::State>();
        let parameter = format!("Key<{}<{state}>, {}>", A::WORD, short_name::<P>());
        access.takes::<A::State>(parameter, A::MODE, Scope::Key);
        if P::READS_BODY {
            access.reads_body();
        }
    }

    fn bind(states: &States) -> Self::Site {
        states.get()
    }

    fn wants(_: &Self::Site, _: &mut Wants) {}

    fn prepare(
        site: &Self::Site,
        asked: &mut Asked,
        wants: &mut Wants,
    ) -> Result<Self::Prepared, Problem> {
        let key = P::extract(asked)?.into_key();
        wants.add(Want {
            lock: site.lock,
            mode: A::MODE,
            key: Some(A::State::hash_of(&key)),
        });
        Ok(key)
    }

    fn fetch<'r>(
        site: &'r Self::Site,
        prepared: &'r mut Self::Prepared,
        held: &'r Held,
    ) -> Result<Key<'r, A, P>, Problem> {
        site.check_health()?;
        let key = &*prepared;
        Ok(Key {
            entry: held.keyed(site).entry(key),
            key,
            source: PhantomData,
        })
    }

    fn panicked(site: &Self::Site, _held: &mut Held, by: &str) {
        if A::MODE == Mode::Write {
            site.mend_later(by);
        }
    }
}
