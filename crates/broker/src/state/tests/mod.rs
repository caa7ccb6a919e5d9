//! State that goes to disk, against a model, with crashes at every step of a move.

mod budget;
mod model;
mod refusals;
mod rig;
