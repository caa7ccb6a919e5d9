//! Services: ours and the same ones with axum, with actix-web and with Node, each in a process of its own.
//!
//! `bench/peers/services/src/lib.rs` lists the routes that all of them serve. [`load`] puts an open or a closed loop of requests on
//! one of them, and [`answers`] looks whether all give the same answers before. What is asked is in [`workloads`]; [`runs`] keeps
//! how it went for all cases that look at the same runs, and [`plots`] draws it. [`locks`] takes locks within this process.

pub mod answer;
pub mod answers;
pub mod calibration;
pub mod connection;
#[path = "../../../examples/services/fibonacci/fibonacci.rs"]
pub mod fibonacci;
#[path = "../../../examples/services/scimark/kernels.rs"]
pub mod kernels;
pub mod load;
pub mod locks;
pub mod outcome;
pub mod plots;
pub mod runs;
pub mod schedule;
pub mod watch;
pub mod workloads;
