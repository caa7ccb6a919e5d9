//! Structures to share.
