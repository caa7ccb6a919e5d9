//! What the services of all peers have in common: options, work, and state behind a lock.
//!
//! Each program `NAME --listen ADDRESS --workers COUNT [--blocking COUNT | --inline]` serves these routes:
//!
//! | route | state | answer |
//! |---|---|---|
//! | `GET /plain` | none | `Hello, World!` |
//! | `GET /fib/{n}?rounds=` | none | Fibonacci number `n`, computed so many times |
//! | `GET /cached/fib/{n}?rounds=&seed=` | read, and written after computing if it was not there | the same |
//! | `GET /scimark/{kernel}?seed=` | none | the result's bits as 16 hexadecimal digits |
//! | `GET /sf1/{kernel}?seed=` | held shared while computing | the same |
//! | `POST /sf1/{kernel}?seed=` | held exclusively while computing and storing | the same |
//! | `GET /sf2/{kernel}?seed=` | none | the same |
//! | `POST /sf2/{kernel}?seed=` | held exclusively while computing and storing | the same |
//! | `POST /then/{kernel}?seed=` | held exclusively while storing, not while computing | the same |
//! | `GET /stored` | read | how often something was stored |

#[path = "../../../../examples/services/fibonacci/fibonacci.rs"]
pub mod fibonacci;
#[path = "../../../../examples/services/scimark/kernels.rs"]
pub mod kernels;
pub mod options;
pub mod state;

/// What the plain route answers.
pub const PLAIN: &str = "Hello, World!";
