//! Computing without the lock, then committing with it.

use std::any::{Any, TypeId};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use axum::response::IntoResponse;

use crate::access::{Access, Claim, Held, Read, StateCell};
use crate::extract::Problem;

use super::Reply;
use super::answer::Answer;
use super::effect::{Effect, Outcome};

/// A value, at once or after it has been computed.
///
/// It is made of a state that was read: the lock is released, the value is computed on the event loops without any lock, then
/// the state is locked for writing and the value committed, then the request is answered with it. Requests of the same route
/// with the same key that come meanwhile wait for that one computation, and are answered with the same value.
///
/// ```
/// use std::collections::HashMap;
/// use web::{Path, Read, Then};
///
/// type Cache = HashMap<u32, u64>;
///
/// fn fib(cache: Read<Cache>, Path(n): Path<u32>) -> Then<u64> {
///     if let Some(value) = cache.get(&n) {
///         return Then::now(*value);
///     }
///     cache.compute(n, move || fibonacci(n)).commit(move |cache: &mut Cache, value: &u64| {
///         cache.insert(n, *value);
///     })
/// }
///
/// fn fibonacci(n: u32) -> u64 {
///     if n < 2 { u64::from(n) } else { fibonacci(n - 1) + fibonacci(n - 2) }
/// }
/// # web::Service::new().share(Cache::new()).get("/fib/{n}", fib).build().unwrap();
/// ```
///
/// Requests with the same key can come again between the computation and the time when they read what was committed, so a
/// commit may find its value there already.
pub struct Then<T> {
    step: Step<T>,
}

enum Step<T> {
    Now(T),
    Reply(Reply),
    Later(Box<dyn Computation>),
}

impl<T: Answer> Then<T> {
    /// The value is known.
    pub fn now(value: T) -> Self {
        Self {
            step: Step::Now(value),
        }
    }

    /// Something else is answered, such as a [`Problem`].
    pub fn reply(reply: impl IntoResponse) -> Self {
        Self {
            step: Step::Reply(reply.into_response()),
        }
    }
}

impl<S: Send + Sync + 'static> Read<'_, S> {
    /// Computes something without the lock of this state. `key` says what: requests with the same key share one computation.
    ///
    /// It may block and take as long as it likes.
    pub fn compute<K, T, F>(&self, key: K, compute: F) -> Compute<S, K, T, F>
    where
        K: Hash + Eq + Send + Sync + 'static,
        T: Answer,
        F: FnOnce() -> T + Send + 'static,
    {
        Compute {
            cell: Arc::clone(self.cell()),
            key,
            compute,
            value: PhantomData,
        }
    }
}

/// Something to be computed, of which it has to be said what its commit is.
#[must_use = "say what is to be done with the value: `.commit(|state, value| …)`"]
pub struct Compute<S, K, T, F> {
    cell: Arc<StateCell<S>>,
    key: K,
    compute: F,
    value: PhantomData<fn() -> T>,
}

impl<S, K, T, F> Compute<S, K, T, F>
where
    S: Send + Sync + 'static,
    K: Hash + Eq + Send + Sync + 'static,
    T: Answer,
    F: FnOnce() -> T + Send + 'static,
{
    /// Puts the value into the state, which nobody else has at that time.
    pub fn commit(self, commit: impl FnOnce(&mut S, &T) + Send + 'static) -> Then<T> {
        let planned = Planned {
            cell: self.cell,
            key: Some(self.key),
            compute: self.compute,
            commit,
            value: PhantomData,
        };
        Then {
            step: Step::Later(Box::new(planned)),
        }
    }
}

impl<T: Answer> Outcome for Then<T> {
    fn declare(access: &mut Access) {
        access.commits();
    }

    fn effect(self) -> Effect {
        match self.step {
            Step::Now(value) => Effect::Reply(value.answer()),
            Step::Reply(reply) => Effect::Reply(reply),
            Step::Later(computation) => Effect::Compute(computation),
        }
    }
}

/// A key whose type is not known.
pub trait DynKey: Send + Sync {
    fn hash_into(&self, hasher: &mut dyn Hasher);
    fn is(&self, other: &dyn DynKey) -> bool;
    fn as_any(&self) -> &dyn Any;
}

impl<K: Hash + Eq + Send + Sync + 'static> DynKey for K {
    fn hash_into(&self, mut hasher: &mut dyn Hasher) {
        self.hash(&mut hasher);
    }

    fn is(&self, other: &dyn DynKey) -> bool {
        other.as_any().downcast_ref::<K>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Something to be computed, whose types are not known.
pub trait Computation: Send {
    /// What is computed. It is asked for once.
    fn take_key(&mut self) -> Arc<dyn DynKey>;
    /// Computes it.
    fn compute(self: Box<Self>) -> Box<dyn Computed>;
}

/// Something that was computed, to be committed.
pub trait Computed: Send {
    /// The locks that the commit needs.
    fn claim(&self) -> Claim;
    /// Commits it; gives what is answered.
    fn commit(self: Box<Self>, held: Held, by: &str) -> Result<Arc<dyn Answer>, Problem>;
}

struct Planned<S, K, T, F, G> {
    cell: Arc<StateCell<S>>,
    key: Option<K>,
    compute: F,
    commit: G,
    value: PhantomData<fn() -> T>,
}

impl<S, K, T, F, G> Computation for Planned<S, K, T, F, G>
where
    S: Send + Sync + 'static,
    K: Hash + Eq + Send + Sync + 'static,
    T: Answer,
    F: FnOnce() -> T + Send + 'static,
    G: FnOnce(&mut S, &T) + Send + 'static,
{
    fn take_key(&mut self) -> Arc<dyn DynKey> {
        let key = self.key.take().expect("the key is asked for once");
        // States of different types may have keys of the same type.
        Arc::new((TypeId::of::<S>(), key))
    }

    fn compute(self: Box<Self>) -> Box<dyn Computed> {
        let value = (self.compute)();
        Box::new(Done {
            cell: self.cell,
            value,
            commit: self.commit,
        })
    }
}

struct Done<S, T, G> {
    cell: Arc<StateCell<S>>,
    value: T,
    commit: G,
}

impl<S, T, G> Computed for Done<S, T, G>
where
    S: Send + Sync + 'static,
    T: Answer,
    G: FnOnce(&mut S, &T) + Send + 'static,
{
    fn claim(&self) -> Claim {
        let want = self.cell.want_to_write();
        Claim::new(self.cell.locks(), &[want]).expect("one want is a claim")
    }

    fn commit(self: Box<Self>, held: Held, by: &str) -> Result<Arc<dyn Answer>, Problem> {
        let Self {
            cell,
            value,
            commit,
        } = *self;
        cell.write_with(held, by, |state| commit(state, &value))?;
        Ok(Arc::new(value))
    }
}
