//! What a handler touches, derived from its parameters.
