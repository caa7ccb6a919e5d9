//! What many may use at the same time without a lock of the service.

use std::ops::Deref;

/// A state that many handlers may use at the same time, without waiting for each other in the lines of the service.
///
/// Implement it for a type of your own if each of its methods that takes `&self` is whole by itself: made of atomics, of
/// structures of this module, or of a short lock inside.
pub trait Concurrent: Send + Sync + 'static {}

/// A structure in the hands of many at the same time.
///
/// It has the methods that change the structure by `&self`. Each is one step that others see wholly or not
/// at all, but between two steps others may take theirs: `get` followed by `insert` loses what another inserted
/// in between, where `update` does not. All methods that only read are there too.
pub struct Concurrently<'r, T: ?Sized>(&'r T);

impl<'r, T: ?Sized> Concurrently<'r, T> {
    /// The structure, to be used along with others.
    pub fn new(shared: &'r T) -> Self {
        Self(shared)
    }

    /// The structure itself, for as long as it was lent.
    pub(super) fn inner(&self) -> &'r T {
        self.0
    }
}

impl<T: ?Sized> Clone for Concurrently<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Concurrently<'_, T> {}

impl<T: ?Sized> Deref for Concurrently<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}
