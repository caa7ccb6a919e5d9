//! What workers of one node write together, such as a database that takes one writer.

use std::any::Any;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use flows::plugins::Environment;
use parking_lot::Mutex;

/// Things by where they are. One that nobody has any more is gone.
pub(super) struct Shared<K, T>(Mutex<HashMap<K, Weak<T>>>);

impl<K, T> Shared<K, T>
where
    K: Eq + Hash + Send + 'static,
    T: Any + Default + Send + Sync,
{
    /// The one of this node under this key.
    pub fn get(environment: &Environment, key: K) -> Arc<T> {
        let shared = environment.shared.get_or_make(|| Self(Mutex::default()));
        let mut things = shared.0.lock();
        if let Some(thing) = things.get(&key).and_then(Weak::upgrade) {
            return thing;
        }
        things.retain(|_, thing| thing.strong_count() > 0);
        let thing = Arc::new(T::default());
        things.insert(key, Arc::downgrade(&thing));
        thing
    }
}
