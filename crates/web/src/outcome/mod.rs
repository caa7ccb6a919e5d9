//! What handlers give back.
