//! stub
pub(crate) fn cli() -> String { String::new() }
pub(crate) fn configuration() -> String { String::new() }
