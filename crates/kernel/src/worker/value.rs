//! What a message holds as long as it stays among native workers of one process.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

/// What a message holds instead of a body, from one native worker to another in the same process.
/// It becomes a body as soon as somebody needs one: the bus, a component, the dead letters, or native
/// code that does not [take values](super::Code::takes_values).
pub trait Value: Any + Send + Sync + fmt::Debug {
    /// The body that it stands for.
    fn encode(&self) -> Bytes;

    /// About how many bytes it counts for against limits.
    fn len_bytes(&self) -> usize;

    /// The key that a JSON pointer of these parts leads to, written as in a body; it must be the one
    /// that is found in what [`Value::encode`] gives. Whoever cannot tell leaves it to others to look there.
    fn key_at(&self, _pointer: &[Box<str>]) -> KeyAt<'_> {
        KeyAt::Unknown
    }
}

impl dyn Value {
    /// The value as what it is, if it is that.
    pub fn downcast_ref<T: Value>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// What lies at some place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyAt<'a> {
    /// This text.
    Text(Cow<'a, str>),
    /// Nothing that could be a key.
    Nothing,
    /// The value cannot tell; its body has to be looked into.
    Unknown,
}
