//! The plug-ins of the crawler: one file each, and one line each in [`PLUGINS`].

use flows::plugins::BuiltIn;

/// All of them, in the order in which they are explained.
pub static PLUGINS: &[BuiltIn] = &[];
