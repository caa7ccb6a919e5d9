//! Support for tests that drive the real binary.
