//! Limits that hold for every protocol, each with its unit in its name.
//!
//! What an operator may want to change stands in the configuration; what is here bounds the
//! formats themselves.

/// The longest name of a queue, topic or bucket.
pub const NAME_BYTES_MAX: usize = 255;

/// The longest name of a header.
pub const HEADER_NAME_BYTES_MAX: usize = u16::MAX as usize;

/// All headers of one message together.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;

/// The largest body, unless the configuration says less.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
