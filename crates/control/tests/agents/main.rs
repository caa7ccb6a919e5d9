//! Several nodes in one process, over one broker.

mod killed;
mod memory;
mod mortal;
mod rig;
mod sharing;
