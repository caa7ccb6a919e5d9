//! Locks of shared state: all of a request at once, first come, first served, and no thread waits.
