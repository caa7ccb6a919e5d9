//! Built-in plug-ins in the real runtime: whole flows, with restarts and changes of size in the middle.

mod bus_ends;
mod chains;
mod examples;
mod meeting;
mod rig;
mod windows;
