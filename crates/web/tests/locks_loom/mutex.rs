//! A mutex of loom that looks like the one of parking_lot.

pub use loom::sync::MutexGuard;

pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0
            .lock()
            .expect("no thread of a model panics within it")
    }
}
