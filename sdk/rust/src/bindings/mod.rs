//! What wit-bindgen makes of the worlds. A test in `sdk/build` writes these files and checks that
//! they are up to date.
#![allow(unsafe_code, missing_docs, dead_code, clippy::all, rust_2018_idioms)]

#[rustfmt::skip]
pub mod router;
#[rustfmt::skip]
pub mod worker;
