//! STOMP byte by byte: what goes in is written here as it stands on the wire, and so is what has to
//! come back.

mod additions;
mod endings;
mod errors;
mod frames;
mod heart_beats;
mod wire;
