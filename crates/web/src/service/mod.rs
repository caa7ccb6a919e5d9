//! Routes, their handlers and their state, put together.
