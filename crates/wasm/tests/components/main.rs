//! Real components, built from source, behind the contract of a worker.

mod behaviour;
mod hostile;
mod refused;
mod router;
mod support;
mod wasi;
