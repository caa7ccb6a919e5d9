//! Workers on the embedded engine, in one process.

#[path = "suite/rig.rs"]
mod rig;

#[path = "suite/asking.rs"]
mod asking;
#[path = "suite/back_pressure.rs"]
mod back_pressure;
#[path = "suite/books.rs"]
mod books;
#[path = "suite/children.rs"]
mod children;
#[path = "suite/handing_over.rs"]
mod handing_over;
#[path = "suite/idle.rs"]
mod idle;
#[path = "suite/interrupted.rs"]
mod interrupted;
#[path = "suite/keyed.rs"]
mod keyed;
#[path = "suite/providing.rs"]
mod providing;
#[path = "suite/routed.rs"]
mod routed;
#[path = "suite/scaling.rs"]
mod scaling;
#[path = "suite/series.rs"]
mod series;
#[path = "suite/shared.rs"]
mod shared;
#[path = "suite/slow_commits.rs"]
mod slow_commits;
#[path = "suite/standing.rs"]
mod standing;
#[path = "suite/supervising.rs"]
mod supervising;
#[path = "suite/talking.rs"]
mod talking;
#[path = "suite/waking.rs"]
mod waking;
