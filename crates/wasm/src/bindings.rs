//! Types and calls made from the world's WIT, so that host and guest cannot differ.
//!
//! What goes into a component is borrowed: a message is written into the guest's memory without a
//! copy of its own on the way.

// The derived code implements wasmtime's unsafe traits; none of it is written by hand.
#![allow(unsafe_code, missing_docs)]

/// The world of a worker.
pub(crate) mod worker {
    wasmtime::component::bindgen!({
        path: "../../sdk/wit",
        world: "hivewire:worker/worker",
        ownership: Borrowing { duplicate_if_necessary: false },
        imports: { default: trappable },
    });
}

/// What a worker may export beside its world.
pub(crate) mod bulk {
    wasmtime::component::bindgen!({
        path: "../../sdk/wit",
        world: "hivewire:worker/bulk",
        with: { "hivewire:worker/types": super::worker::hivewire::worker::types },
    });
}

/// The world of a router.
pub(crate) mod router {
    wasmtime::component::bindgen!({
        path: "../../sdk/wit",
        world: "hivewire:worker/router",
        ownership: Borrowing { duplicate_if_necessary: false },
        with: { "hivewire:worker/types": super::worker::hivewire::worker::types },
    });
}
