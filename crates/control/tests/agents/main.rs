//! Several nodes in one process, over one broker.

mod killed;
mod mortal;
mod rig;
mod sharing;
