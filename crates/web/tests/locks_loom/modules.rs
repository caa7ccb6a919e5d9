// The files of `src/locks`, all but `sync.rs`, which is given by whoever includes this.

#[path = "../../src/locks/keys.rs"]
mod keys;
#[path = "../../src/locks/line.rs"]
mod line;
#[path = "../../src/locks/locks.rs"]
mod locks;
#[path = "../../src/locks/numbers.rs"]
mod numbers;
#[path = "../../src/locks/plan.rs"]
mod plan;
#[path = "../../src/locks/request.rs"]
mod request;
#[path = "../../src/locks/state.rs"]
mod state;
#[path = "../../src/locks/taken.rs"]
mod taken;
#[path = "../../src/locks/word.rs"]
mod word;

pub use locks::LocksBuilder;
pub use plan::{LockId, Mode, Plan, Want};
pub use taken::Taken;
