//! Threads that run handlers.
